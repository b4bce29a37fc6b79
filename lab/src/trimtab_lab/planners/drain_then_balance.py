"""Draining separately from balancing: for comparison with the integrated plan of `milp`."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from trimtab.planning.draft import draft_of, empty_closed_nodes, place_new
from trimtab.planning.plan import Plan, Planner
from trimtab.planning.problem import Problem


def drain_then_balance(problem: Problem, *, balance: Planner) -> Plan:
    """The opposite of an integrated plan: empty the draining nodes first, and balance with what is left of the budget.

    While units are left on draining nodes the whole budget is used to move those, the heaviest first, each to the least
    utilised node: overloaded nodes have to wait. `balance` plans once none is left. Figure 5 of Madsen et al. (2017)
    compares the integrated plan with it.

    >>> from trimtab.planning.flux import flux
    >>> problem = Problem([9.0, 9.0, 1.0], [0, 0, 2], [20.0] * 3, draining=[False, False, True], max_moves=1)
    >>> drain_then_balance(problem, balance=flux).moves.tolist()
    [2]
    """
    started = time.perf_counter()
    draft = draft_of(problem)
    place_new(problem, draft)
    empty_closed_nodes(problem, draft)
    owner = draft.owner
    if bool(problem.open_nodes[owner].all()):
        moves_left, cost_left = draft.budget
        emptied = replace(
            problem,
            homes=owner,
            max_moves=int(moves_left) if math.isfinite(moves_left) else None,
            max_cost=max(float(cost_left), 0.0) if math.isfinite(cost_left) else None,
        )
        owner = balance(emptied).owner
    return Plan.of(problem, owner, "drain_then_balance", seconds=time.perf_counter() - started)
