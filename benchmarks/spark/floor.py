"""The floor: the time that Spark takes to read a batch, split it by key and pass it to Python, which discards it.

The cost of a pattern is added to this.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.spark.session import Batch, describe, local_session, run_stream
from benchmarks.spark.ticks import write_ticks

KEY_GROUPS = 1024


def run(
    spark: SparkSession, folder: Path, checkpoint: Path, *, engines: int = 2, files_per_batch: int = 1
) -> tuple[Batch, ...]:
    """The batches of a query that routes every tick and returns nothing."""

    def empty_batch(batch: DataFrame, _number: int) -> None:
        split = batch.withColumn("engine", engine_of(engines)).repartitionById(engines, "engine")
        split.mapInArrow(swallow, "found BIGINT").write.format("noop").mode("overwrite").save()

    return run_stream(
        spark,
        folder,
        checkpoint,
        lambda ticks: ticks.writeStream.foreachBatch(empty_batch),
        files_per_batch=files_per_batch,
    )


def engine_of(engines: int, key_groups: int = KEY_GROUPS) -> Column:
    """The engine of a tick's symbol: its key group by hash, then the engine of the group by a table."""
    placement = [group % engines for group in range(key_groups)]
    group = f.pmod(f.xxhash64("symbol"), f.lit(key_groups)).cast("int")
    return f.element_at(f.from_json(f.lit(json.dumps(placement)), "array<int>"), group + 1)


def swallow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read all rows, and return none."""
    for _ in batches:
        pass
    yield from ()


def main() -> None:
    """Run it on 4 x 100,000 ticks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_ticks(folder / "ticks", 4, 100_000, 10_000)
        print(describe("floor", run(local_session(), folder / "ticks", folder / "checkpoint")))


if __name__ == "__main__":
    main()
