"""ranges: how many positions each partition may read in a batch, if all of them together may read `limit_rows`.

Rows whose event time is ahead of the slowest partition only wait in the state for the watermark. So partitions are
aligned: all are read up to the same event time, as far as their rows a second tell where that is. The one that is ahead
waits for the others, but never without a share of its own, because a watermark may also wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

LEAST_SHARE = 0.1
"""Of what it would read if none were ahead, what a partition reads however far it is ahead itself."""

DENSITIES = (1e-9, 1e12)
"""Rows in a second of event time that are possible: others would overflow."""

ROUNDS = 60
"""Of halving an interval of times: what is left is less than a row, or is given out row by row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBacklog:
    """What waits in a partition.

    next        the first position that hasn't been read
    latest      the position after the last one that there is
    newest_us   the newest event time of the rows read so far, in microseconds; None: none were read
    rows_per_s  how many rows it has in a second of event time, as `measured_density` finds it; None: unknown
    """

    next: int
    latest: int
    newest_us: int | None = None
    rows_per_s: float | None = None

    @property
    def rows(self) -> int:
        """How many positions wait."""
        return max(0, self.latest - self.next)


def ranges(limit_rows: int, backlogs: Mapping[str, PartitionBacklog], *, turn: int = 0) -> dict[str, int]:
    """How many positions each partition may read: `min(limit_rows, all that wait)` in all, exactly.

    Every partition in which something waits gets at least `LEAST_SHARE` of what it would get if none were ahead, and at
    least one position. (Of an equal share, a partition with few rows a second would run ahead of all others.) If the
    limit is lower than the number of partitions, they take turns: `turn` is the number of the batch, and within as many
    batches as there are partitions each one is read. What one partition doesn't need goes to the others.

    The two hours that wait in `a` and in `b` are read side by side; `c`, which is an hour ahead, waits for them:

    >>> hour_us = 3_600_000_000
    >>> ranges(10_000, {
    ...     "a": PartitionBacklog(next=0, latest=72_000, newest_us=0, rows_per_s=10.0),
    ...     "b": PartitionBacklog(next=0, latest=36_000, newest_us=0, rows_per_s=5.0),
    ...     "c": PartitionBacklog(next=500, latest=36_500, newest_us=hour_us, rows_per_s=10.0),
    ... })
    {'a': 6400, 'b': 3200, 'c': 400}
    """
    if limit_rows < 1:
        raise BalanceError("control.limits", f"a batch may read {limit_rows} rows", "1 or more")
    names = sorted(backlogs)
    waiting = np.array([backlogs[name].rows for name in names], np.int64)
    if waiting.sum() <= limit_rows:
        return {name: int(count) for name, count in zip(names, waiting, strict=True)}
    order = np.roll(np.arange(len(names)), -(turn % len(names)))  # who comes first among equals
    known = [backlogs[name] for name in names]
    density = _densities(known, waiting)
    least = _least(limit_rows, waiting, density, order)
    wanted = _aligned(limit_rows, _lead_s(known), density, waiting, least)
    counts = _in_whole_rows(limit_rows, wanted, least, waiting, order)
    return {name: int(count) for name, count in zip(names, counts, strict=True)}


def measured_density(before: float | None, rows: int, advanced_us: int) -> float | None:
    """A partition's rows in a second of event time after `rows` more, which took its newest time `advanced_us` further.

    `before`: what was known, which counts half. Nothing is learned from rows that are all older than the newest one.

    >>> measured_density(None, 600, 60_000_000), measured_density(20.0, 600, 60_000_000), measured_density(20.0, 5, 0)
    (10.0, 15.0, 20.0)
    """
    if rows <= 0 or advanced_us <= 0:
        return before
    density = rows * 1e6 / advanced_us
    return density if before is None else (before + density) / 2


def _least(limit_rows: int, waiting: Int64Array, density: Float64Array, order: Int64Array) -> Int64Array:
    """What each partition gets in any case."""
    some = int(np.count_nonzero(waiting))
    if limit_rows < some:
        least = np.zeros(len(waiting), np.int64)
        in_turn = order[waiting[order] > 0]
        least[in_turn[:limit_rows]] = 1
        return least
    of_all = np.where(waiting > 0, density, 0.0) / density[waiting > 0].sum()
    least = 1 + (LEAST_SHARE * (limit_rows - some) * of_all).astype(np.int64)
    return np.asarray(np.minimum(waiting, least), np.int64)


def _aligned(
    limit_rows: int, lead_s: Float64Array, density: Float64Array, waiting: Int64Array, least: Int64Array
) -> Float64Array:
    """The rows up to the one event time at which they are `limit_rows` in all; no less than `least`."""
    if int(least.sum()) >= limit_rows:
        return least.astype(np.float64)

    def up_to(time_s: float) -> Float64Array:
        return np.clip(density * (time_s - lead_s), least, waiting)

    early, late = 0.0, float((lead_s + waiting / density).max())
    for _ in range(ROUNDS):
        middle = (early + late) / 2
        early, late = (middle, late) if up_to(middle).sum() <= limit_rows else (early, middle)
    return up_to(early)


def _lead_s(backlogs: list[PartitionBacklog]) -> Float64Array:
    """How far each partition is ahead of the slowest one that has a backlog; of one never read nothing is known: 0."""
    known = [each.newest_us for each in backlogs if each.newest_us is not None and each.rows > 0]
    slowest = min(known, default=0)
    times = (slowest if each.newest_us is None else max(each.newest_us, slowest) for each in backlogs)
    return np.array([(time - slowest) / 1e6 for time in times], np.float64)


def _densities(backlogs: list[PartitionBacklog], waiting: Int64Array) -> Float64Array:
    """Rows in a second of event time; where that isn't known, in proportion to what waits."""
    known = np.array([each.rows_per_s or 0.0 for each in backlogs], np.float64)
    has = (known > 0) & (waiting > 0)
    # If all are as far behind as those that are known, a row that waits is worth the same time in each.
    scale = float((known[has] / waiting[has]).mean()) if has.any() else 1.0
    return np.clip(np.where(known > 0, known, np.maximum(waiting, 1) * scale), *DENSITIES)


def _in_whole_rows(
    limit_rows: int, wanted: Float64Array, least: Int64Array, waiting: Int64Array, order: Int64Array
) -> Int64Array:
    """Whole numbers near the wanted ones, `limit_rows` in all: the largest fractions are rounded up."""
    counts = np.clip(np.floor(wanted).astype(np.int64), least, waiting)
    by_fraction = order[np.argsort(-(wanted - np.floor(wanted))[order], kind="stable")]
    rest = limit_rows - int(counts.sum())
    while rest > 0:
        open_ones = by_fraction[counts[by_fraction] < waiting[by_fraction]]
        share = max(1, rest // len(open_ones))
        chosen = open_ones[: max(1, rest // share)]
        given = np.minimum(share, waiting[chosen] - counts[chosen])
        counts[chosen] += given
        rest -= int(given.sum())
    return counts
