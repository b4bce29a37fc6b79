"""How Spark itself changes the number of partitions of a stateful query: stop, rewrite all state, restart.

`spark._streamingCheckpointManager.repartition` (new in Spark 4.2, experimental) rewrites the state of a stopped query.
It requires RocksDB and another number of partitions than before, and the query has to be started again by hand.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.spark.session import batches_of, local_session, ticks_of
from benchmarks.spark.ticks import write_every_key, write_uniform
from benchmarks.spark.transform_with_state import v_shapes

_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a stream is stopped for it, step by step."""

    partitions: tuple[int, int]
    """Before and after."""
    keys: tuple[int, int]
    """In the state, before and after: the second batch may add and remove some."""
    stop_s: float
    repartition_s: float
    restart_s: float
    """From the start of the query to the end of its first batch."""
    plain_batch_s: float
    """A batch with as many rows before that, for comparison."""

    @property
    def total_s(self) -> float:
        """All three steps."""
        return self.stop_s + self.repartition_s + self.restart_s


def run(spark: SparkSession, folder: Path, checkpoint: Path, later: Path, *, partitions: int = 4) -> Pause:
    """Read the folder's files, stop, repartition, restart, and read `later`, which is moved into the folder.

    The checkpoint may hold state already: then only new files are read.
    """
    query = _start(spark, folder, checkpoint)
    query.processAllAvailable()
    before, plain_batch_ms = _state(query), batches_of(query)[-1].trigger_ms
    began = time.perf_counter()
    query.stop()
    query.awaitTermination()
    stopped = time.perf_counter()
    spark._streamingCheckpointManager.repartition(str(checkpoint), partitions)
    repartitioned = time.perf_counter()
    later.rename(folder / later.name)
    restarting = time.perf_counter()
    query = _start(spark, folder, checkpoint)
    try:
        _await_rows(query)
        restarted = time.perf_counter()
        after = _state(query)
    finally:
        query.stop()
    assert after[0] == partitions, "the query still has as many partitions as before"
    return Pause(
        (before[0], after[0]),
        (before[1], after[1]),
        stopped - began,
        repartitioned - stopped,
        restarted - restarting,
        plain_batch_ms / 1000,
    )


def _state(query: StreamingQuery) -> tuple[int, int]:
    """Partitions and keys, as of the last batch."""
    progress = query.lastProgress
    assert progress is not None
    (operator,) = progress["stateOperators"]
    return int(operator["numShufflePartitions"]), int(operator["numRowsTotal"])


def _start(spark: SparkSession, folder: Path, checkpoint: Path) -> StreamingQuery:
    writer = v_shapes(ticks_of(spark, folder)).writeStream.format("noop")
    return writer.option("checkpointLocation", str(checkpoint)).start()


def _await_rows(query: StreamingQuery) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not batches_of(query):
        error = query.exception()
        if error is not None:
            raise error
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no batch ended within {_PATIENCE_S:.0f} s of the restart")
        time.sleep(0.01)


def main() -> None:
    """Run it on 20,000 live keys."""
    keys, rows = 20_000, 5_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_every_key(folder / "ticks", keys)
        write_uniform(folder / "ticks", 2, rows, keys, first_row=keys)
        (later,) = write_uniform(folder / "later", 1, rows, keys, first_row=keys + 2 * rows)
        print(run(local_session(), folder / "ticks", folder / "checkpoint", later))


if __name__ == "__main__":
    main()
