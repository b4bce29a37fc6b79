"""Many rules on one stream: read by trimtab itself, read by Spark, and in Esper, which has two threads."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import trimtab
from benchmarks import rules
from benchmarks.results import Bar, Result, Side, Table
from benchmarks.rules import Rule
from benchmarks.spark import esper
from benchmarks.spark.figures import rate, ratio, trigger
from benchmarks.spark.session import Batch, batches_of
from trimtab.api.run import Run
from trimtab.driver.progress import BatchProgress

THREADS = 2
"""Of Esper, and engines of trimtab."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run; the first batches warm up."""

    rules: int
    alike: int  # rules of one shape
    batches: int
    rows: int  # of a batch
    keys: int
    warm_up: int


FULL = Sizes(rules=50, alike=100, batches=5, rows=250_000, keys=10_000, warm_up=3)
QUICK = Sizes(rules=10, alike=4, batches=1, rows=5_000, keys=500, warm_up=1)


@dataclass(frozen=True, slots=True)
class Ran:
    """The batches of a job, the matches of each rule, and where its last batches spent their time."""

    batches: tuple[Batch, ...]
    matches: Mapping[str, int]
    history: tuple[BatchProgress, ...]


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure all of them, one after another, over the same files."""
    # Two batches more: one that no span begins with, and the last rows, which are decided when the input ends.
    count = sizes.batches + sizes.warm_up + 2
    files = rules.write_ticks(folder / "ticks", count, sizes.rows, sizes.keys)
    desk, alike = rules.desk(sizes.rules), rules.of_one_shape(sizes.alike)
    for each in (desk, alike):
        rules.OneEngine(str(folder), each).warm()
    own = by_trimtab(spark, folder, "own", desk, sizes)
    by_spark = read_by_spark(spark, folder, desk)
    theirs = esper.run(desk, files, folder / "esper", threads=THREADS)
    for found in (by_spark.matches, theirs.matches):
        assert found == own.matches, f"{found} here, {own.matches} from own files"
    one, many = (by_trimtab(spark, folder, f"alike{n}", alike[:n], sizes) for n in (1, sizes.alike))
    peer = tuple(Batch(n, sizes.rows, round(ms), round(ms), {}) for n, ms in enumerate(theirs.batches_ms))
    sides = {"trimtab, files read by itself": own.batches, "trimtab, files read by Spark": by_spark.batches}
    sides[f"Esper {esper.VERSION}, {THREADS} threads, the engine alone"] = peer
    rates = {name: rate(batches, sizes.warm_up) for name, batches in sides.items()}
    own_rate, spark_rate, esper_rate = rates.values()
    rows = tuple((name, trigger(batches, sizes.warm_up), rates[name]) for name, batches in sides.items())
    spent = [trigger(each.batches, sizes.warm_up) for each in (one, many)]
    matches = sum(own.matches.values())
    return Result(
        "Many rules",
        f"{sizes.rules} rules of {len(rules.SHAPES)} shapes with different thresholds over {sizes.batches} batches of "
        f"{sizes.rows:,} ticks (after {sizes.warm_up} to warm up) of {sizes.keys:,} symbols, Zipf 1.0, on {THREADS} "
        f"engines; every rule has its own parquet sink. All find the same {matches:,} matches.",
        (
            Table(("", "a batch", "throughput"), rows),
            Table(("rules of one shape", "a batch"), (("1", spent[0]), (str(sizes.alike), spent[1]))),
        ),
        (
            Bar(f"{sizes.rules} rules, throughput over the files read by Spark", ratio(own_rate, spark_rate), *_FIVE),
            Bar(f"{sizes.rules} rules, throughput over Esper", ratio(own_rate, esper_rate), *_FIVE),
            Bar(f"{sizes.alike} rules of one shape, time over one's", ratio(spent[1], spent[0]), Side.AT_MOST, 8),
        ),
        (f"From own files: {_stages(own, sizes)}.", f"{sizes.alike} rules of one shape: {_stages(many, sizes)}."),
    )


_FIVE = (Side.AT_LEAST, 5)


def by_trimtab(spark: SparkSession, folder: Path, name: str, chosen: Sequence[Rule], sizes: Sizes) -> Ran:
    """The job that reads the files itself: a batch lasts from the end of the one before it to its own."""
    intake = trimtab.Intake(min_rows=sizes.rows, max_rows=sizes.rows, first_rows=sizes.rows)
    job = trimtab.Job(spark, checkpoint=str(folder / name), engines=THREADS, intake=intake)
    job.stream("ticks", trimtab.Files(str(folder / "ticks")), event_time="ts")
    started = _run(job, folder / f"{name}.found", chosen)
    history = tuple(each for each in started.history if each.events == sizes.rows)
    spans = [round(1e3 * (now.finished_at_s - before.finished_at_s)) for before, now in itertools.pairwise(history)]
    batches = tuple(
        Batch(each.batch, each.events, span, span, {}) for each, span in zip(history[1:], spans, strict=True)
    )
    return Ran(batches, started.progress.matches, history)


def read_by_spark(spark: SparkSession, folder: Path, chosen: Sequence[Rule]) -> Ran:
    """The job over a streaming DataFrame, by Spark's clock."""
    schema = "symbol BIGINT, ts TIMESTAMP, price DOUBLE, volume BIGINT"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "ticks"))
    job = trimtab.Job(spark, checkpoint=str(folder / "by_spark"), engines=THREADS)
    job.stream("ticks", frame, event_time="ts")
    started = _run(job, folder / "by_spark.found", chosen)
    return Ran(batches_of(started.streaming_queries["ticks"]), started.progress.matches, tuple(started.history))


def _run(job: trimtab.Job, found: Path, chosen: Sequence[Rule]) -> Run:
    for each in chosen:
        job.query(each.name, each.sql).write("parquet", path=str(found / each.name))
    started = job.start(available_now=True, close=True)
    started.await_termination()
    return started


def _stages(ran: Ran, sizes: Sizes) -> str:
    """Where the batches after the warm-up spent their time: the driver's stages, and those of the busiest engine."""
    last = [each for each in ran.history if each.events == sizes.rows][sizes.warm_up + 1 :]
    driver = _medians([each.stages_ms for each in last])
    engines = _medians([max(each.engines, key=lambda engine: engine.busy_ms).stages_ms for each in last])
    return f"the driver's stages of a batch are {driver}; those of its slower engine are {engines}"


def _medians(stages: Sequence[Mapping[str, float]]) -> str:
    names = dict.fromkeys(name for each in stages for name in each)
    return ", ".join(f"{name} {statistics.median(each.get(name, 0.0) for each in stages):.0f} ms" for name in names)
