"""The Spark jobs of one batch: rows are computed in the JVM, shuffled to their engines, and every engine reports."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark import Accumulator, TaskContext
from pyspark.sql import DataFrame, SparkSession

from trimtab.spark import lost_workers
from trimtab.spark.tier_one import TierOne
from trimtab.worker.engine import run_engine
from trimtab.worker.orders import EngineReport, Head, Orders
from trimtab.worker.pauses import avoid_pauses

Pinned = Callable[[DataFrame, int], DataFrame]
"""Names an executor for each partition of a frame, whose partitions are this many engines."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What engines reported, in order, the head of all rows, and how long Spark took to plan the jobs."""

    reports: tuple[EngineReport, ...]
    head: Head
    planning_s: float


def run_jobs(
    tier_one: TierOne, frame: DataFrame, orders: Orders, pinned: Pinned, read: Accumulator[Head] | None
) -> Ran:
    """Send the rows of a batch to their engines and collect a report from each.

    read   what tasks add the heads of what they read to, if trimtab itself reads the rows; None: Spark does

    Retried if a worker or executor is lost. Raises the error that an engine reports.
    """
    ran = lost_workers.retried(lambda: _run(tier_one, frame, orders, pinned, read))
    if not ran.reports:
        # Spark found the batch empty and ran nothing, but engines must run: time-outs may be due.
        none = no_rows(frame.sparkSession, frame.schema)
        ran = lost_workers.retried(lambda: _run(tier_one, none, orders, pinned, read))
    for report in ran.reports:
        if report.error is not None:
            raise report.error
    return ran


def _run(tier_one: TierOne, frame: DataFrame, orders: Orders, pinned: Pinned, read: Accumulator[Head] | None) -> Ran:
    began_s = time.perf_counter()
    if read is not None:
        read.value = Head()
    shuffle = tier_one.shuffle(frame, orders)
    planning_s = time.perf_counter() - began_s
    if shuffle is None:
        return Ran((), Head(), planning_s)
    shuffle.run()
    head = tier_one.head(frame, shuffle, orders.time)
    if read is not None:
        head = replace(head, newest_us=read.value.newest_us, measures=read.value.measures)
    sent = replace(orders, head=head)

    def engine(batches: Any) -> Any:
        avoid_pauses()
        context = TaskContext.get()
        assert context is not None
        return run_engine(sent, context.partitionId(), batches)

    found = pinned(shuffle.reports(engine), orders.engines)._collect_as_arrow()  # type: ignore[operator]
    reports = [pickle.loads(each.as_py()) for batch in found for each in batch.column("report")]
    return Ran(tuple(sorted(reports, key=lambda report: report.engine)), head, planning_s)


def no_rows(spark: SparkSession, schema: Any) -> DataFrame:
    """A batch that is empty, which Spark's planner doesn't know: otherwise it would run no tasks."""
    return spark.createDataFrame(spark.sparkContext.parallelize([], 1), schema)
