"""Move patterns: all ways in which a node can come into its band, by how many units of each size it sends and gets.

Sizes are divided into classes, so what a pattern weighs is known only up to the spread of sizes in a class. Of the
patterns with the same difference of units sent and got in each class, one with the fewest is kept.

A unit that leaves one node comes to another: every open node takes one of its patterns, and of each class as many units
are sent as got, within the budget. That gives a bound, and placements to begin a search with.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.board import Board
from trimtab.planning.linear_program import LinearProgram, solve
from trimtab.planning.moves_needed import Loads, loads_of, own_loads, running, to_change
from trimtab.planning.problem import BoolArray, Float64Array, Int64Array, Problem
from trimtab.planning.proposals import shift_if_allowed

MOST_COMBINATIONS = 1_500_000
"""More combinations of numbers than this take too long to go through."""
NONE = 32_000
"""No pattern: more moves than any has."""
CLASSES = 3
"""More make patterns more exact, and many more of them."""
NEAR, FAR = 0.002, 0.1
"""The bound is found up to the share NEAR of it. A bound below the share FAR of the distance reached may be less exact:
halving would never end if the bound were 0."""
MOST_MOVES, MOST_PATTERNS = 1_000, 10_000
"""With more moves, or more patterns of all nodes, a program isn't solved in a moment."""
DEAREST = 20.0
"""The highest price for a unit, in moves."""
CERTAIN = 1e-6
"""Moves are whole numbers: a bound has to be above the budget by this much."""
SOLVER_NODES = 50
"""This much of HiGHS's search mostly finds numbers that fit, or that there are none."""


class Outcome(Enum):
    """The result of looking for patterns that fit together."""

    LAID_OUT = "the board has such a placement"
    IMPOSSIBLE = "it is proved that no placement comes within the distance"
    UNKNOWN = "nothing was found, and nothing proved"


@dataclass(frozen=True, eq=False)
class FittingPatterns:
    """The patterns of a problem whose units all have a home; `moves` is how many its budget allows."""

    problem: Problem
    moves: int
    loads: Loads
    edges: Float64Array
    dice: np.random.Generator

    @classmethod
    def of(cls, problem: Problem, moves: int, *, seed: int) -> FittingPatterns | None:
        """Get ready for a problem; None if patterns can prove nothing, as moves are many or units have no home."""
        if np.any(problem.homes < 0) or moves >= min(problem.units, MOST_MOVES):
            return None
        loads = loads_of(problem)
        return cls(problem, moves, loads, size_classes(loads.heaviest, CLASSES), np.random.default_rng(seed))

    def bound(self, known: float, reached: float, in_time: Callable[[], bool]) -> float:
        """A proven bound on the load distance between one known already and a distance that was reached.

        Stops early, with what is proved by then, when `in_time` says so.
        """
        low, high = known, reached
        middle = reached * (1 - NEAR)  # mostly what was reached is the best, and one look is enough
        while high - low > NEAR * max(low, FAR * reached) and in_time():
            if self.rule_out(middle):
                low = middle
            else:
                high = middle
            middle = (low + high) / 2
        return low

    def rule_out(self, distance: float) -> bool:
        """Whether it is proved that the moves can't bring all nodes within this distance of the mean.

        HiGHS solves a linear relaxation, but the proof doesn't rely on its arithmetic: with the prices that it gives
        for units of each class, what moves must cost at least is added up node by node. That is a bound for any prices.
        """
        patterns = self._patterns(distance)
        if isinstance(patterns, Outcome):
            return patterns is Outcome.IMPOSSIBLE
        closed, kinds = self._closed_units(), len(self.edges)
        answer = solve(_program(patterns, closed, self.moves, whole=False))
        prices = -answer.prices[-kinds - 1 : -1] if len(answer.prices) else np.zeros(kinds)
        return _moves_at(patterns, closed, prices) > self.moves + CERTAIN

    def lay_out(self, board: Board, distance: float, time_limit_s: float) -> Outcome:
        """Change a board with all units at home to one whose nodes are about within a distance of the mean.

        Patterns give how many units of each size the nodes send and get. Which units those are is left to chance, and
        to the search, which finds them soon once the numbers are right. The placement is another one every time.
        """
        patterns = self._patterns(distance)
        if isinstance(patterns, Outcome):
            return patterns
        program = _program(patterns, self._closed_units(), self.moves, whole=True)
        # Few moves are better, since drawing units at random needs some to spare; apart from that, chance decides.
        costs = 0.1 * program.costs + 0.5 * self.dice.random(len(program.costs))
        answer = solve(replace(program, costs=costs), time_limit_s=time_limit_s, max_nodes=SOLVER_NODES)
        if not len(answer.values):
            return Outcome.IMPOSSIBLE if answer.impossible else Outcome.UNKNOWN
        self._move(board, patterns, np.rint(answer.values).astype(np.int64))
        return Outcome.LAID_OUT

    def _patterns(self, distance: float) -> Patterns | Outcome:
        """The patterns that may bring nodes within a distance, if they are few enough and every node has one."""
        patterns = patterns_of(self.loads, self.edges, self.problem.mean, distance, self.moves)
        if patterns is None or len(patterns.node) > MOST_PATTERNS:
            return Outcome.UNKNOWN
        has_all = len(np.unique(patterns.node)) == int(self.loads.open_nodes.sum())
        return patterns if has_all else Outcome.IMPOSSIBLE

    def _closed_units(self) -> Int64Array:
        """How many units of each class closed nodes have: they may send any number of them."""
        there = ~self.problem.open_nodes[self.problem.homes]
        kinds = _class_of(self.problem.work[there], self.edges)
        return np.bincount(kinds, minlength=len(self.edges)).astype(np.int64)

    def _move(self, board: Board, patterns: Patterns, chosen: Int64Array) -> None:
        """Draw units of the right sizes, and nodes for them, as far as budget and room allow."""
        kept = np.flatnonzero(chosen[: len(patterns.node)])
        nodes, sent, got = patterns.node[kept], patterns.sent[kept], patterns.got[kept]
        homes = board.units["home"].copy()
        kinds = _class_of(board.units["work"], self.edges)
        # All closed nodes together are one more place to send from.
        places = np.where(self.problem.open_nodes[homes], homes, -1)
        for kind in range(len(self.edges)):
            numbers = [*zip(nodes, sent[:, kind], strict=True), (-1, chosen[len(patterns.node) + kind])]
            owned = [(np.flatnonzero((kinds == kind) & (places == place)), count) for place, count in numbers]
            units = np.concatenate([self.dice.permutation(there)[:count] for there, count in owned])
            targets = self.dice.permutation(np.repeat(nodes, got[:, kind]))
            for unit, target in zip(units, _not_home(targets, homes[units]), strict=False):
                shift_if_allowed(board, unit, target)


def _class_of(work: Float64Array, edges: Float64Array) -> Int64Array:
    """The class of each unit; 0 has the largest.

    >>> _class_of(np.array([5.1, 5.0, 2.2, 0.4]), np.array([5.0, 2.1, 0.0])).tolist()
    [0, 0, 1, 2]
    """
    return (len(edges) - np.searchsorted(edges[::-1], work, side="right")).astype(np.int64)


def _program(patterns: Patterns, closed: Int64Array, moves: int, *, whole: bool) -> LinearProgram:
    """One pattern for each node, as many units of each class sent as got, and in the last row the moves.

    Columns: the patterns, then the units of each class that closed nodes send. As whole numbers the moves are limited.
    Else they are what is minimised, and units may come from nowhere and go nowhere at the highest price: the program
    then always has a solution.
    """
    from scipy.sparse import csr_array, hstack, vstack

    count, kinds = patterns.sent.shape
    _, node = np.unique(patterns.node, return_inverse=True)
    nodes = int(node.max()) + 1
    one_each = csr_array((np.ones(count), (node, np.arange(count))), shape=(nodes, count))
    balance = csr_array((patterns.sent - patterns.got).T.astype(np.float64))
    sent = np.concatenate((patterns.moves, np.ones(kinds)))
    extra, nowhere = np.eye(kinds), np.zeros(0)
    if not whole:
        extra, nowhere = np.hstack((extra, extra, -extra)), np.full(2 * kinds, DEAREST)
    spent = np.concatenate((sent, np.zeros(len(nowhere))))
    sums = np.concatenate((np.ones(nodes), np.zeros(kinds)))
    choices = hstack((one_each, csr_array((nodes, extra.shape[1]))))
    return LinearProgram(
        matrix=vstack((choices, hstack((balance, csr_array(extra))), csr_array(spent[None, :])), format="csr"),
        costs=np.concatenate((sent, nowhere)).astype(np.float64),
        most=np.concatenate((np.full(count, 1.0), closed, np.full(len(nowhere), np.inf))),
        whole=np.full(len(spent), whole, dtype=np.bool_),
        lowest=np.append(sums, 0.0),
        highest=np.append(sums, float(moves) if whole else np.inf),
    )


def _moves_at(patterns: Patterns, closed: Int64Array, prices: Float64Array) -> float:
    """A number of moves that is needed at least, for any prices: what each node would choose if it had to pay them."""
    paid = patterns.moves + (patterns.sent - patterns.got) @ prices
    starts: BoolArray = np.append(True, patterns.node[1:] != patterns.node[:-1])
    cheapest = np.minimum.reduceat(paid, np.flatnonzero(starts))
    return float(cheapest.sum() + (closed * np.minimum(0.0, 1.0 + prices)).sum())


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


class Patterns(NamedTuple):
    """The patterns of all open nodes, node by node.

    node  (patterns,)          whose it is
    sent  (patterns, classes)  how many units of each class it sends
    got   (patterns, classes)  and how many it gets
    """

    node: Int64Array
    sent: Int64Array
    got: Int64Array

    @property
    def moves(self) -> Int64Array:
        """How many units each pattern sends in all."""
        return np.asarray(self.sent.sum(axis=1))


def size_classes(falling: Float64Array, count: int) -> Float64Array:
    """The lower edges of classes of sizes, the largest first: cut where the gaps are widest.

    >>> size_classes(np.array([5.1, 5.0, 2.2, 2.1, 0.4]), 3).tolist()
    [5.0, 2.1, 0.0]
    """
    gaps = falling[:-1] - falling[1:]
    cuts = np.sort(np.argsort(-gaps, kind="stable")[: count - 1])
    return np.append(falling[cuts], 0.0)


def patterns_of(loads: Loads, edges: Float64Array, mean: float, distance: float, moves: int) -> Patterns | None:
    """Every pattern that may bring a node within the distance, if all nodes together have this many moves.

    None if there are too many to go through. A node that can't come within the distance has no pattern.
    """
    least = np.zeros(len(loads.at_home), dtype=np.int64)
    _fewest(loads, mean, distance, moves, least)
    # What the others need at least isn't left for this one: moves have two ends each.
    most = np.minimum(least + 2 * moves - int(least.sum()), 2 * moves)
    places, kinds = np.flatnonzero(loads.open_nodes), len(edges)
    if sum(math.comb(max(ends, 0) + 2 * kinds, 2 * kinds) for ends in most[places].tolist()) > MOST_COMBINATIONS:
        return None
    if np.any(most < least):
        rows = np.zeros((0, 2 * kinds), dtype=np.int64)
        return Patterns(rows[:, 0], rows[:, :kinds], rows[:, kinds:])
    found = [_enumerate(loads, edges, mean, distance, node, int(most[node])) for node in places]
    node, rows = np.repeat(places, [len(rows) for rows in found]), np.concatenate(found)
    return Patterns(node, rows[:, :kinds].copy(), rows[:, kinds:].copy())


@kernel
def _fewest(loads, mean, distance, moves, least):
    """The fewest units that each node has to send and get, in all; 2 * moves + 1 if more are needed."""
    most, small = running(loads.heaviest), running(loads.heaviest[::-1])
    for node in range(least.size):
        if not loads.open_nodes[node]:
            continue
        own = own_loads(loads, node)
        heavy, light = running(own), running(own[::-1])
        below, above = to_change(loads, mean, distance, node)
        least[node] = 2 * moves + 1
        for out in range(min(own.size, moves) + 1):
            for into in range(min(loads.heaviest.size, moves) + 1):
                if out + into >= least[node]:
                    break
                if most[into] - light[out] >= below and small[into] - heavy[out] <= above:
                    least[node] = out + into


@kernel
def _class_sums(falling, edges, most):
    """What 0, 1, 2 ... units of each class weigh at most and at least; how many there are of each, up to `most`."""
    heavy, light = np.zeros((edges.size, most + 1)), np.zeros((edges.size, most + 1))
    counts, end = np.zeros(edges.size, np.int64), 0
    for kind in range(edges.size):
        start = end
        while end < falling.size and falling[end] >= edges[kind]:
            end += 1
        counts[kind] = min(end - start, most)
        for place in range(counts[kind]):
            heavy[kind, place + 1] = heavy[kind, place] + falling[start + place]
            light[kind, place + 1] = light[kind, place] + falling[end - 1 - place]
    return heavy, light, counts


@kernel
def _enumerate(loads, edges, mean, distance, node, most):
    """The patterns of a node with up to `most` units sent and got: rows of numbers sent, then got, of each class."""
    kinds, width = edges.size, 2 * most + 1
    sent_heavy, sent_light, own = _class_sums(own_loads(loads, node), edges, most)
    got_heavy, got_light, others = _class_sums(loads.heaviest[loads.homes != node], edges, most)
    limits = np.concatenate((own, others))
    below, above = to_change(loads, mean, distance, node)
    fewest = np.full(width**kinds, NONE, np.int16)
    out_of = np.zeros(width**kinds, np.int64)
    numbers = np.zeros(2 * kinds, np.int64)
    going = True
    while going:
        sent, total, key, out_key = 0, 0, 0, 0
        least, largest = 0.0, 0.0
        for kind in range(kinds):
            out, into = numbers[kind], numbers[kinds + kind]
            sent += out
            total += out + into
            least += got_light[kind, into] - sent_heavy[kind, out]
            largest += got_heavy[kind, into] - sent_light[kind, out]
            key = key * width + out - into + most
            out_key = out_key * width + out
        if largest >= below and least <= above and sent < fewest[key]:
            fewest[key], out_of[key] = sent, out_key
        going = _next(numbers, limits, total, most)
    return _rows(fewest, out_of, kinds, width, most)


@kernel
def _rows(fewest, out_of, kinds, width, most):
    """Spell out the numbers of the patterns that were kept."""
    rows = np.empty((np.sum(fewest < NONE), 2 * kinds), np.int64)
    found = 0
    for key in range(fewest.size):
        if fewest[key] == NONE:
            continue
        differences, out = key, out_of[key]
        for kind in range(kinds - 1, -1, -1):
            rows[found, kind] = out % width
            rows[found, kinds + kind] = out % width - (differences % width - most)
            differences //= width
            out //= width
        found += 1
    return rows


@kernel
def _next(numbers, limits, total, most):
    """Count on to the next combination with a sum of at most `most`; False after the last one."""
    for place in range(numbers.size):
        if numbers[place] < limits[place] and total < most:
            numbers[place] += 1
            return True
        total -= numbers[place]
        numbers[place] = 0
    return False
