"""Moving keys: half of all key groups, and engines added and removed, while the stream runs; and Spark's own way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.results import Bar, Cell, Result, Side, Table
from benchmarks.spark import offline_repartition, ours
from benchmarks.spark.figures import number, ratio
from benchmarks.spark.ticks import write_every_key, write_uniform
from trimtab.api.run import Run


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run; the first batches warm up. `every`: batches between two changes."""

    keys: int
    rows: int
    rounds: int
    every: int
    warm_up: int


FULL = Sizes(keys=20_000, rows=100_000, rounds=5, every=3, warm_up=12)
QUICK = Sizes(keys=1_000, rows=1_000, rounds=1, every=2, warm_up=3)

CHANGES = ("half of all key groups moved", "2 -> 4 engines", "4 -> 3 engines", "3 -> 2 engines")


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Make a change every few batches, and compare those batches with the others."""
    write_every_key(folder / "ticks", sizes.keys)
    batches = sizes.warm_up + sizes.every * len(CHANGES) * sizes.rounds + 1
    write_uniform(folder / "ticks", batches, sizes.rows, sizes.keys, first_row=sizes.keys)
    changed: dict[int, str] = {}

    def change(held: Run, batch: int) -> None:
        """Called in the middle of `batch`: the change takes effect in the next one."""
        steps, rest = divmod(batch - sizes.warm_up, sizes.every)
        if batch < sizes.warm_up or rest:
            return
        kind = CHANGES[steps % len(CHANGES)]
        placement = held.placement["ticks"]
        if kind == CHANGES[0]:
            half = range(0, len(placement.owner), 2)
            held.move({group: (placement.owner[group] + 1) % placement.engines for group in half})
        else:
            held.resize(int(kind.split()[2]))
        changed[batch + 1] = kind

    found, history = ours.run(spark, folder / "ticks", folder / "ours", watch=change)
    moved = {h.batch: h.moved for h in history}
    plain = [float(b.trigger_ms) for b in found if b.number > sizes.warm_up and b.number not in changed]
    usual = number(plain, "ms")
    rows: list[tuple[Cell, ...]] = [("nothing changed", usual, "", "")]
    bars = []
    for kind in CHANGES:
        own = [b for b in found if changed.get(b.number) == kind]
        took = number([float(b.trigger_ms) for b in own], "ms")
        rows.append((kind, took, ratio(took, usual), f"{moved[own[0].number]:,}"))
        bars.append(Bar(f"a batch with {kind}, over the usual one", ratio(took, usual), Side.AT_MOST, 1.3))
    pause = _offline(spark, folder, sizes)
    offline: tuple[tuple[Cell, ...], ...] = (
        ("stop", f"{pause.stop_s:.1f} s"),
        ("`_streamingCheckpointManager.repartition`, 2 -> 4", f"{pause.repartition_s:.1f} s"),
        ("restart, to the end of the first batch", f"{pause.restart_s:.1f} s"),
        ("all of it", f"{pause.total_s:.1f} s"),
    )
    return Result(
        "Keys that move",
        f"Batches of {sizes.rows:,} ticks over {sizes.keys:,} live keys; a change every {sizes.every} batches.",
        (
            Table(("", "a batch", "over the usual", "key groups moved"), tuple(rows)),
            Table(("step", "takes"), offline, f"Spark's own way, for {sizes.keys:,} keys of its stateful Python"),
        ),
        tuple(bars),
    )


def _offline(spark: SparkSession, folder: Path, sizes: Sizes) -> offline_repartition.Pause:
    write_every_key(folder / "theirs", sizes.keys)
    write_uniform(folder / "theirs", 1, sizes.rows, sizes.keys, first_row=sizes.keys)
    (later,) = write_uniform(folder / "later", 1, sizes.rows, sizes.keys, first_row=sizes.keys + sizes.rows)
    return offline_repartition.run(spark, folder / "theirs", folder / "tws", later)
