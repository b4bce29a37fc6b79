"""The Spark job of one batch that stays in columns: tasks read ranges as Arrow, and send blobs of it to the engines.

One job of two stages: no row becomes a Java object. A small batch is read by the driver, and is one stage.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark import SparkContext

from trimtab.sources.source import Range
from trimtab.spark import lost_workers
from trimtab.spark.engine_jobs import Ran
from trimtab.worker.exchange import Parcel, Reading, pieces, run_with_parcels
from trimtab.worker.orders import Head

SMALL = 20_000
"""Up to this many rows are read by the driver: a second stage would take longer than they do."""


def run_columns(context: SparkContext, reading: Reading, expected_rows: float) -> Ran:
    """Let tasks read the ranges of a batch, send the rows to their engines, and collect a report from each.

    Retried if a worker or executor is lost. Raises the error that an engine reports.
    """
    began_s = time.perf_counter()
    ranges = reading.orders.ranges
    is_small = not ranges or expected_rows <= SMALL
    sent = _by_driver(context, reading, ranges) if is_small else _by_tasks(context, reading, ranges)
    orders = reading.orders

    def engine(number: int, parcels: Iterator[tuple[int, Parcel]]) -> Iterator[tuple[Head, bytes]]:
        yield run_with_parcels(orders, number, [parcel for _, parcel in parcels])

    job: Any = sent.mapPartitionsWithIndex(engine, preservesPartitioning=True)
    planning_s = time.perf_counter() - began_s
    found: list[tuple[Head, bytes]] = lost_workers.retried(job.collect)
    reports = sorted((pickle.loads(report) for _, report in found), key=lambda report: report.engine)
    for report in reports:
        if report.error is not None:
            raise report.error
    return Ran(tuple(reports), found[0][0], planning_s)  # all engines have the same head


def _by_tasks(context: SparkContext, reading: Reading, ranges: Sequence[Range]) -> Any:
    parts = pieces(ranges, context.defaultParallelism)

    def read(own: Iterable[Range]) -> Iterator[tuple[int, Parcel]]:
        reading.orders.machine_code.accept()
        yield from reading.parcels(own)

    return context.parallelize(parts, len(parts)).mapPartitions(read).partitionBy(reading.orders.engines, int)


def _by_driver(context: SparkContext, reading: Reading, ranges: Sequence[Range]) -> Any:
    parcels: list[list[tuple[int, Parcel]]] = [[] for _ in range(reading.orders.engines)]
    for engine, parcel in reading.parcels(ranges):
        parcels[engine].append((engine, parcel))
    # One element a partition, whose parcels are then its rows.
    return context.parallelize(parcels, len(parcels)).mapPartitions(lambda own: (each for all_ in own for each in all_))
