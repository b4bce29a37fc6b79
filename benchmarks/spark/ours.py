"""trimtab's side: the V-shape as a job over the same files, on the same session, timed by Spark's own clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import trimtab
from benchmarks.spark.pattern import MATCH_COLUMNS, V_SHAPE, Match
from benchmarks.spark.session import Batch, batches_of, ticks_of
from trimtab.api.run import Run
from trimtab.driver.progress import BatchProgress

Watch = Callable[[Run, int], None]
"""Called by the sink after every batch, with its number: a change takes effect in the next batch."""


def run(
    spark: SparkSession,
    folder: Path,
    checkpoint: Path,
    *,
    engines: int = 2,
    output: Path | None = None,
    close: bool = False,
    watch: Watch | None = None,
) -> tuple[tuple[Batch, ...], tuple[BatchProgress, ...]]:
    """The batches by Spark's clock and by ours. Matches are written as parquet: there is no sink that discards them."""
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=engines)
    job.stream("ticks", ticks_of(spark, folder), event_time="ts")
    query = job.query("drops", V_SHAPE).write("parquet", path=str(output or checkpoint.with_name("found")))
    held: list[Run] = []
    if watch is not None:
        called = watch
        query.write(lambda _frame, number: called(held[0], number) if held else None)
    started = job.start(available_now=True, close=close)
    held.append(started)
    started.await_termination()
    return batches_of(started.streaming_queries["ticks"]), tuple(started.history)


def matches(folder: Path) -> list[Match]:
    """The matches that a run wrote, sorted."""
    table = pq.read_table(folder).select(list(MATCH_COLUMNS))
    columns: dict[str, Any] = {name: table[name].to_pylist() for name in ("symbol", "top", "bottom", "back")}
    for name in ("began", "ended"):
        columns[name] = table[name].cast("timestamp[us]").cast("int64").to_pylist()
    return sorted(zip(*(columns[name] for name in MATCH_COLUMNS), strict=True))
