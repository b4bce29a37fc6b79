"""Plan: a placement with what it costs, how level it is, and how far from the proven best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trimtab.planning.problem import Int32Array, Int64Array, Problem


@dataclass(frozen=True, eq=False)
class Plan:
    """What a planner answers. `owner[unit]` is its node; the rest are measures of that placement.

    planner         the name of the planner
    owner           (units,) the node of each unit
    moves           the units that change their node
    load_distance   percentage points between the mean utilisation and the node farthest from it
    rstd            standard deviation of utilisation, in percent of its mean
    migration_cost  the sum of the moved units' costs
    collocation     percentage of the traffic that stays inside a node
    lower_bound     no placement within the budget has a smaller load distance; 0 if nothing was proved
    seconds         how long planning took
    """

    planner: str
    owner: Int32Array
    moves: Int64Array
    load_distance: float
    rstd: float
    migration_cost: float
    collocation: float
    lower_bound: float
    seconds: float

    @classmethod
    def of(
        cls, problem: Problem, owner: npt.ArrayLike, planner: str, *, lower_bound: float = 0.0, seconds: float = 0.0
    ) -> Plan:
        """Measure a placement.

        >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 1], capacities=[100.0, 100.0])
        >>> plan = Plan.of(problem, [0, 1, 1], "by hand")
        >>> plan.moves.tolist(), plan.load_distance, plan.rstd
        ([1], 0.0, 0.0)
        """
        owner = np.ascontiguousarray(owner, dtype=np.int32)
        distance = problem.load_distance(owner)
        return cls(
            planner=planner,
            owner=owner,
            moves=problem.moved(owner),
            load_distance=distance,
            rstd=problem.rstd(owner),
            migration_cost=problem.migration_cost(owner),
            collocation=problem.collocation(owner),
            lower_bound=min(lower_bound, distance),
            seconds=seconds,
        )

    @property
    def gap(self) -> float:
        """How far the load distance is above the proven bound, as a share of the bound; infinite above a bound of 0."""
        if self.load_distance <= self.lower_bound:
            return 0.0
        return self.load_distance / self.lower_bound - 1.0 if self.lower_bound > 0 else math.inf


class Planner(Protocol):
    """A function that places units. Options of its own are keyword-only."""

    def __call__(self, problem: Problem) -> Plan:
        """Plan within the budget; units never go to a node that takes none."""
        ...
