"""Madsen's program, solved better: a proven bound, a greedy start, a local search, and HiGHS where it is small."""

from __future__ import annotations

import time
from functools import cache
from itertools import cycle

import numpy as np

from trimtab.planning.assignment_model import solve_assignment
from trimtab.planning.board import Board, board_of, put_back
from trimtab.planning.draft import draft_of, place_new
from trimtab.planning.greedy import clear_closed_nodes, undo_needless_moves, worst_first
from trimtab.planning.linear_program import need_solvers
from trimtab.planning.local_search import Allowance, Best, Goal, cool, search
from trimtab.planning.lower_bound import affordable_moves, lower_bound
from trimtab.planning.move_patterns import FittingPatterns, Outcome, patterns_of
from trimtab.planning.moves_needed import FEW, loads_of
from trimtab.planning.plan import Plan
from trimtab.planning.problem import ROUNDING, Problem, need
from trimtab.planning.proposals import shift_if_allowed

LEAST_STEPS, STEPS_PER_UNIT, STEPS_PER_PAIR = 1_000_000, 80, 1_000
"""Steps of the search by default: the larger of the first two, but no more than the last one for each pair of a unit
and a node. About two million are done in a second."""
SMALL, SOLVER_NODES = 100, 1_000
"""With up to SMALL pairs of a unit and a node HiGHS solves the rest exactly, in SOLVER_NODES nodes of its search."""
TIES, TIE_COOLINGS = 0.15, 3
"""The share of steps and time that is kept for what matters only when distances tie, and the coolings in half of it."""

COOLINGS = 9
"""The steps allowed are enough for this many coolings, or somewhat more, as some are shorter."""
CLOSE = 0.01
"""The search ends when the distance is above the bound by no more than this share."""
ASIDE = 0.1
"""The temperature of a cooling that starts from a good placement, as a share of the usual one."""
AFRESH = 1_000
"""A cooling with fewer steps for each node than this is too short to begin from the first placement again."""
PATTERN_STEPS = 0.5
"""The steps of a cooling that starts from patterns, as a share of the usual ones."""
AIMS = (0.9, 0.1, 0.02, 0.4, 0.2)
"""What patterns aim at, between the bound (0) and the best distance (1). The first one is mostly a quick proof."""


def milp(
    problem: Problem, *, time_limit_s: float = 2.0, seed: int = 0, effort: int | None = None, near_enough: float = 0.0
) -> Plan:
    """Minimise the load distance within the budget, and prove how far from the optimum it can be at most.

    Of placements with the same distance one with less load on closed nodes is better, then one whose nodes are closer
    to the mean on the other side (the paper's d_u and d_l), then one with fewer moves. Closed nodes are emptied because
    load left there is missing elsewhere (Lemmas 1 and 2), first where that levels the most.

    time_limit_s  how long planning may take; compiling comes on top, the first time
    seed          the same seed gives the same plan, unless the time runs out
    effort        steps of the search; by default enough for a small problem in less than the time limit
    near_enough   distances up to this count as the same: the budget goes to emptying closed nodes, or isn't used

    >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
    >>> plan = milp(problem)
    >>> plan.owner.tolist(), plan.load_distance, plan.gap
    ([1, 0, 0], 0.0, 0.0)

    On 60 nodes and 1,200 units HiGHS is at a distance of 2.7 after 15 s with the program as it is printed, where this
    finds 0.43 in a fifth of a second and proves that nothing is below 0.42 (benchmarks/planning.py).

    Reference: Madsen et al. (2017), section 4.3.1.
    """
    need(time_limit_s > 0, "plan.options", f"time_limit_s is {time_limit_s}", "give a time above 0")
    need(effort is None or effort >= 0, "plan.options", f"effort is {effort}", "give a number of steps, 0 or more")
    need(near_enough >= 0, "plan.options", f"near_enough is {near_enough}", "give percentage points, 0 or more")
    _compile()
    return _plan(problem, time_limit_s, seed, effort, near_enough)


@cache
def _compile() -> None:
    """Have everything compiled, or loaded, before the clock starts: once in a process."""
    need_solvers("highspy", "scipy")
    loads = 1.0 + np.arange(100.0) % 7
    for moves in (2, FEW + 1):
        problem = Problem(
            loads, np.arange(100) % 4, np.full(4, 99.0), draining=np.arange(4) == 3, max_moves=moves, max_cost=1.0
        )
        _plan(problem, 60.0, 0, 1_000, 0.0)
        patterns_of(loads_of(problem), np.array([4.0, 0.0]), problem.mean, problem.mean, 2)
        shift_if_allowed(board_of(problem, problem.homes, np.zeros((4, 0))), np.int64(0), np.int64(1))


def _plan(problem: Problem, time_limit_s: float, seed: int, effort: int | None, near_enough: float) -> Plan:
    started = time.perf_counter()
    draft = draft_of(problem)
    place_new(problem, draft)
    order = np.argsort(problem.work, kind="stable")
    rising = problem.of_units(order)
    board = board_of(rising, draft.owner[order], draft.room, seed=seed)
    best, bound = Best.of(board), lower_bound(problem)
    usual = min(max(LEAST_STEPS, STEPS_PER_UNIT * problem.units), STEPS_PER_PAIR * problem.units * problem.nodes)
    steps = usual if effort is None else effort
    for_ties = int(TIES * steps)
    if best.distance > near_enough:
        allowance = Allowance(steps - for_ties, started + (1 - TIES) * time_limit_s)
        levelling = _Levelling(rising, board, bound=bound, near_enough=near_enough, allowance=allowance, seed=seed)
        levelling.run()
        best, bound = levelling.best, levelling.bound
        left_s = started + time_limit_s - time.perf_counter()
        bound = max(bound, _solve_exactly(rising, board, best, max(bound, near_enough), left_s))
    _settle_ties(board, best, near_enough, Allowance(for_ties, started + time_limit_s))
    owner = np.empty_like(best.owner)
    owner[order] = best.owner
    return Plan.of(problem, owner, "milp", lower_bound=bound, seconds=time.perf_counter() - started)


class _Levelling:
    """The search for the least load distance, and for a proof that it is the least, from the board's placement."""

    def __init__(
        self, problem: Problem, board: Board, *, bound: float, near_enough: float, allowance: Allowance, seed: int
    ) -> None:
        self.board, self.bound, self.near_enough, self.allowance = board, bound, near_enough, allowance
        self.homes = board.units["owner"].copy()  # only new units aren't at home
        worst_first(board)
        self.start, self.best = board.units["owner"].copy(), Best.of(board)
        self.steps = max(1, allowance.steps // COOLINGS)  # of a cooling
        self.patterns = FittingPatterns.of(problem, affordable_moves(problem), seed=seed)
        self.ceiling = float("inf")  # patterns are too many to go through at this distance
        self.aims = cycle(AIMS)

    def run(self) -> None:
        """Search until the distance is close to the bound or near enough, or the allowance is used up.

        The board ends at the best placement.
        """
        self.cool_from_start()
        self.raise_bound()
        pattern, begin, best = self.cool_from_pattern, self.cool_from_start, self.cool_from_best
        turns = cycle((pattern, pattern, begin, pattern, pattern, best))
        while self.allowance.steps > 0 and self.best.distance > self.floor:
            next(turns)()
        self.raise_bound()
        put_back(self.board, self.best.owner)

    @property
    def floor(self) -> float:
        """The distance at which to stop."""
        return max(self.bound * (1 + CLOSE), self.near_enough)

    def raise_bound(self) -> None:
        """Prove a higher bound, as far as patterns can."""
        if self.patterns is not None:
            self.bound = self.patterns.bound(self.bound, self.best.distance, self.allowance.in_time)

    def cool_from_start(self) -> None:
        """A hot cooling from where the search began, to find other places; from the best placement if it is short."""
        begins_afresh = self.steps >= AFRESH * len(self.board.nodes)
        put_back(self.board, self.start if begins_afresh else self.best.owner)
        self._cool(1.0, self.steps)

    def cool_from_best(self) -> None:
        """A cooling from the best placement so far."""
        put_back(self.board, self.best.owner)
        self._cool(ASIDE, self.steps)

    def cool_from_pattern(self) -> None:
        """A cooling from patterns that fit together; if there are none, a better bound."""
        if self.patterns is None or not self.allowance.in_time():
            return
        distance = self.bound + next(self.aims) * (min(self.best.distance, self.ceiling) - self.bound)
        put_back(self.board, self.homes)
        match self.patterns.lay_out(self.board, distance, self.allowance.left_s()):
            case Outcome.LAID_OUT:
                self._cool(ASIDE, int(PATTERN_STEPS * self.steps) + 1)
            case Outcome.IMPOSSIBLE:
                self.bound = max(self.bound, distance)
            case Outcome.UNKNOWN:  # there are fewer patterns to choose from closer to the mean
                self.ceiling = distance

    def _cool(self, heat: float, steps: int) -> None:
        board, best, floor = self.board, self.best, self.floor
        cool(board, best, Goal.DISTANCE, self.allowance, floor=floor, width=floor, steps=steps, heat=heat)


def _solve_exactly(problem: Problem, board: Board, best: Best, enough: float, time_limit_s: float) -> float:
    """Let HiGHS improve on the best placement where there is little to choose from; the bound that it proves."""
    if best.distance <= enough or problem.units * problem.nodes > SMALL or time_limit_s <= 0:
        return 0.0
    owner, bound = solve_assignment(problem, time_limit_s=time_limit_s, start=best.owner, max_nodes=SOLVER_NODES)
    if owner is not None and not problem.faults(owner):
        put_back(board, owner)
        if Best.of(board).distance < best.distance:
            best.keep(board)
        put_back(board, best.owner)
    return bound


def _settle_ties(board: Board, best: Best, near_enough: float, allowance: Allowance) -> None:
    """Keep the distance, but empty closed nodes, bring nodes on the other side closer, and undo needless moves."""
    width = max(best.distance, near_enough) * (1 + ROUNDING)
    undo_needless_moves(board, width, width)
    clear_closed_nodes(board, width, width)
    best.keep(board)
    half = Allowance(allowance.steps // 2, allowance.deadline_s)
    cooling_steps = max(1, half.steps // TIE_COOLINGS)
    search(board, best, Goal.CLOSED_LOAD, half, floor=0.0, width=width, cooling_steps=cooling_steps)
    if best.distance > near_enough:
        half = Allowance(allowance.steps // 2, allowance.deadline_s)
        search(board, best, Goal.OTHER_SIDE, half, floor=0.0, width=width, cooling_steps=cooling_steps)
    up, low = (max(mark * (1 + ROUNDING), near_enough) for mark in best.marks[:2])
    undo_needless_moves(board, up, low)
    clear_closed_nodes(board, up, low)
    best.keep(board)
