"""A stream of JSON messages from Kafka, the broker on the same machine: its throughput, for batches of any size."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import trimtab
from benchmarks.results import Bar, Cell, Number, Result, Side, Table
from benchmarks.spark.kafka_ticks import SCHEMA, write_ticks
from benchmarks.spark.pattern import MATCH_COLUMNS, V_SHAPE
from benchmarks.spark.session import PROJECT


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run: a job for each number of rows that a batch may have; 0: as a controller says."""

    messages: int
    partitions: int
    keys: int
    warm_up: int  # messages of a job before
    batches: tuple[int, ...]


FULL = Sizes(messages=2_000_000, partitions=8, keys=10_000, warm_up=300_000, batches=(50_000, 200_000, 500_000, 0))
QUICK = Sizes(messages=40_000, partitions=8, keys=1_000, warm_up=10_000, batches=(5_000, 20_000, 0))


@dataclass(frozen=True, slots=True)
class Ran:
    """What a job over a whole topic took and found."""

    seconds: float  # from the begin of the first batch to the end of the last one
    events: int
    late: int
    batches: int
    batch_ms: tuple[float, ...]
    found: pa.Table

    @property
    def per_s(self) -> float:
        """Messages a second."""
        return self.events / self.seconds


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Write the topic once, and read it by one job after the other."""
    if str(PROJECT) not in sys.path:
        sys.path.insert(0, str(PROJECT))
    from tests.support.broker import running_broker

    with running_broker() as broker:
        warm, topic = (broker.make_topic(partitions=sizes.partitions) for _ in range(2))
        write_ticks(broker.servers, warm, sizes.warm_up, sizes.partitions, sizes.keys, seed=2)
        written_s = write_ticks(broker.servers, topic, sizes.messages, sizes.partitions, sizes.keys)
        job_over(spark, broker.servers, warm, folder / "warm", sizes.warm_up // 3)
        jobs = {rows: job_over(spark, broker.servers, topic, folder / f"{rows}", rows) for rows in sizes.batches}
    first, *others = jobs.values()
    same = sum(each.found.equals(first.found) for each in others) + 1
    rows: list[tuple[Cell, ...]] = []
    for size, ran in jobs.items():
        middle = sorted(ran.batch_ms)[len(ran.batch_ms) // 2]
        name = f"{size:,} messages" if size else "by the controller (half a second)"
        numbers = (Number(ran.per_s, ran.per_s, ran.per_s, "messages/s", 1), Number(middle, middle, middle, "ms", 1))
        rows.append((name, *numbers, f"{ran.batches}", f"{ran.late}", f"{ran.found.num_rows:,}"))
    rates = sorted(ran.per_s for ran in jobs.values())
    least = Number(rates[0], rates[0], rates[-1], "messages/s", len(rates))
    late = max(float(ran.late) for ran in jobs.values())
    return Result(
        "From Kafka",
        f"{sizes.messages:,} JSON messages of about 100 bytes in {sizes.partitions} partitions, {sizes.keys:,} symbols,"
        " Zipf 1.0; V-shape on 2 engines; the broker shares the two cores. From the begin of the first batch to the"
        " commit of the last one.",
        (Table(("a batch", "throughput", "median batch", "batches", "late", "matches"), tuple(rows)),),
        (
            Bar("2 M JSON messages, the slowest of the batch sizes", least, Side.AT_LEAST, 150_000),
            Bar("2 M JSON messages, late rows", Number(late, late, late, "", 1), Side.AT_MOST, 0),
            Bar("2 M JSON messages, batch sizes with the same matches", _count(same), Side.AT_LEAST, len(jobs)),
        ),
        (f"One process wrote the messages in {written_s:.0f} s.",),
    )


def job_over(spark: SparkSession, servers: str, topic: str, checkpoint: Path, rows: int) -> Ran:
    """Run the job over all that is in a topic, in batches of this size; 0: half a second each, by the controller."""
    intake = trimtab.Intake(min_rows=rows, max_rows=rows, first_rows=rows) if rows else trimtab.Intake(batch_s=0.5)
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2, intake=intake)
    job.stream("ticks", trimtab.Kafka(servers, topic, schema=SCHEMA), event_time="ts")
    found = checkpoint.with_suffix(".found")
    job.query("drops", V_SHAPE).write("parquet", path=str(found))
    started = job.start(available_now=True)
    started.await_termination()
    history = started.history
    # `finished_at_s` counts from any moment, as does the begin of the first batch.
    seconds = history[-1].finished_at_s - history[0].finished_at_s + history[0].batch_ms / 1e3
    events, late = sum(each.events for each in history), sum(each.late for each in history)
    matches = pq.read_table(found).select(list(MATCH_COLUMNS))
    ordered = matches.sort_by([(name, "ascending") for name in MATCH_COLUMNS]).combine_chunks()
    return Ran(seconds, events, late, len(history), tuple(each.batch_ms for each in history), ordered)


def _count(value: float) -> Number:
    return Number(value, value, value, "", 1)
