"""Clusters in which some units talk one to one, period by period under ALBIC, and under COLA beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from trimtab.planning.plan import Planner
from trimtab.planning.problem import Problem
from trimtab_lab.experiment import Check, Table
from trimtab_lab.planners.albic import albic
from trimtab_lab.planners.cola import cola
from trimtab_lab.workloads.clusters import drift, synthetic_cluster

VARIES = 20.0
"""How uneven the load of clusters is at the start; the paper doesn't say."""

PATIENCE_S = 30.0
"""The search is limited by steps, so that the same seed finds the same plan on any machine."""

SETTLED = 0.75
"""Figures are averages over what is left of the periods after this share of them."""

COLA_TIMES = 8
"""How often COLA plans during a run. Each time it starts from scratch, so more plans would show nothing new."""


@dataclass(frozen=True)
class Size:
    """How large a cluster is, how many moves a period has, and how many periods are followed."""

    nodes: int
    units: int
    operators: int
    max_moves: int
    periods: int

    @property
    def name(self) -> str:
        """As the paper writes it."""
        return f"{self.nodes} nodes, {self.units} groups, {self.operators} operators"


@dataclass(frozen=True)
class Course:
    """The measures after each plan of a run."""

    collocations: list[float]
    distances: list[float]
    moves: list[int]

    def settled(self, measure: str) -> float:
        """The average of a measure once the run has settled."""
        values = getattr(self, measure)
        return float(np.mean(values[int(SETTLED * len(values)) :]))


@dataclass(frozen=True)
class Pair:
    """One cluster under both planners. COLA ignores the placement: its figures are averages over all its plans."""

    one_to_one: float
    size: Size
    seed: int
    albic: Course
    cola: Course

    @property
    def collocation_gain(self) -> float:
        """By how many points ALBIC's collocation is above COLA's."""
        return self.albic.settled("collocations") - float(np.mean(self.cola.collocations))

    @property
    def distance_ratio(self) -> float:
        """ALBIC's load distance as a share of COLA's."""
        return self.albic.settled("distances") / float(np.mean(self.cola.distances))

    @property
    def moves_ratio(self) -> float:
        """The most moves of an ALBIC period as a share of what COLA moves on average."""
        return max(self.albic.moves) / float(np.mean(self.cola.moves))


def play_pair(size: Size, one_to_one: float, seed: int) -> Pair:
    """Follow a cluster under both planners, with the same changes of load."""
    problem = start(size, one_to_one, seed)
    ours = follow(problem, partial(albic, time_limit_s=PATIENCE_S, seed=seed), size.periods, seed)
    free = replace(problem, max_moves=None)
    every = max(1, size.periods // COLA_TIMES)
    theirs = follow(free, partial(cola, seed=seed), size.periods, seed, every=every)
    return Pair(one_to_one, size, seed, ours, theirs)


def start(size: Size, one_to_one: float, seed: int) -> Problem:
    """A cluster with units at random places: hardly any traffic stays inside a node."""
    return synthetic_cluster(
        size.nodes,
        size.units,
        varies=VARIES,
        seed=seed,
        operators=size.operators,
        max_moves=size.max_moves,
        one_to_one=one_to_one,
    )


def follow(problem: Problem, planner: Planner, periods: int, seed: int, *, every: int = 1) -> Course:
    """Plan in one of `every` periods; in each one a fifth of the nodes change their load by up to 2 % (section 5.3)."""
    course = Course([], [], [])
    for period in range(periods):
        if period % every == 0:
            plan = planner(problem)
            problem = replace(problem, homes=plan.owner)
            course.collocations.append(plan.collocation)
            course.distances.append(plan.load_distance)
            course.moves.append(len(plan.moves))
        problem = drift(problem, seed=1000 * seed + period)
    return course


def comparison(title: str, head: str, groups: Sequence[tuple[str | float, Sequence[Pair]]]) -> Table:
    """Averages of both planners, a row for each group."""
    rows = []
    for name, pairs in groups:
        row: list[str | float] = [name]
        for measure in ("collocations", "distances", "moves"):
            row.append(float(np.mean([pair.albic.settled(measure) for pair in pairs])))
            row.append(float(np.mean([np.mean(getattr(pair.cola, measure)) for pair in pairs])))
        rows.append(tuple(row))
    columns = (
        head,
        "collocation, %: ALBIC",
        "COLA",
        "load distance, points: ALBIC",
        "COLA ",
        "moves a period: ALBIC",
        "COLA  ",
    )
    return Table(title, columns, tuple(rows))


def spread(pairs: Sequence[Pair]) -> Table:
    """How far apart the planners are: median, worst and best."""
    gains, levels = [pair.collocation_gain for pair in pairs], [pair.distance_ratio for pair in pairs]
    shares = [pair.moves_ratio for pair in pairs]
    rows = (
        ("points of collocation above COLA", float(np.median(gains)), min(gains), max(gains)),
        ("load distance / COLA's", float(np.median(levels)), max(levels), min(levels)),
        ("moves / COLA's", float(np.median(shares)), max(shares), min(shares)),
    )
    return Table(f"ALBIC beside COLA in all {len(pairs)} clusters", ("measure", "median", "worst", "best"), rows)


def record(pair: Pair) -> dict[str, float]:
    """The measures of a pair as plain numbers."""
    return {
        "one_to_one": pair.one_to_one,
        "nodes": pair.size.nodes,
        "seed": pair.seed,
        "gain": pair.collocation_gain,
        "distance_ratio": pair.distance_ratio,
        "moves_ratio": pair.moves_ratio,
        "albic_collocation": pair.albic.settled("collocations"),
        "cola_collocation": float(np.mean(pair.cola.collocations)),
        "albic_distance": pair.albic.settled("distances"),
        "cola_distance": float(np.mean(pair.cola.distances)),
    }


def checks(records: Sequence[dict[str, float]], paper_gain: str) -> tuple[Check, ...]:
    """More collocation, at a lower load distance, with a tenth of the moves, in every cluster."""
    gains, levels = [each["gain"] for each in records], [each["distance_ratio"] for each in records]
    shares = [each["moves_ratio"] for each in records]
    return (
        Check(
            "ALBIC's collocation is at least COLA's, in every cluster",
            min(gains) >= 0,
            paper_gain,
            f"{min(gains):.1f} to {max(gains):.1f} points above",
        ),
        Check(
            "its load distance is lower, in every cluster",
            max(levels) < 1,
            "lower",
            f"{100 * float(np.median(levels)):.0f} % of COLA's (median), at most {100 * max(levels):.0f} %",
        ),
        Check(
            "no period takes more than a tenth of the moves that a plan of COLA takes on average",
            max(shares) <= 0.1,
            "",
            f"at most {100 * max(shares):.1f} %",
        ),
    )
