"""Every placement tried: the slow and obvious planner that the others are compared with."""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np
import numpy.typing as npt

from trimtab.planning.plan import Plan
from trimtab.planning.problem import NEW, ROUNDING, BoolArray, Float64Array, Problem, no_room


def brute_force(problem: Problem, *, most_placements: int = 300_000) -> Plan:
    """The smallest load distance that any allowed placement has; of those with it the one with the fewest moves.

    Its lower bound is its load distance, proved by trying every placement. Only for a handful of units.

    >>> problem = Problem(loads=[3.0, 3.0, 2.0, 2.0, 2.0], homes=[0, 0, 0, 0, 1], capacities=[10.0, 10.0], max_moves=2)
    >>> plan = brute_force(problem)
    >>> plan.moves.tolist(), plan.load_distance
    ([2, 3], 0.0)

    Time O(nodes ** units).
    """
    started = time.perf_counter()
    choices = [
        [node for node in range(problem.nodes) if problem.open_nodes[node] or node == home] for home in problem.homes
    ]
    count = math.prod(len(nodes) for nodes in choices)
    if count > most_placements:
        raise ValueError(f"{problem.units} units have {float(count):.3g} placements, more than {most_placements}")
    owners = np.array(list(product(*choices)), dtype=np.int32).reshape(count, problem.units)
    owners = owners[_allowed(problem, owners)]
    if not len(owners):
        raise no_room(int(np.flatnonzero(problem.homes == NEW)[0]))
    levels = 100.0 * _filled(owners, problem.work, problem.nodes)[:, problem.open_nodes]
    distances = np.abs(levels / problem.strength[problem.open_nodes] - problem.mean).max(axis=1)
    moves = _away(problem, owners).sum(axis=1)
    best = np.flatnonzero(distances <= distances.min() * (1 + ROUNDING) + ROUNDING)
    owner = owners[best[moves[best].argmin()]]
    distance = problem.load_distance(owner)
    return Plan.of(problem, owner, "brute_force", lower_bound=distance, seconds=time.perf_counter() - started)


def _away(problem: Problem, owners: npt.NDArray[np.int32]) -> BoolArray:
    """(placements, units) whether a unit leaves its home."""
    away: BoolArray = (owners != problem.homes) & (problem.homes != NEW)
    return away


def _filled(owners: npt.NDArray[np.int32], amounts: Float64Array, nodes: int) -> Float64Array:
    """(placements, nodes) how much each node holds."""
    return np.stack([(owners == node) @ amounts for node in range(nodes)], axis=1).astype(np.float64)


def _allowed(problem: Problem, owners: npt.NDArray[np.int32]) -> BoolArray:
    """(placements,) whether `Problem.faults` finds nothing; nodes that take no units were left out before."""
    away = _away(problem, owners)
    good = np.ones(len(owners), dtype=np.bool_)
    if problem.max_moves is not None:
        good &= away.sum(axis=1) <= problem.max_moves
    if problem.max_cost is not None:
        good &= away @ problem.move_costs <= problem.max_cost * (1 + ROUNDING)
    placed = problem.homes != NEW
    for resource in range(problem.loads.shape[1]):
        if resource != problem.bottleneck:
            needs = problem.loads[:, resource]
            used = np.bincount(problem.homes[placed], weights=needs[placed], minlength=problem.nodes)
            limit = np.maximum(problem.capacities[:, resource], used) * (1 + ROUNDING) + ROUNDING
            good &= (_filled(owners, needs, problem.nodes) <= limit).all(axis=1)
    return good
