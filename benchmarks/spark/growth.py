"""Growing state: the same batches over ten thousand, a million and ten million live keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.results import Bar, Cell, Number, Result, Side, Table
from benchmarks.spark import ours
from benchmarks.spark.figures import number, ratio
from benchmarks.spark.ticks import write_every_key, write_uniform


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run; the first batches warm up."""

    live_keys: tuple[int, ...]
    rows: int
    batches: int
    warm_up: int


FULL = Sizes(live_keys=(10_000, 1_000_000, 10_000_000), rows=50_000, batches=40, warm_up=10)
QUICK = Sizes(live_keys=(1_000, 10_000), rows=1_000, batches=3, warm_up=2)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Make all keys live, then time batches that touch some of them."""
    rows: list[tuple[Cell, ...]] = []
    medians: list[Number] = []
    for keys in sizes.live_keys:
        home = folder / str(keys)
        write_every_key(home / "ticks", keys)
        write_uniform(home / "ticks", sizes.warm_up + sizes.batches, sizes.rows, keys, first_row=keys)
        batches, history = ours.run(spark, home / "ticks", home / "checkpoint")
        chosen = [b for b in batches if b.rows == sizes.rows][-sizes.batches :]
        numbers = {b.number for b in chosen}
        own = [h for h in history if h.batch in numbers]
        medians.append(number([float(b.trigger_ms) for b in chosen], "ms"))
        rows.append(
            (
                f"{keys:,}",
                medians[-1],
                f"{statistics_mb([h.state_bytes_written for h in own]):.1f} MB",
                f"{own[-1].state_bytes / 1e6:,.0f} MB",
            )
        )
    return Result(
        "State that grows",
        f"Batches of {sizes.rows:,} ticks, each of a symbol drawn evenly from all live ones: {sizes.batches} batches"
        f" after {sizes.warm_up} to warm up.",
        (Table(("live keys", "a batch", "written a batch", "live state"), tuple(rows)),),
        (
            Bar(
                f"a batch at {sizes.live_keys[-1]:,} live keys over one at {sizes.live_keys[0]:,}",
                ratio(medians[-1], medians[0]),
                Side.AT_MOST,
                1.5,
            ),
        ),
        ("A batch writes the state of the keys it touches: 50,000 draws are all of 10,000, 49,000 of a million.",),
    )


def statistics_mb(sizes_bytes: list[int]) -> float:
    """The median size in megabytes."""
    return number([size / 1e6 for size in sizes_bytes], "MB").value
