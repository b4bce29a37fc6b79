"""Small batches of files that trimtab reads itself, beside Spark's own stateful Python on the same files."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.results import Bar, Result, Side, Table
from benchmarks.spark import transform_with_state
from benchmarks.spark.figures import number, ratio, trigger
from benchmarks.spark.own_source import read_by_trimtab
from benchmarks.spark.throughput import Sizes
from benchmarks.spark.ticks import write_ticks

FULL = Sizes(batches=25, rows=1_000, keys=10_000, warm_up=30)
QUICK = Sizes(batches=5, rows=1_000, keys=1_000, warm_up=3)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure both over the same files, a file for each batch."""
    write_ticks(folder / "ticks", sizes.batches + sizes.warm_up + 1, sizes.rows, sizes.keys)
    theirs = trigger(transform_with_state.run(spark, folder / "ticks", folder / "tws"), sizes.warm_up)
    batches, history = read_by_trimtab(spark, folder / "ticks", folder / "own", rows=sizes.rows)
    own = trigger(batches, sizes.warm_up)
    inside = history[sizes.warm_up :]
    stages = {name: number([each.stages_ms[name] for each in inside], "ms") for name in inside[0].stages_ms}
    return Result(
        "Small batches from own files",
        f"{sizes.batches} batches of a parquet file with {sizes.rows:,} ticks (after {sizes.warm_up} to warm up), "
        f"{sizes.keys:,} symbols. trimtab's batch is from the end of the one before it to its own end.",
        (
            Table(("", "a batch"), (("`transformWithStateInPandas`, RocksDB", theirs), ("trimtab", own))),
            Table(tuple(stages), (tuple(stages.values()),), "trimtab's stages"),
        ),
        (
            Bar(
                "1,000-row batches from own files, trigger over `transformWithStateInPandas`",
                ratio(own, theirs),
                Side.AT_MOST,
                0.15,
            ),
        ),
    )
