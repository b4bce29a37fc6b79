"""Large batches: the V-shape in trimtab, in Spark's own stateful Python, and an empty job (the floor)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.results import Bar, Result, Side, Table
from benchmarks.spark import floor, ours, transform_with_state
from benchmarks.spark.figures import rate, ratio, trigger
from benchmarks.spark.ticks import write_ticks


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run; the first batches warm up."""

    batches: int
    rows: int
    keys: int
    warm_up: int


FULL = Sizes(batches=4, rows=1_000_000, keys=10_000, warm_up=2)
QUICK = Sizes(batches=2, rows=20_000, keys=1_000, warm_up=1)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure the three, one after another, over the same files."""
    write_ticks(folder / "ticks", sizes.batches + sizes.warm_up, sizes.rows, sizes.keys)
    bare = floor.run(spark, folder / "ticks", folder / "floor")
    found, history = ours.run(spark, folder / "ticks", folder / "ours")
    spark_s = transform_with_state.run(spark, folder / "ticks", folder / "tws")
    bare_rate, own_rate, spark_rate = (rate(each, sizes.warm_up) for each in (bare, found, spark_s))
    stages = history[-1].engines[0].stages_ms
    spent = ", ".join(f"{name.replace('_', ' ')} {ms:.0f} ms" for name, ms in stages.items())
    return Result(
        "Large batches",
        f"{sizes.batches} batches of {sizes.rows:,} ticks each (after {sizes.warm_up} to warm up) of {sizes.keys:,}"
        " symbols, Zipf 1.0, on 2 engines or shuffle partitions. `PATTERN (S D+ U)`: a fall and the first tick up.",
        (
            Table(
                ("", "a batch", "throughput"),
                (
                    (
                        "scan, `repartitionById`, empty `mapInArrow` (the floor)",
                        trigger(bare, sizes.warm_up),
                        bare_rate,
                    ),
                    ("trimtab", trigger(found, sizes.warm_up), own_rate),
                    ("`transformWithStateInPandas`, RocksDB", trigger(spark_s, sizes.warm_up), spark_rate),
                ),
            ),
        ),
        (
            Bar(
                "V-shape, throughput over `transformWithStateInPandas`", ratio(own_rate, spark_rate), Side.AT_LEAST, 10
            ),
            Bar("V-shape, throughput over the floor", ratio(own_rate, bare_rate), Side.AT_LEAST, 0.7),
        ),
        (f"An engine's time in the last batch: {spent}.",),
    )
