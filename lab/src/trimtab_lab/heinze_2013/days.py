"""The days of FUGU's experiments: the same queries for every planner and threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem
from trimtab_lab.experiment import Scale, Settings
from trimtab_lab.planners.first_fit import first_fit
from trimtab_lab.planners.fugu import fugu
from trimtab_lab.simulation.hosts_and_queries import Course, run_day
from trimtab_lab.simulation.query_day import QueryDay, query_day, varying_rate

PAPER = "Heinze 2013"
THRESHOLDS = (0.75, 0.8, 0.85, 0.9)
EVENTS_PER_S = 750.0
"""The paper's fixed rate, where it says which (figure 7)."""

WORKLOAD = (
    "Simulated, as the paper's CEP engine and its ticks of the Frankfurt exchange are not available: up to 10 hosts, "
    "45 queries at the peak of a day that lasts an hour (10 s a period), each of source, filter, window and sink with "
    "a random sector and window. An operator's cost is drawn so that 45 queries fill about five hosts at 750 events a "
    "second; new ones are placed by the worst case, running ones by measurement; hosts slow down as queues do. What "
    "the paper does not print was set with its figures in view: operator costs, how long queries stay (1/24 of the "
    "day; the gain of rebalancing is above 6 points from 1/6 to 1/48) and the queueing formula. That levels are near "
    "the paper's is therefore fitted; differences between planners, thresholds and rates are what is tested."
)

FIRST_FIT, REBALANCED = "first fit", "FUGU, rebalancing"
PLANNERS: dict[str, Callable[..., Plan]] = {FIRST_FIT: first_fit, REBALANCED: fugu}
COLOURS = {FIRST_FIT: "#d55e00", REBALANCED: "#0072b2"}
MARKERS = {FIRST_FIT: "s", REBALANCED: "o"}

Rates = tuple[float, float] | float
"""A fixed rate in events a second, or the bounds of one that varies."""


def day_seeds(settings: Settings, *, full: int, reduced: int) -> range:
    """The seeds of the days to run."""
    count = full if settings.scale is Scale.FULL else reduced
    return range(settings.seed * 1_000, settings.seed * 1_000 + count)


def day_of(rates: Rates, seed: int) -> QueryDay:
    """A day at a rate."""
    return query_day(varying_rate(*rates, seed=seed) if isinstance(rates, tuple) else rates, seed=seed)


def planner_of(name: str, threshold: float) -> Callable[[Problem], Plan]:
    """One of the two planners at a threshold."""
    return partial(PLANNERS[name], threshold=threshold)


def sweep(
    settings: Settings, seeds: range, cases: Iterable[tuple[str, Rates, float]]
) -> dict[tuple[str, Rates, float], list[Course]]:
    """Run every case (planner, rate, threshold) on every day."""
    cases = list(cases)
    found: dict[tuple[str, Rates, float], list[Course]] = {case: [] for case in cases}
    for i, seed in enumerate(seeds):
        for j, (name, rates, threshold) in enumerate(cases):
            settings.progress((i + j / len(cases)) / len(seeds), f"day {i + 1} of {len(seeds)}")
            day = day_of(rates, seed)
            found[name, rates, threshold].append(run_day(day, planner_of(name, threshold), seed=seed))
    return found


def mean(values: Iterable[float]) -> float:
    """The mean as a float."""
    return float(np.mean(list(values)))


def rounded(values: Iterable[float], digits: int = 3) -> list[float]:
    """Plain numbers for `series`."""
    return [round(float(value), digits) for value in values]
