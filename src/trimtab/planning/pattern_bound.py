"""Pattern bound: a bound that knows that a unit which leaves one node comes to another, and how large it is.

Every open node takes one of its patterns (see `move_patterns`), and of each class of sizes as many units are sent as
got. HiGHS solves the linear relaxation of that, but the proof doesn't rely on its arithmetic: with the prices that it
gives for units of each class, what moves must cost at least is added up node by node. That is a bound for any prices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trimtab.planning.linear_program import LinearProgram, solve
from trimtab.planning.move_patterns import Patterns, patterns_of, size_classes
from trimtab.planning.moves_needed import Loads, loads_of
from trimtab.planning.problem import BoolArray, Float64Array, Int64Array, Problem

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


def pattern_bound(problem: Problem, moves: int, known: float, reached: float, in_time: Callable[[], bool]) -> float:
    """A proven bound on the load distance between one known already and a distance that was reached.

    `moves` is how many the budget allows. Stops early, with what is proved by then, when `in_time` says so.
    """
    if not has_patterns(problem, moves):
        return known
    loads = loads_of(problem)
    edges = size_classes(loads.heaviest, CLASSES)
    low, high = known, reached
    middle = reached * (1 - NEAR)  # mostly what was reached is the best, and one look is enough
    while high - low > NEAR * max(low, FAR * reached) and in_time():
        if proves(loads, edges, problem.mean, middle, moves):
            low = middle
        else:
            high = middle
        middle = (low + high) / 2
    return low


def has_patterns(problem: Problem, moves: int) -> bool:
    """Whether patterns can prove anything: moves are few, and all units have a home."""
    return bool(np.all(problem.homes >= 0)) and moves < min(problem.units, MOST_MOVES)


def proves(loads: Loads, edges: Float64Array, mean: float, distance: float, moves: int) -> bool:
    """Whether it is proved that this many moves can't bring all nodes within this distance of the mean."""
    patterns = patterns_of(loads, edges, mean, distance, moves)
    if patterns is None or len(patterns.node) > MOST_PATTERNS:
        return False
    if len(np.unique(patterns.node)) < int(loads.open_nodes.sum()):
        return True  # some node has no pattern at all
    closed = closed_units(loads, edges)
    answer = solve(pattern_program(patterns, closed, moves, whole=False))
    prices = -answer.prices[-len(edges) - 1 : -1] if len(answer.prices) else np.zeros(len(edges))
    return _moves_at(patterns, closed, prices) > moves + CERTAIN


def closed_units(loads: Loads, edges: Float64Array) -> Int64Array:
    """How many units of each class closed nodes have: they may send any number of them."""
    homes = np.repeat(np.arange(len(loads.at_home)), np.diff(loads.first))
    return np.bincount(class_of(loads.own[~loads.open_nodes[homes]], edges), minlength=len(edges)).astype(np.int64)


def class_of(work: Float64Array, edges: Float64Array) -> Int64Array:
    """The class of each unit; 0 has the largest.

    >>> class_of(np.array([5.1, 5.0, 2.2, 0.4]), np.array([5.0, 2.1, 0.0])).tolist()
    [0, 0, 1, 2]
    """
    return (len(edges) - np.searchsorted(edges[::-1], work, side="right")).astype(np.int64)


def pattern_program(patterns: Patterns, closed: Int64Array, moves: int, *, whole: bool) -> LinearProgram:
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
