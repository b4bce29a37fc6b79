"""Madsen's program, solved better: a proven bound, a greedy start, a local search, and HiGHS where it is small."""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.planning.assignment_model import solve_assignment
from trimtab.planning.board import Board
from trimtab.planning.board_start import board_of
from trimtab.planning.levelling import level
from trimtab.planning.local_search import Allowance, Best, Goal, restore, search
from trimtab.planning.lower_bound import lower_bound
from trimtab.planning.moves_needed import FEW, loads_of
from trimtab.planning.pattern_bound import proves
from trimtab.planning.pieces import Pieces
from trimtab.planning.plan import Plan
from trimtab.planning.problem import ROUNDING, Problem
from trimtab.planning.proposals import shift_if_allowed
from trimtab.planning.solvers import need_solvers
from trimtab.planning.tidy import leave_nothing_behind, undo_needless_moves

LEAST_STEPS, STEPS_PER_PIECE, STEPS_PER_PAIR = 1_000_000, 80, 1_000
"""Steps of the search by default: the larger of the first two, but no more than the last one for each pair of a piece
and a node. About two million are done in a second."""
SMALL, SOLVER_NODES = 100, 1_000
"""With up to so many pairs of a piece and a node HiGHS solves exactly what is left, in so many nodes of its search."""
TIES, TIE_COOLINGS = 0.15, 3
"""The share of steps and time that is kept for what matters only when distances tie, and the coolings in half of it."""


def milp(
    problem: Problem,
    *,
    time_limit_s: float = 2.0,
    seed: int = 0,
    together: npt.ArrayLike | None = None,
    effort: int | None = None,
    near_enough: float = 0.0,
) -> Plan:
    """Minimise the load distance within the budget, and prove how far from the optimum it can be at most.

    Of placements with the same distance one with less load on closed nodes is better, then one whose nodes are closer
    to the mean on the other side (the paper's d_u and d_l), then one with fewer moves. Closed nodes are emptied because
    load left there is missing elsewhere (Lemmas 1 and 2), first where that levels the most.

    time_limit_s  when to stop; compiling, the first time, comes on top
    seed          the same seed gives the same plan, unless time ran out
    together      (units,) units with the same label of 0 or more end up on one node; -1 is alone
    effort        steps of the search; by default enough for a small problem in less than the time limit
    near_enough   distances up to this are all the same: budget goes to emptying closed nodes, or isn't used

    >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
    >>> plan = milp(problem)
    >>> plan.owner.tolist(), plan.load_distance, plan.gap
    ([1, 0, 0], 0.0, 0.0)

    On 60 nodes and 1,200 units HiGHS is at a distance of 2.7 after 15 s with the program as it is printed, where this
    finds 0.43 in a fifth of a second and proves that nothing is below 0.42 (benchmarks/planning.py).

    Reference: Madsen et al. (2017), section 4.3.1.
    """
    _check(time_limit_s, effort, near_enough)
    _compile()
    return _plan(problem, time_limit_s, seed, together, effort, near_enough)


@cache
def _compile() -> None:
    """Have everything compiled, or loaded, before the clock starts: once in a process."""
    need_solvers("highspy", "scipy")
    loads = 1.0 + np.arange(100.0) % 7
    for moves in (2, FEW + 1):
        problem = Problem(
            loads, np.arange(100) % 4, np.full(4, 99.0), draining=np.arange(4) == 3, max_moves=moves, max_cost=1.0
        )
        _plan(problem, 60.0, 0, None, 1_000, 0.0)
        proves(loads_of(problem), np.array([4.0, 0.0]), problem.mean, problem.mean, 2)
        shift_if_allowed(board_of(problem, Pieces.of(problem)), np.int64(0), np.int64(1))


def _plan(
    problem: Problem,
    time_limit_s: float,
    seed: int,
    together: npt.ArrayLike | None,
    effort: int | None,
    near_enough: float,
) -> Plan:
    started = time.perf_counter()
    parts = Pieces.of(problem, together)
    board = board_of(problem, parts, seed=seed)
    best = Best.of(board)
    bound = lower_bound(problem, parts)
    steps = _steps(problem, parts) if effort is None else effort
    for_ties = int(TIES * steps)
    if best.distance > near_enough:
        allowance = Allowance(steps - for_ties, started + (1 - TIES) * time_limit_s)
        best, bound = level(problem, parts, board, bound=bound, near_enough=near_enough, allowance=allowance, seed=seed)
        left_s = started + time_limit_s - time.perf_counter()
        bound = max(bound, _solve_exactly(problem, parts, board, best, max(bound, near_enough), left_s))
    _settle_ties(board, best, near_enough, Allowance(for_ties, started + time_limit_s))
    seconds = time.perf_counter() - started
    return Plan.of(problem, parts.placement(best.owner), "milp", lower_bound=bound, seconds=seconds)


def _solve_exactly(
    problem: Problem, parts: Pieces, board: Board, best: Best, enough: float, time_limit_s: float
) -> float:
    """Let HiGHS improve on the best placement where there is little to choose from; the bound that it proves."""
    if best.distance <= enough or parts.count * problem.nodes > SMALL or time_limit_s <= 0:
        return 0.0
    solved = solve_assignment(problem, parts, time_limit_s=time_limit_s, start=best.owner, max_nodes=SOLVER_NODES)
    if solved.owner is not None and not problem.faults(parts.placement(solved.owner)):
        restore(board, Best(solved.owner, best.marks))
        best.keep(board, Best.of(board).distance < best.distance)
        restore(board, best)
    return solved.bound


def _settle_ties(board: Board, best: Best, near_enough: float, allowance: Allowance) -> None:
    """With the distance as it is: empty closed nodes, bring the other side closer, and take back needless moves."""
    width = max(best.distance, near_enough) * (1 + ROUNDING)
    undo_needless_moves(board, width, width)
    leave_nothing_behind(board, width, width)
    best.keep(board)
    half = Allowance(allowance.steps // 2, allowance.deadline_s)
    cooling_steps = max(1, half.steps // TIE_COOLINGS)
    search(board, best, Goal.LEFT_BEHIND, half, floor=0.0, width=width, cooling_steps=cooling_steps)
    if best.distance > near_enough:
        half = Allowance(allowance.steps // 2, allowance.deadline_s)
        search(board, best, Goal.OTHER_SIDE, half, floor=0.0, width=width, cooling_steps=cooling_steps)
    up, low = (max(mark * (1 + ROUNDING), near_enough) for mark in best.marks[:2])
    undo_needless_moves(board, up, low)
    leave_nothing_behind(board, up, low)
    best.keep(board)


def _steps(problem: Problem, parts: Pieces) -> int:
    pairs = parts.count * problem.nodes
    return min(max(LEAST_STEPS, STEPS_PER_PIECE * parts.count), STEPS_PER_PAIR * pairs)


def _check(time_limit_s: float, effort: int | None, near_enough: float) -> None:
    if not time_limit_s > 0:
        raise BalanceError("plan.options", f"time_limit_s is {time_limit_s}", "give a time above 0")
    if effort is not None and effort < 0:
        raise BalanceError("plan.options", f"effort is {effort}", "give a number of steps, 0 or more")
    if not near_enough >= 0:
        raise BalanceError("plan.options", f"near_enough is {near_enough}", "give percentage points, 0 or more")
