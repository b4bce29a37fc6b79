"""Levelling: the search for the least load distance, and for a proof that it is the least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

from trimtab.planning.board import Board, put_back
from trimtab.planning.fitting_patterns import FittingPatterns, Outcome
from trimtab.planning.greedy import worst_first
from trimtab.planning.local_search import Allowance, Best, Goal, cool
from trimtab.planning.lower_bound import affordable_moves
from trimtab.planning.problem import Int64Array, Problem

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


def level(
    problem: Problem, board: Board, *, bound: float, near_enough: float, allowance: Allowance, seed: int
) -> tuple[Best, float]:
    """Bring the load distance down from the board's placement; the best placement found, and the bound then known.

    Ends when the distance is close to the bound or near enough, or when the allowance is used up. The board ends at the
    best placement.
    """
    homes = board.units["owner"].copy()
    worst_first(board)
    start, steps = board.units["owner"].copy(), max(1, allowance.steps // COOLINGS)
    patterns = FittingPatterns.of(problem, affordable_moves(problem), seed=seed)
    run = _Run(board, homes, start, Best.of(board), bound, near_enough, allowance, steps, patterns)
    run.cool_from_start()
    run.raise_bound()
    pattern, begin, best = run.cool_from_pattern, run.cool_from_start, run.cool_from_best
    turns = cycle((pattern, pattern, begin, pattern, pattern, best))
    while allowance.steps > 0 and run.best.distance > run.floor:
        next(turns)()
    run.raise_bound()
    put_back(board, run.best.owner)
    return run.best, run.bound


@dataclass(slots=True, eq=False)
class _Run:
    """What a levelling knows so far.

    homes    the placement in which only new units aren't at home
    start    the placement that `worst_first` made of it
    steps    of a cooling
    ceiling  patterns are too many to go through at this distance
    """

    board: Board
    homes: Int64Array
    start: Int64Array
    best: Best
    bound: float
    near_enough: float
    allowance: Allowance
    steps: int
    patterns: FittingPatterns | None
    ceiling: float = float("inf")
    aims: Iterator[float] = field(default_factory=lambda: cycle(AIMS))

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
