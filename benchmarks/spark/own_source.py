"""A stream of files that trimtab reads itself, as columns, beside Spark's floor and peers, all in one run.

The peers are trimtab with the same files read by Spark, Spark's `transformWithStateInPandas`, and Flink SQL.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import trimtab
from benchmarks.results import Bar, Cell, Number, Result, Side, Table
from benchmarks.spark import flink, floor, transform_with_state
from benchmarks.spark.figures import number, rate, ratio, trigger
from benchmarks.spark.pattern import V_SHAPE
from benchmarks.spark.session import Batch, batches_of, ticks_of
from benchmarks.spark.ticks import write_ticks
from trimtab.driver.progress import BatchProgress


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run; the first batches warm up."""

    batches: int
    files: int  # of a batch: a file is read by one task
    rows: int  # of a batch
    keys: int
    warm_up: int
    slow_batches: int  # of `transformWithStateInPandas`, which takes many seconds for one; the first one warms up
    flink_runs: int  # over the rows of a batch; the first one warms up; 0: Flink isn't measured


FULL = Sizes(batches=6, files=4, rows=1_000_000, keys=10_000, warm_up=3, slow_batches=3, flink_runs=3)
QUICK = Sizes(batches=2, files=2, rows=20_000, keys=1_000, warm_up=2, slow_batches=2, flink_runs=0)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure all of them, one after another, over the same ticks."""
    ticks, few = folder / "ticks", folder / "few"
    # Two batches more: the first one of the job that reads the files itself is small, and no span ends with the next.
    batches = sizes.batches + sizes.warm_up + 2
    write_ticks(ticks, batches * sizes.files, sizes.rows // sizes.files, sizes.keys)
    first = write_ticks(few, sizes.slow_batches * sizes.files, sizes.rows // sizes.files, sizes.keys)
    bare = floor.run(spark, ticks, folder / "floor", files_per_batch=sizes.files)
    by_spark = read_by_spark(spark, ticks, folder / "by_spark", sizes)
    own, finished = read_by_trimtab(spark, ticks, folder / "own", rows=sizes.rows)
    history = finished[sizes.warm_up :]
    slow = transform_with_state.run(spark, few, folder / "tws", files_per_batch=sizes.files)
    sides = {
        "scan, `repartitionById`, empty `mapInArrow` (the floor)": (bare, sizes.warm_up),
        "trimtab, files read by Spark": (by_spark, sizes.warm_up),
        "trimtab, files read by itself": (own, sizes.warm_up),
        "`transformWithStateInPandas`, RocksDB": (slow, 1),
    }
    rates = [rate(*side) for side in sides.values()]
    rows: list[tuple[Cell, ...]] = [
        (name, trigger(*side), each) for (name, side), each in zip(sides.items(), rates, strict=True)
    ]
    bare_rate, _, own_rate, slow_rate = rates
    bars = [
        Bar("V-shape from own files, throughput over the floor", ratio(own_rate, bare_rate), Side.AT_LEAST, 1.8),
        Bar(
            "V-shape from own files, throughput over `transformWithStateInPandas`",
            ratio(own_rate, slow_rate),
            Side.AT_LEAST,
            20,
        ),
    ]
    if sizes.flink_runs:
        theirs = flink_rate(first[: sizes.files], sizes.flink_runs)
        rows.append(("Flink 2.3 SQL, warmed up, CSV in and blackhole out, by its own clock", "", theirs))
        claim = "V-shape from own files, throughput over Flink SQL, warmed up"
        bars.append(Bar(claim, ratio(own_rate, theirs), Side.AT_LEAST, 15))
    stages = {name: statistics.median(each.stages_ms[name] for each in history) for name in history[0].stages_ms}
    spent = ", ".join(f"{name} {ms:.0f} ms" for name, ms in stages.items())
    inside = [engine.stages_ms for each in history for engine in each.engines]
    names = dict.fromkeys(name for each in inside for name in each)
    in_engines = ", ".join(
        f"{name} {statistics.median(each.get(name, 0.0) for each in inside):.0f} ms" for name in names
    )
    return Result(
        "Sources of trimtab's own",
        f"{sizes.batches} batches of {sizes.files} parquet files with {sizes.rows:,} ticks in all (after "
        f"{sizes.warm_up} to warm up; {sizes.slow_batches - 1} after 1 for `transformWithStateInPandas`) of "
        f"{sizes.keys:,} symbols, Zipf 1.0, on 2 engines or shuffle partitions.",
        (Table(("", "a batch", "throughput"), tuple(rows)),),
        tuple(bars),
        (
            f"The driver's stages of a batch from own files: {spent}.",
            f"An engine's stages of a batch from own files: {in_engines}.",
        ),
    )


def flink_rate(files: Sequence[Path], runs: int) -> Number:
    """Flink's throughput over the ticks of some files, by its own clock, without its first run."""
    timed = flink.run(files, runs=runs)
    return number([timed.rows / each for each in timed.seconds[1:]], "events/s")


def read_by_spark(spark: SparkSession, folder: Path, checkpoint: Path, sizes: Sizes) -> tuple[Batch, ...]:
    """The batches of a job over a streaming DataFrame, by Spark's clock."""
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2)
    job.stream("ticks", ticks_of(spark, folder, files_per_batch=sizes.files), event_time="ts")
    job.query("drops", V_SHAPE).write("parquet", path=str(checkpoint.with_suffix(".found")))
    started = job.start(available_now=True)
    started.await_termination()
    return batches_of(started.streaming_queries["ticks"])


def read_by_trimtab(
    spark: SparkSession, folder: Path, checkpoint: Path, *, rows: int
) -> tuple[tuple[Batch, ...], tuple[BatchProgress, ...]]:
    """The batches, of this many rows, of a job that reads the files itself.

    A batch is from the end of the one before it to its own end; the first one has no such time, and is left out.
    """
    intake = trimtab.Intake(min_rows=rows, max_rows=rows, first_rows=rows)
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2, intake=intake)
    job.stream("ticks", trimtab.Files(str(folder)), event_time="ts")
    job.query("drops", V_SHAPE).write("parquet", path=str(checkpoint.with_suffix(".found")))
    started = job.start(available_now=True)
    started.await_termination()
    history = [each for each in started.history if each.events == rows]
    spans = [round(1e3 * (now.finished_at_s - before.finished_at_s)) for before, now in itertools.pairwise(history)]
    batches = tuple(
        Batch(each.batch, each.events, span, span, {}) for each, span in zip(history[1:], spans, strict=True)
    )
    return batches, tuple(history[1:])
