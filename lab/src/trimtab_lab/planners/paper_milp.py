"""The mixed-integer program as the paper prints it, over all pairs of a node and a unit. A reference: see `milp`."""

from __future__ import annotations

import time

from trimtab.planning.assignment_model import solve_assignment
from trimtab.planning.draft import draft_of, place_new
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem

SPREAD_WEIGHT = 1e-4
"""w_2, with w_1 = 1: d comes first by far."""


def paper_milp(problem: Problem, *, time_limit_s: float = 30.0) -> Plan:
    """Solve the paper's program with HiGHS alone: exact where there are few units and nodes, and slow beyond.

    >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
    >>> plan = paper_milp(problem)
    >>> plan.owner.tolist(), plan.load_distance
    ([1, 0, 0], 0.0)

    Reference: Madsen et al. (2017), section 4.3.1; `assignment_model` says what differs from the print.
    """
    started = time.perf_counter()
    draft = draft_of(problem)
    place_new(problem, draft)
    found, bound = solve_assignment(problem, time_limit_s=time_limit_s, spread_weight=SPREAD_WEIGHT)
    # A placement has faults if a row was off by the solver's tolerance.
    owner = draft.owner if found is None or problem.faults(found) else found
    seconds = time.perf_counter() - started
    return Plan.of(problem, owner, "paper_milp", lower_bound=bound, seconds=seconds)
