"""Live runs of the TopK job, one per planner and limit of moves, shared by all figures of a process that use them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from trimtab_lab.experiment import Scale
from trimtab_lab.live.job_run import Float64Array, Int64Array, JobPlan, JobRun, run_job, write_files
from trimtab_lab.live.scratch import scratch_folder
from trimtab_lab.madsen_2017.updates import (
    ENGINES,
    FULL,
    KEY_GROUPS,
    SCHEMA,
    WINDOW_S,
    group_costs,
    size_of,
    split_updates,
    updates,
)

MEAN_LOAD = 50.0
"""Load distances are in points of an engine's time at this mean load, as in figure 2; the paper doesn't give it."""

ALL_MOVES = KEY_GROUPS
WORKLOAD = (
    f"Live on Spark: a trimtab job that counts the most updated articles of a key in windows of a minute, {ENGINES} "
    f"engines, {KEY_GROUPS} key groups, {FULL.batches} batches of {FULL.updates:,} updates, a period of {FULL.period} "
    "batches. Synthetic updates instead of Wikipedia's: rates of keys drift, and some are in the news for a while. The "
    f"cost is simulated: an engine waits {FULL.wait_us / 1000:g} ms for an update; engines share the eight task slots "
    "of `local[8]`, which changes how long a batch takes, not the engines' loads. Loads are counted in updates, as "
    "each costs the same; load distances are in points at a mean load of 50 %. The paper's three operators with 100 "
    "key groups each are one here, with 300: in trimtab operators of a stream share their key groups."
)


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run with the measures that are computed from its feed and its placements.

    costs   (batches, key groups) simulated seconds
    """

    run: JobRun
    costs: Float64Array
    period: int

    @cached_property
    def moved(self) -> Int64Array:
        """(batches,) how many key groups moved before each batch."""
        return np.array([int(self.run.moved(batch).sum()) for batch in range(len(self.run.batches))], np.int64)

    @cached_property
    def turns(self) -> Int64Array:
        """The batches before which key groups moved, or for a run without moves, with which periods begin."""
        found = np.flatnonzero(self.moved)
        return found if len(found) else np.arange(self.period, len(self.moved), self.period)

    @cached_property
    def after_moves(self) -> Float64Array:
        """By turn: the load distance directly after the moves, in points, by the loads that they were planned for."""
        known = self._estimated_loads()
        return np.array([self._distance(known[max(at for at in known if at < turn)], turn) for turn in self.turns])

    def _estimated_loads(self) -> dict[int, Float64Array]:
        """(key groups,) the coordinator's estimate of loads, by the batch after which it planned moves."""
        from trimtab.deciding.load_estimates import LoadEstimates

        found: dict[int, Float64Array] = {}
        for place, entry in enumerate(self.run.entries):
            if place == 0:
                assert entry.balance is not None
                measure, half_life = entry.balance.measured, entry.balance.half_life_batches
                estimates = LoadEstimates(measure, half_life=half_life, interval_s=entry.interval_s)
            estimates.take(entry.observed)
            if entry.decision.actions:
                found[place] = estimates.loads()
        return found

    @cached_property
    def until_next(self) -> Float64Array:
        """By turn: the load distance by the updates from then on to the next turn."""
        ends = [*self.turns[1:], len(self.costs)]
        return np.array(
            [self._distance(self.costs[turn:end].sum(axis=0), turn) for turn, end in zip(self.turns, ends, strict=True)]
        )

    def _distance(self, loads: Float64Array, batch: int) -> float:
        return load_distance(np.bincount(self.run.owners[batch], loads, ENGINES).astype(np.float64))

    @cached_property
    def extra_ms(self) -> float:
        """Measured: the median time of batches with moves less that of the others; 0 if there are none."""
        took_ms = np.array([batch.batch_ms for batch in self.run.batches])
        inside = np.arange(len(took_ms)) > 1
        with_moves, others = took_ms[inside & (self.moved > 0)], took_ms[inside & (self.moved == 0)]
        return float(np.median(with_moves) - np.median(others)) if len(with_moves) and len(others) else 0.0

    @cached_property
    def batch_ms(self) -> float:
        """Measured: the median time of a batch."""
        return float(np.median([batch.batch_ms for batch in self.run.batches]))

    @cached_property
    def measured_distance(self) -> float:
        """Measured: the load distance of the engines' own time in a batch, the median of all batches."""
        return float(
            np.median(
                [
                    load_distance(np.array([engine.worked_ms for engine in batch.engines]))
                    for batch in self.run.batches[1:]
                ]
            )
        )


def mean(values: list[float]) -> float:
    """The mean; 0 if there are none."""
    return sum(values) / len(values) if values else 0.0


def load_distance(loads: Float64Array) -> float:
    """The largest deviation of an engine from the mean, in points at the usual mean load.

    >>> load_distance(np.array([9.0, 10.0, 11.0]))
    5.0
    """
    mean = float(loads.mean())
    return float(np.abs(loads - mean).max()) / mean * MEAN_LOAD if mean else 0.0


@cache
def planned_run(planner: str, max_moves: int, scale: Scale, seed: int) -> PlannedRun:
    """The job with a planner that may move `max_moves` key groups per period."""
    from trimtab.deciding.policy import Balance

    size = size_of(scale)
    balance = Balance(
        planner=planner,
        measure="events",
        max_rstd=None,
        max_load_distance=0.0,
        patience=1,
        period_batches=size.period,
        max_moves=max_moves,
        half_life_batches=size.period / 2,
        min_gain=0.0,
        time_limit_s=1.0,
    )
    run = run_job(_plan("bucket", balance), _files(False, scale, seed), scratch_folder())
    return PlannedRun(run, group_costs(updates(scale, seed), is_split=False), size.period)


@cache
def split_run(scale: Scale, seed: int) -> PlannedRun:
    """The job with every key split over two engines (PoTC), and nothing moved."""
    run = run_job(_plan("(bucket, salt)", None), _files(True, scale, seed), scratch_folder())
    return PlannedRun(run, group_costs(split_updates(scale, seed), is_split=True), size_of(scale).period)


def _plan(keys: str, balance: object) -> JobPlan:
    import trimtab_lab.live.operators  # noqa: F401 - importing it registers `top_articles`
    from trimtab.deciding.policy import Balance

    assert balance is None or isinstance(balance, Balance)
    sql = f"SELECT * FROM top_articles(TABLE(feed) PARTITION BY {keys} ORDER BY ts, most => 3, window_s => {WINDOW_S})"
    return JobPlan(sql, SCHEMA, ENGINES, KEY_GROUPS, balance)


@cache
def _files(is_split: bool, scale: Scale, seed: int) -> Path:
    tables = split_updates(scale, seed) if is_split else updates(scale, seed)
    return write_files(scratch_folder() / "feed", tables)
