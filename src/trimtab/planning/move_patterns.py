"""Move patterns: all ways in which a node can come into its band, by how many units of each size it sends and gets.

Sizes are divided into classes, so what a pattern weighs is known only up to the spread of sizes in a class. Of the
patterns with the same difference of units sent and got in each class, one with the fewest is kept.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.moves_needed import Loads, own_loads, running, to_change
from trimtab.planning.problem import Float64Array, Int64Array

MOST_COMBINATIONS = 1_500_000
"""More combinations of numbers than this take too long to go through."""
NONE = 32_000
"""No pattern: more moves than any has."""


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
