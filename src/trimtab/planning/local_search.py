"""Local search: simulated annealing towards a band around the mean, which narrows whenever all nodes are inside of it.

The load distance itself is a poor guide, since most changes leave it as it is. The sum of the nodes' distances from a
band that is a little narrower than the best one so far tells better from worse, and leaves all else free to change.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import Board, aim, put_back
from trimtab.planning.neighbourhoods import chance, next_proposal
from trimtab.planning.problem import ROUNDING, Float64Array, Int64Array
from trimtab.planning.proposals import accept, emptied, gain

NARROWER = 0.05
"""The band that is aimed at is narrower than the best one so far by this share."""
HOT, HOT_NODES = 1.0, 20.0
"""The temperature at the start of a cooling, as a share of the best distance so far: HOT, or HOT_NODES / nodes if that
is less, since each node gets fewer steps then (measured on 20 to 1,000 nodes)."""
COOLED = 0.03
"""What is left of the temperature at the end of a cooling."""
CHUNK = 20_000
"""Steps between two looks at the clock."""


class Goal(IntEnum):
    """What is made smaller; what the goals before it reached is kept."""

    DISTANCE = 0
    """How far the farthest open node is from the mean."""
    CLOSED_LOAD = 1
    """The load on closed nodes."""
    OTHER_SIDE = 2
    """How far the farthest node is from the mean on the side, above or below, where that is less (d_u and d_l)."""


@dataclass(slots=True, eq=False)
class Best:
    """The best placement so far.

    owner   (units,)  the node of each unit
    marks   (3,)      how far the farthest nodes are above and below the mean, and the load on closed nodes, in points
    """

    owner: Int64Array
    marks: Float64Array

    @classmethod
    def of(cls, board: Board) -> Best:
        """The board's placement."""
        return cls(board.units["owner"].copy(), _marks(board))

    def keep(self, board: Board) -> None:
        """Replace it by the board's placement."""
        self.owner, self.marks = board.units["owner"].copy(), _marks(board)

    @property
    def distance(self) -> float:
        """The load distance."""
        return float(max(self.marks[0], self.marks[1]))


@dataclass(slots=True)
class Allowance:
    """What a search may still use: steps, and the time until `deadline_s` on the clock."""

    steps: int
    deadline_s: float
    clock: Callable[[], float] = time.perf_counter

    def in_time(self) -> bool:
        """Whether it is before the deadline."""
        return self.clock() < self.deadline_s

    def left_s(self) -> float:
        """The time until the deadline."""
        return self.deadline_s - self.clock()

    def take(self, wanted: int) -> int:
        """Use up to `wanted` steps; how many are allowed now."""
        if not self.in_time():
            self.steps = 0
        granted = min(wanted, self.steps)
        self.steps -= granted
        return granted


def search(
    board: Board, best: Best, goal: Goal, allowance: Allowance, *, floor: float, width: float, cooling_steps: int
) -> None:
    """Cool again and again from the best placement, until the goal's measure is at the floor or the allowance used up.

    The board ends at the best. `width` is how far from the mean nodes may be where the goal isn't to bring them closer.
    """
    put_back(board, best.owner)
    while allowance.steps > 0 and _measure(best.marks, int(goal)) > floor:
        cool(board, best, goal, allowance, floor=floor, width=width, steps=cooling_steps, heat=1.0)
        put_back(board, best.owner)


def cool(
    board: Board, best: Best, goal: Goal, allowance: Allowance, *, floor: float, width: float, steps: int, heat: float
) -> None:
    """One cooling, from the board's placement; `heat` is a share of the usual temperature."""
    _aim(board, best.marks, int(goal), floor, width)
    left = min(steps, allowance.steps)
    share, rate = heat * min(HOT, HOT_NODES / len(board.nodes)), COOLED ** (1.0 / max(1, left))
    while left > 0 and (granted := allowance.take(min(CHUNK, left))):
        reached, share = _anneal(board, best.owner, best.marks, int(goal), floor, width, granted, share, rate)
        left -= granted
        if reached:
            return


@kernel
def _marks(board):
    marks = np.zeros(3)
    for node in range(board.nodes.size):  # closed ones have a level of 0
        marks[0] = max(marks[0], board.nodes[node].level)
        marks[1] = max(marks[1], -board.nodes[node].level)
    marks[2] = board.now[0].closed_points
    return marks


@kernel
def _measure(marks, goal):
    if goal == 0:
        return max(marks[0], marks[1])
    return marks[2] if goal == 1 else min(marks[0], marks[1])


@kernel
def _aim(board, marks, goal, floor, width):
    """The band for a goal: only the side that it is about gets narrower."""
    narrow = max(floor, (1 - NARROWER) * _measure(marks, goal))
    up = narrow if goal == 0 or (goal == 2 and marks[0] < marks[1]) else width
    low = narrow if goal == 0 or (goal == 2 and marks[0] >= marks[1]) else width
    aim(board, up, low)


@kernel
def _anneal(board, best_owner, best, goal, floor, width, steps, share, rate):
    """Some steps of a cooling. Returns whether the floor was reached, and the temperature's share to go on with."""
    unsaved = False
    for _ in range(steps):
        share *= rate
        if not next_proposal(board):
            continue
        better = gain(board)
        if goal != 0:
            better += emptied(board)
        if better < 0.0 and chance(board) >= np.exp(better / (share * max(best[0], best[1], ROUNDING))):
            continue
        if unsaved:  # only now: a better one may have followed at once
            best_owner[:] = board.units["owner"]
            unsaved = False
        accept(board)
        if _improved(board, best, goal, better):
            unsaved = True
            if _measure(best, goal) <= floor:
                break
            _aim(board, best, goal, floor, width)
    if unsaved:
        best_owner[:] = board.units["owner"]
    return _measure(best, goal) <= floor, share


@kernel
def _improved(board, best, goal, better):
    """Whether the board is better than the best so far by more than rounding; `best` then gets its marks."""
    now = board.now
    if now[0].outside > 0 and (goal != 0 or better <= 0.0 or now[0].outside_points > max(best[0], best[1])):
        return False  # looking at all nodes would find nothing
    marks = _marks(board)
    if _measure(marks, goal) >= _measure(best, goal) * (1 - ROUNDING) or (goal == 2 and marks[2] > best[2] + ROUNDING):
        return False
    best[:] = marks
    return True
