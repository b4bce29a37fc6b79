"""Small batches: what a trigger costs when there is little to do."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.results import Bar, Cell, Result, Side, Table
from benchmarks.spark import floor, ours, transform_with_state
from benchmarks.spark.figures import number, ratio, trigger
from benchmarks.spark.session import Batch
from benchmarks.spark.throughput import Sizes
from benchmarks.spark.ticks import write_ticks

STEPS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")


FULL = Sizes(batches=60, rows=1_000, keys=10_000, warm_up=40)
QUICK = Sizes(batches=5, rows=1_000, keys=1_000, warm_up=3)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure the three over the same files."""
    write_ticks(folder / "ticks", sizes.batches + sizes.warm_up, sizes.rows, sizes.keys)
    sides: dict[str, tuple[Batch, ...]] = {}
    sides["`transformWithStateInPandas`, RocksDB"] = transform_with_state.run(spark, folder / "ticks", folder / "tws")
    sides["the floor"] = floor.run(spark, folder / "ticks", folder / "floor")
    sides["trimtab"], history = ours.run(spark, folder / "ticks", folder / "ours")
    measured = {name: trigger(batches, sizes.warm_up) for name, batches in sides.items()}
    rows: list[tuple[Cell, ...]] = []
    for name, batches in sides.items():
        steps = (number([b.durations_ms.get(step, 0) for b in batches[sizes.warm_up :]], "ms") for step in STEPS)
        rows.append((name, measured[name], *(f"{step.value:.0f}" for step in steps)))
    inside = history[sizes.warm_up :]
    stages = {name: number([h.stages_ms[name] for h in inside], "ms") for name in history[0].stages_ms}
    return Result(
        "Small batches",
        f"{sizes.batches} batches of {sizes.rows:,} ticks (after {sizes.warm_up} to warm up), {sizes.keys:,} symbols."
        " Where a trigger's time goes, in ms by Spark's clock.",
        (
            Table(("", "a trigger", *STEPS), tuple(rows)),
            Table(tuple(stages), (tuple(stages.values()),), "Inside trimtab's addBatch"),
        ),
        (
            Bar(
                "1,000-row batches, trigger over `transformWithStateInPandas`",
                ratio(measured["trimtab"], measured["`transformWithStateInPandas`, RocksDB"]),
                Side.AT_MOST,
                0.35,
            ),
        ),
    )
