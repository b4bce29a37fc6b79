"""Small batches from Kafka: what a trigger costs, and how long an event takes from its append to its match at the sink.

Beside it is the same job over files that Spark reads: without a connector of Spark's for Kafka, which there isn't for
this version, that is how such a job was built before.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import trimtab
from benchmarks.results import Bar, Cell, Number, Result, Side, Table
from benchmarks.spark import kafka_ticks, steady, transform_with_state
from benchmarks.spark.figures import number, ratio, trigger
from benchmarks.spark.pattern import V_SHAPE
from benchmarks.spark.session import PROJECT
from benchmarks.spark.ticks import write_ticks

QUERY = V_SHAPE.replace("U.ts AS ended", "U.ts AS ended, U.appended AS appended")
PATIENCE_S = 60.0
KAFKA, FILES = "Kafka, read by trimtab", "files, read by Spark"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run; the first batches, and the first seconds, warm up."""

    batches: int
    warm_up: int
    rows: int  # of a batch
    keys: int
    partitions: int
    rows_per_s: int
    seconds: float  # for which ticks come
    warm_up_s: float


FULL = Sizes(batches=30, warm_up=15, rows=1_000, keys=10_000, partitions=4, rows_per_s=1_000, seconds=30, warm_up_s=12)
QUICK = Sizes(batches=3, warm_up=2, rows=200, keys=100, partitions=2, rows_per_s=200, seconds=10, warm_up_s=4)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure triggers, Spark's own operator beside trimtab, and then latencies, of both ways to build the job."""
    if str(PROJECT) not in sys.path:
        sys.path.insert(0, str(PROJECT))
    from tests.support.broker import running_broker

    count = sizes.batches + sizes.warm_up
    write_ticks(folder / "ticks", count, sizes.rows, sizes.keys)
    peer = trigger(transform_with_state.run(spark, folder / "ticks", folder / "tws"), sizes.warm_up)
    with running_broker() as broker:
        topic, steadily = (broker.make_topic(partitions=sizes.partitions) for _ in range(2))
        kafka_ticks.write_ticks(broker.servers, topic, (count + 1) * sizes.rows, sizes.partitions, sizes.keys)
        own = triggers(spark, broker.servers, topic, folder / "own", sizes)
        source = trimtab.Kafka(broker.servers, steadily, schema=steady.SCHEMA)
        writing = f"kafka:{broker.servers}/{steadily}"
        found = {KAFKA: latencies(spark, source, writing, folder / "kafka", sizes)}
    (folder / "come").mkdir()
    frame = spark.readStream.schema(steady.SCHEMA).json(str(folder / "come"))
    found[FILES] = latencies(spark, frame, str(folder / "come"), folder / "files", sizes)
    rows: list[tuple[Cell, ...]] = [
        (name, *(Number(float(np.percentile(ms, q)), float(ms.min()), float(ms.max()), "ms", 1) for q in (50, 99)))
        for name, ms in found.items()
    ]
    return Result(
        "Small batches from Kafka",
        f"{sizes.batches} batches of {sizes.rows:,} JSON messages (after {sizes.warm_up} to warm up) in "
        f"{sizes.partitions} partitions; and {sizes.rows_per_s:,} ticks a second for {sizes.seconds:.0f} s, of which "
        f"the first {sizes.warm_up_s:.0f} warm up. The sink is a function. Broker and writer share the two cores.",
        (
            Table(("", "a trigger"), (("`transformWithStateInPandas`, RocksDB, files", peer), ("trimtab, Kafka", own))),
            Table(("from the append to the match at the sink", "median", "99th percentile"), tuple(rows)),
        ),
        (
            Bar(
                "1,000-row batches from Kafka, trigger over `transformWithStateInPandas`",
                ratio(own, peer),
                Side.AT_MOST,
                0.15,
            ),
        ),
        (f"{', '.join(f'{len(ms):,} matches from {name}' for name, ms in found.items())}.",),
    )


def triggers(spark: SparkSession, servers: str, topic: str, checkpoint: Path, sizes: Sizes) -> Number:
    """How long a batch takes: from the end of one to the end of the next."""
    intake = trimtab.Intake(min_rows=sizes.rows, max_rows=sizes.rows, first_rows=sizes.rows)
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2, intake=intake)
    job.stream("ticks", trimtab.Kafka(servers, topic, schema=kafka_ticks.SCHEMA), event_time="ts")
    job.query("drops", V_SHAPE).write("parquet", path=str(checkpoint.with_suffix(".found")))
    started = job.start(available_now=True)
    started.await_termination()
    history = started.history[sizes.warm_up :]
    assert all(each.events == sizes.rows for each in history), "batches of other sizes"
    return number([1e3 * (b.finished_at_s - a.finished_at_s) for a, b in itertools.pairwise(history)], "ms")


def latencies(spark: SparkSession, source: Any, target: str, checkpoint: Path, sizes: Sizes) -> Any:
    """Milliseconds from the append of the row that completes a match to the match's arrival at the sink."""
    taken: list[tuple[float, pa.Array]] = []
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2)
    job.stream("ticks", source, event_time="ts")
    job.query("drops", QUERY).write(_taking(taken))
    started = job.start()
    try:
        writer = steady.started(target, sizes.rows_per_s, sizes.seconds, sizes.partitions)
        began_s = time.time()
        assert writer.wait(sizes.seconds * 3 + 30) == 0, "the ticks weren't written"
        until_s, count = time.monotonic() + PATIENCE_S, int(sizes.rows_per_s * sizes.seconds)
        while started.progress.events < count and started.is_active and time.monotonic() < until_s:
            time.sleep(0.1)
    finally:
        started.stop()
    started.await_termination()
    after_us = (began_s + sizes.warm_up_s) * 1e6
    found = [at_s * 1e3 - appended.to_numpy() / 1e3 for at_s, appended in taken]
    appended = [appended.to_numpy() for _, appended in taken]
    return np.concatenate(found)[np.concatenate(appended) > after_us]


def _taking(taken: list[tuple[float, pa.Array]]) -> Callable[[Any, int], None]:
    def take(frame: Any, _batch: int) -> None:
        at_s = time.time()
        taken.append((at_s, frame.toArrow()["appended"].combine_chunks()))

    return take
