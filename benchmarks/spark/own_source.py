"""A stream of files that trimtab reads itself, as columns, beside the same files read by Spark, and Spark's floor."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import trimtab
from benchmarks.results import Bar, Result, Side, Table
from benchmarks.spark import floor
from benchmarks.spark.figures import rate, ratio, trigger
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


FULL = Sizes(batches=6, files=4, rows=1_000_000, keys=10_000, warm_up=3)
QUICK = Sizes(batches=2, files=2, rows=20_000, keys=1_000, warm_up=2)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure the three, one after another, over the same files."""
    ticks = folder / "ticks"
    # Two batches more: the first one of the job that reads the files itself is small, and no span ends with the next.
    batches = sizes.batches + sizes.warm_up + 2
    write_ticks(ticks, batches * sizes.files, sizes.rows // sizes.files, sizes.keys)
    bare = floor.run(spark, ticks, folder / "floor", files_per_batch=sizes.files)
    by_spark = read_by_spark(spark, ticks, folder / "by_spark", sizes)
    own, history = read_by_trimtab(spark, ticks, folder / "own", sizes)
    sides = {
        "scan, `repartitionById`, empty `mapInArrow` (the floor)": bare,
        "trimtab, files read by Spark": by_spark,
        "trimtab, files read by itself": own,
    }
    rates = {name: rate(batches, sizes.warm_up) for name, batches in sides.items()}
    rows = tuple((name, trigger(batches, sizes.warm_up), rates[name]) for name, batches in sides.items())
    bare_rate, _, own_rate = rates.values()
    stages = {name: statistics.median(each.stages_ms[name] for each in history) for name in history[0].stages_ms}
    spent = ", ".join(f"{name} {ms:.0f} ms" for name, ms in stages.items())
    return Result(
        "Sources of trimtab's own",
        f"{sizes.batches} batches of {sizes.files} parquet files with {sizes.rows:,} ticks in all (after "
        f"{sizes.warm_up} to warm up) of {sizes.keys:,} symbols, Zipf 1.0, on 2 engines.",
        (Table(("", "a batch", "throughput"), rows),),
        (Bar("V-shape from own files, throughput over the floor", ratio(own_rate, bare_rate), Side.AT_LEAST, 1.8),),
        (f"The driver's stages of a batch from own files: {spent}.",),
    )


def read_by_spark(spark: SparkSession, folder: Path, checkpoint: Path, sizes: Sizes) -> tuple[Batch, ...]:
    """The batches of a job over a streaming DataFrame, by Spark's clock."""
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2)
    job.stream("ticks", ticks_of(spark, folder, files_per_batch=sizes.files), event_time="ts")
    job.query("drops", V_SHAPE).write("parquet", path=str(checkpoint.with_suffix(".found")))
    started = job.start(available_now=True)
    started.await_termination()
    return batches_of(started.streaming_queries["ticks"])


def read_by_trimtab(
    spark: SparkSession, folder: Path, checkpoint: Path, sizes: Sizes
) -> tuple[tuple[Batch, ...], tuple[BatchProgress, ...]]:
    """The batches of a job that reads the files itself: from the end of one batch to the end of the next."""
    intake = trimtab.Intake(min_rows=sizes.rows, max_rows=sizes.rows, first_rows=sizes.rows)
    job = trimtab.Job(spark, checkpoint=str(checkpoint), engines=2, intake=intake)
    job.stream("ticks", trimtab.Files(str(folder)), event_time="ts")
    job.query("drops", V_SHAPE).write("parquet", path=str(checkpoint.with_suffix(".found")))
    started = job.start(available_now=True)
    started.await_termination()
    history = [each for each in started.history if each.events == sizes.rows]
    spans = [round(1e3 * (now.finished_at_s - before.finished_at_s)) for before, now in itertools.pairwise(history)]
    batches = tuple(
        Batch(each.batch, each.events, span, span, {}) for each, span in zip(history[1:], spans, strict=True)
    )
    return batches, tuple(history[sizes.warm_up :])
