"""Hot units: each gets a node for itself, and the other units are planned without them.

A planner that minimises the load distance has nothing to gain once a single unit is above the mean: its node is the
farthest, whatever happens to the others, and they are left as they are. Setting it apart makes the others a problem of
their own, with a mean that can be reached.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, ROUNDING, Int32Array, Int64Array, Problem


def plan_around_hot_units(problem: Problem, planner: Planner) -> Plan:
    """The planner's placement of all units but the hot ones, each of which has one of the strongest nodes for itself.

    A unit is hot if it alone takes its node above what the rest of the nodes would have on average. It stays at home if
    no free node is stronger; otherwise it goes to the least loaded of the strongest, if the budget has a move for it.
    If that leaves too little of the budget for the others, the result is the planner's own placement of all units.

    >>> from trimtab.planning.lptf import lptf
    >>> problem = Problem(loads=[90.0, 4.0, 4.0, 2.0], homes=[0, 0, 1, 2], capacities=[100.0] * 3, max_moves=1)
    >>> plan_around_hot_units(problem, lptf).owner.tolist()
    [0, 1, 1, 2]
    """
    started = time.perf_counter()
    apart = _hot_units(problem)
    hot = np.array(sorted(apart), dtype=np.int64)
    rest = np.delete(np.arange(problem.units), hot)
    # Without the hot units another resource may be the scarcest: nodes would be measured by something else.
    if not apart or problem.of_units(rest).bottleneck != problem.bottleneck:
        return planner(problem)
    owner = problem.homes.copy()
    owner[hot] = [apart[unit] for unit in hot.tolist()]
    inner = planner(_without(problem, rest, owner))
    owner[rest] = inner.owner
    alone = planner(problem)
    if problem.faults(owner) or alone.rstd <= problem.rstd(owner):
        return alone
    return Plan.of(problem, owner, inner.planner, seconds=time.perf_counter() - started)


def _hot_units(problem: Problem) -> dict[int, int]:
    """Each hot unit with the node that it has for itself."""
    free = problem.open_nodes.copy()
    loads = problem.node_loads(problem.homes)
    left, strength = float(problem.work.sum()), float(problem.strength[free].sum())
    moves = problem.units if problem.max_moves is None else problem.max_moves
    cost = np.inf if problem.max_cost is None else problem.max_cost
    apart: dict[int, int] = {}
    for unit in np.argsort(-problem.work, kind="stable").tolist():
        if np.count_nonzero(free) < 2:
            break
        home = int(problem.homes[unit])
        # Of the strongest nodes its home, or else the one with the least to give away.
        best = free & (problem.strength >= problem.strength[free].max() * (1 - ROUNDING))
        node = home if home != NEW and best[home] else int(np.where(best, loads, np.inf).argmin())
        if problem.work[unit] / problem.strength[node] <= left / strength:
            break
        if node != home and home != NEW:
            if moves < 1 or cost < problem.move_costs[unit]:
                continue  # it stays, and shares its home
            moves, cost = moves - 1, cost - float(problem.move_costs[unit])
        apart[unit] = node
        free[node] = False
        left -= float(problem.work[unit])
        strength -= float(problem.strength[node])
    return apart


def _without(problem: Problem, rest: Int64Array, owner: Int32Array) -> Problem:
    """The problem of the other units, on the other nodes, with what is left of the budget."""
    draining = problem.draining.copy()
    draining[np.delete(owner, rest)] = True
    max_moves, max_cost = problem.max_moves, problem.max_cost
    return replace(
        problem.of_units(rest),
        draining=draining,
        max_moves=None if max_moves is None else max_moves - len(problem.moved(owner)),
        max_cost=None if max_cost is None else max(0.0, max_cost - problem.migration_cost(owner)),
    )
