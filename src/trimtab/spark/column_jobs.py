"""The Spark job of one batch that stays in columns: tasks read ranges as Arrow, and send blobs of it to the engines.

One job of two stages: no row becomes a Java object. A batch that the driver or the engines read is one stage.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import SparkContext
from pyspark.core.rdd import RDD
from pyspark.serializers import NoOpSerializer, pack_long

from trimtab.driver.who_reads import Reader
from trimtab.sources.source import Range, positions_of
from trimtab.spark import lost_workers
from trimtab.spark.carried_errors import carrying
from trimtab.spark.engine_jobs import Ran
from trimtab.worker.exchange import Reading, run_with_parcels
from trimtab.worker.orders import Head
from trimtab.worker.pauses import avoid_pauses
from trimtab.worker.reading_tasks import for_executors, pieces, shared_out

FEW_BYTES = 256 << 10
"""Up to this many bytes of rows go to all engines with the orders: that is less work than sending each its own."""
TASKS_A_CORE = 2
"""How many tasks read a batch, at most, for each core: more of them would each have less to do than it takes to begin,
and with one a core, a task that takes longer than the others would leave cores idle."""


class Places(Protocol):
    """Which executors a batch runs on, if there are several: see `Homes`."""

    def pinned_rdd(self, rdd: Any, engines: int) -> Any:
        """The RDD, whose partitions are this many engines, with an executor named for each."""

    def placed_rdd(self, rdd: Any, executors: Sequence[str]) -> Any:
        """The RDD with this executor named for each partition."""

    def slots(self) -> Mapping[str, int]:
        """How many tasks each executor runs at a time; empty: executors can't be named."""


def run_columns(
    context: SparkContext, reading: Reading, reader: Reader, places: Places, shares: Mapping[str, float]
) -> Ran:
    """Let the ranges of a batch be read, the rows go to their engines, and collect a report from each.

    `shares`: the part of the rows that each executor should read; empty: that doesn't matter.

    Retried if a worker or executor is lost. Raises the error that an engine reports.
    """
    began_s = time.perf_counter()
    orders, ranges = reading.orders, reading.orders.ranges
    few: Sequence[Sequence[bytes]] | None = None
    read_here = positions_of(ranges) > 0 and reader is Reader.ENGINES
    if read_here:
        sent = _nothing(context, orders.engines)
    elif positions_of(ranges) and reader is Reader.TASKS:
        sent = _by_tasks(context, reading, ranges, places, shares)
    else:
        sent, few = _by_driver(context, reading, ranges)

    def engine(number: int, parcels: Iterator[bytes]) -> Iterator[tuple[Head, bytes]]:
        avoid_pauses()
        came: Sequence[bytes | pa.Buffer] = list(parcels)  # to its end, or Spark wouldn't use this worker again
        if read_here:
            orders.machine_code.accept()
            with carrying():
                came = [parcel for _, parcel in reading.parcels(ranges, only=number)]
        yield run_with_parcels(orders, number, came if few is None else few[number])

    job: Any = places.pinned_rdd(sent.mapPartitionsWithIndex(engine, preservesPartitioning=True), orders.engines)
    planning_s = time.perf_counter() - began_s
    found: list[tuple[Head, bytes]] = lost_workers.retried(job.collect)
    reports = sorted((pickle.loads(report) for _, report in found), key=lambda report: report.engine)
    for report in reports:
        if report.error is not None:
            raise report.error
    return Ran(tuple(reports), found[0][0], planning_s)  # all engines have the same head


def _by_tasks(
    context: SparkContext, reading: Reading, ranges: Sequence[Range], places: Places, shares: Mapping[str, float]
) -> Any:
    cores, slots = context.defaultParallelism, places.slots()
    if slots and shares.keys() == slots.keys():
        weights = [(name, shares[name] / count) for name, count in slots.items() for _ in range(count * TASKS_A_CORE)]
        placed = for_executors(ranges, weights)
        names, parts = [name for name, _ in placed], [own for _, own in placed]
    else:
        names, parts = [], shared_out(pieces(ranges, cores), cores * TASKS_A_CORE)

    def read(of_tasks: Iterable[Sequence[Range]]) -> Iterator[bytes | pa.Buffer]:
        avoid_pauses()
        reading.orders.machine_code.accept()
        with carrying():
            for own in of_tasks:
                for engine, parcel in reading.parcels(own):
                    yield pack_long(engine)  # type: ignore[no-untyped-call]
                    yield parcel

    addressed: Any = context.parallelize(parts, len(parts)).mapPartitions(read)
    addressed._bypass_serializer = True
    return _shuffled(context, places.placed_rdd(addressed, names) if names else addressed, reading.orders.engines)


def _shuffled(context: SparkContext, addressed: Any, engines: int) -> Any:
    """The parcels of each engine, of an RDD that has pairs of an engine's number and a parcel, both as bytes.

    `RDD.partitionBy` gives the same; but it pickles what it sends, and copies it several times on the way.
    """
    jvm: Any = context._jvm
    pairs = jvm.PairwiseRDD(addressed._jrdd.rdd()).asJavaPairRDD()
    sent = pairs.partitionBy(jvm.PythonPartitioner(engines, 0))
    return RDD(jvm.PythonRDD.valueOfPair(sent), context, NoOpSerializer())


def _by_driver(
    context: SparkContext, reading: Reading, ranges: Sequence[Range]
) -> tuple[Any, Sequence[Sequence[bytes]] | None]:
    """An RDD with the parcels of each engine; or one without elements, and the parcels, which go with the orders."""
    engines = reading.orders.engines
    parcels: list[list[bytes]] = [[] for _ in range(engines)]
    for engine, parcel in reading.parcels(ranges):
        parcels[engine].append(parcel.to_pybytes())
    if sum(len(each) for own in parcels for each in own) <= FEW_BYTES:
        return _nothing(context, engines), parcels
    # One element a partition, whose parcels are then its rows.
    sent = context.parallelize(parcels, engines).mapPartitions(lambda own: (each for all_ in own for each in all_))
    return sent, None


def _nothing(context: SparkContext, engines: int) -> Any:
    """An RDD with a partition for each engine and no elements; the same one for all batches: making one takes time."""
    known: dict[int, Any] = _NOTHING.setdefault(context, {})
    if engines not in known:
        known[engines] = context.parallelize((), engines)
    return known[engines]


_NOTHING: WeakKeyDictionary[SparkContext, dict[int, Any]] = WeakKeyDictionary()
