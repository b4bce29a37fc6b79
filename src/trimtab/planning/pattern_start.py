"""Pattern start: a placement to begin a search with, made from patterns that fit together.

Patterns give how many units of each size the nodes send and get so that all of them come into a band, within the
budget. Which units those are is left to chance, and to the search, which finds them soon once the numbers are right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from trimtab.planning.board import Board
from trimtab.planning.linear_program import solve
from trimtab.planning.move_patterns import Patterns, patterns_of, size_classes
from trimtab.planning.moves_needed import Loads, loads_of
from trimtab.planning.pattern_bound import CLASSES, MOST_PATTERNS, class_of, closed_units, pattern_program
from trimtab.planning.problem import Float64Array, Int64Array, Problem
from trimtab.planning.proposals import shift_if_allowed

SOLVER_NODES = 50
"""This much of HiGHS's search mostly finds numbers that fit, or that there are none."""


class Outcome(Enum):
    """The result of looking for patterns that fit together."""

    LAID_OUT = "the board has such a placement"
    IMPOSSIBLE = "it is proved that no placement comes within the distance"
    UNKNOWN = "nothing was found, and nothing proved"


@dataclass(frozen=True, eq=False)
class PatternStarts:
    """Starts for a search, a different one every time."""

    problem: Problem
    moves: int
    loads: Loads
    edges: Float64Array
    dice: np.random.Generator

    @classmethod
    def of(cls, problem: Problem, moves: int, *, seed: int) -> PatternStarts:
        """Get ready for a problem, given how many moves its budget allows."""
        loads = loads_of(problem)
        return cls(problem, moves, loads, size_classes(loads.heaviest, CLASSES), np.random.default_rng(seed))

    def lay_out(self, board: Board, distance: float, time_limit_s: float) -> Outcome:
        """Change a board with all units at home to one whose nodes are about within a distance of the mean."""
        patterns = patterns_of(self.loads, self.edges, self.problem.mean, distance, self.moves)
        if patterns is None or len(patterns.node) > MOST_PATTERNS:
            return Outcome.UNKNOWN
        if len(np.unique(patterns.node)) < int(self.loads.open_nodes.sum()):
            return Outcome.IMPOSSIBLE
        program = pattern_program(patterns, closed_units(self.loads, self.edges), self.moves, whole=True)
        # Few moves are better, since drawing units at random needs some to spare; apart from that, chance decides.
        costs = 0.1 * program.costs + 0.5 * self.dice.random(len(program.costs))
        answer = solve(replace(program, costs=costs), time_limit_s=time_limit_s, max_nodes=SOLVER_NODES)
        if not len(answer.values):
            return Outcome.IMPOSSIBLE if answer.impossible else Outcome.UNKNOWN
        self._move(board, patterns, np.rint(answer.values).astype(np.int64))
        return Outcome.LAID_OUT

    def _move(self, board: Board, patterns: Patterns, chosen: Int64Array) -> None:
        """Draw units of the right sizes, and nodes for them, as far as budget and room allow."""
        kept = np.flatnonzero(chosen[: len(patterns.node)])
        nodes, sent, got = patterns.node[kept], patterns.sent[kept], patterns.got[kept]
        homes = board.units["home"].copy()
        kinds = class_of(board.units["work"], self.edges)
        # All closed nodes together are one more place to send from.
        places = np.where(self.problem.open_nodes[homes], homes, -1)
        for kind in range(len(self.edges)):
            numbers = [*zip(nodes, sent[:, kind], strict=True), (-1, chosen[len(patterns.node) + kind])]
            owned = [(np.flatnonzero((kinds == kind) & (places == place)), count) for place, count in numbers]
            units = np.concatenate([self.dice.permutation(there)[:count] for there, count in owned])
            targets = self.dice.permutation(np.repeat(nodes, got[:, kind]))
            for unit, target in zip(units, _not_home(targets, homes[units]), strict=False):
                shift_if_allowed(board, unit, target)


def _not_home(targets: Int64Array, homes: Int64Array) -> Int64Array:
    """The same targets in another order, such that as far as possible none is the home of the unit that gets it.

    >>> _not_home(np.array([1, 2, 3]), np.array([1, 3, 2])).tolist()
    [2, 1, 3]
    """
    targets = targets.copy()
    for place in range(min(len(targets), len(homes))):
        if targets[place] != homes[place]:
            continue
        for other in range(min(len(targets), len(homes))):
            if targets[other] != homes[place] and targets[place] != homes[other]:
                targets[place], targets[other] = targets[other], targets[place]
                break
    return targets
