"""Units too hot for any node to bear with others: they get a node each, and the rest is planned without them.

A planner that minimises the load distance has nothing to gain once a single unit is above the mean: its node is the
farthest, whatever happens to the others, and they are left as they are. Setting it apart makes the others a problem of
their own, with a mean that can be reached.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import NEW, ROUNDING, Problem


def plan_around_hot_units(problem: Problem, planner: Planner) -> Plan:
    """The planner's placement of all units but the hot ones, which have one of the strongest nodes each.

    A unit is hot if it alone takes its node above what the rest of the nodes would have on average. It stays at home if
    no free node is stronger, and goes to the least loaded of the strongest otherwise, if the budget has a move for it.
    Where that leaves too little of the budget for the others, the planner's own placement of all units is the better
    one, and is what is returned.

    >>> from trimtab.planning.lptf import lptf
    >>> problem = Problem(loads=[90.0, 4.0, 4.0, 2.0], homes=[0, 0, 1, 2], capacities=[100.0] * 3, max_moves=1)
    >>> plan_around_hot_units(problem, lptf).owner.tolist()
    [0, 1, 1, 2]
    """
    started = time.perf_counter()
    apart = _hot_units(problem)
    if not apart:
        return planner(problem)
    hot = np.array(sorted(apart))
    owner = problem.homes.copy()
    owner[hot] = [apart[unit] for unit in hot.tolist()]
    rest = np.ones(problem.units, np.bool_)
    rest[hot] = False
    inner = planner(_without(problem, rest, hot, owner))
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


def _without(
    problem: Problem,
    rest: np.ndarray[tuple[int], np.dtype[np.bool_]],
    hot: np.ndarray[tuple[int], np.dtype[np.int64]],
    owner: np.ndarray[tuple[int], np.dtype[np.int32]],
) -> Problem:
    """The problem of the other units, on the other nodes, with what is left of the budget."""
    draining = problem.draining.copy()
    draining[owner[hot]] = True
    moved = hot[(owner[hot] != problem.homes[hot]) & (problem.homes[hot] != NEW)]
    max_cost = problem.max_cost
    return replace(
        problem,
        loads=problem.loads[rest],
        homes=problem.homes[rest],
        draining=draining,
        state_bytes=problem.state_bytes[rest],
        move_costs=problem.move_costs[rest],
        traffic=None if problem.traffic is None else problem.traffic[rest][:, rest],
        operators=problem.operators[rest],
        max_moves=None if problem.max_moves is None else problem.max_moves - len(moved),
        max_cost=None if max_cost is None else max(0.0, max_cost - float(problem.move_costs[moved].sum())),
    )
