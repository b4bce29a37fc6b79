"""Levelling: the search for the least load distance, and for a proof that it is the least."""

from __future__ import annotations

from enum import Enum
from itertools import cycle
from typing import assert_never

from trimtab.planning.board import Board
from trimtab.planning.local_search import Allowance, Best, Goal, cool, restore
from trimtab.planning.lower_bound import affordable_moves
from trimtab.planning.pattern_bound import has_patterns, pattern_bound
from trimtab.planning.pattern_start import Outcome, PatternStarts
from trimtab.planning.pieces import Pieces
from trimtab.planning.problem import Problem
from trimtab.planning.worst_first import worst_first

COOLINGS = 9
"""So many coolings are in the steps allowed, or somewhat more, as some are shorter."""
CLOSE = 0.01
"""The search ends when the distance is above the bound by no more than this share."""
ASIDE = 0.1
"""The temperature of a cooling that starts from a good placement, as a share of the usual one."""
AFRESH = 1_000
"""With fewer steps for each node than this in a cooling there is no time to begin anew."""
PATTERN_STEPS = 0.5
"""The steps of a cooling that starts from patterns, as a share of the usual ones."""
AIMS = (0.9, 0.1, 0.02, 0.4, 0.2)
"""What patterns aim at, between the bound (0) and the best distance (1). The first one is mostly a quick proof."""


class Turn(Enum):
    """Where a cooling starts from."""

    START = "where the search began: hot, to find other places"
    BEST = "the best placement so far"
    PATTERN = "patterns that fit together"


TURNS = (Turn.PATTERN, Turn.PATTERN, Turn.START, Turn.PATTERN, Turn.PATTERN, Turn.BEST)


def level(
    problem: Problem, parts: Pieces, board: Board, *, bound: float, near_enough: float, allowance: Allowance, seed: int
) -> tuple[Best, float]:
    """Bring the load distance down from what the board shows; the best placement found, and the bound then known.

    Ends when the distance is close to the bound or near enough, or when the allowance is used up. The board ends at the
    best placement.
    """
    run = _Run(problem, board, Best.of(board), bound, near_enough, allowance, max(1, allowance.steps // COOLINGS))
    worst_first(board)
    run.start, run.best = Best.of(board), Best.of(board)
    moves = affordable_moves(problem)
    if parts.count == problem.units and has_patterns(problem, moves):
        run.patterns = PatternStarts.of(problem, moves, seed=seed)
    run.take(Turn.START)
    run.bound = pattern_bound(problem, moves, run.bound, run.best.distance, allowance.in_time)
    turns = cycle(TURNS)
    while allowance.steps > 0 and run.best.distance > run.floor:
        run.take(next(turns))
    run.bound = pattern_bound(problem, moves, run.bound, run.best.distance, allowance.in_time)
    restore(board, run.best)
    return run.best, run.bound


class _Run:
    """What a levelling knows so far."""

    def __init__(
        self,
        problem: Problem,
        board: Board,
        home: Best,
        bound: float,
        near_enough: float,
        allowance: Allowance,
        steps: int,
    ) -> None:
        self.problem, self.board, self.home, self.start, self.best = problem, board, home, home, home
        self.bound, self.near_enough, self.allowance, self.steps = bound, near_enough, allowance, steps
        self.patterns: PatternStarts | None = None
        self.aims = cycle(AIMS)
        self.ceiling = float("inf")

    @property
    def floor(self) -> float:
        """The distance at which to stop."""
        return max(self.bound * (1 + CLOSE), self.near_enough)

    def take(self, turn: Turn) -> None:
        """One cooling, or a better bound."""
        match turn:
            case Turn.START:
                restore(self.board, self.start if self.steps >= AFRESH * self.problem.nodes else self.best)
                self._cool(1.0, self.steps)
            case Turn.BEST:
                restore(self.board, self.best)
                self._cool(ASIDE, self.steps)
            case Turn.PATTERN:
                if self.patterns is not None and self.allowance.in_time():
                    self._from_pattern(self.patterns)
            case _:
                assert_never(turn)

    def _from_pattern(self, patterns: PatternStarts) -> None:
        distance = self.bound + next(self.aims) * (min(self.best.distance, self.ceiling) - self.bound)
        restore(self.board, self.home)
        match patterns.lay_out(self.board, distance, self.allowance.left_s()):
            case Outcome.LAID_OUT:
                self._cool(ASIDE, int(PATTERN_STEPS * self.steps) + 1)
            case Outcome.IMPOSSIBLE:
                self.bound = max(self.bound, distance)
            case Outcome.UNKNOWN:  # there are fewer patterns to choose from closer to the mean
                self.ceiling = distance

    def _cool(self, heat: float, steps: int) -> None:
        cool(
            self.board,
            self.best,
            Goal.DISTANCE,
            self.allowance,
            floor=self.floor,
            width=self.floor,
            steps=steps,
            heat=heat,
        )
