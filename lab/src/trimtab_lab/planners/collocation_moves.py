"""Collocation moves: bring units that talk to each other onto one node, with as much traffic per move as possible.

Hill climbing on a draft: makes the best move of a unit or of a block of units, or the best exchange of two of them,
until the budget is spent or nothing is gained. It optimises traffic and only keeps nodes inside a band of load; it
doesn't level the load. Compiled: importing this module imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.draft import Draft
from trimtab.planning.problem import Int32Array, Problem
from trimtab_lab.planners.movable_things import (
    NO_MARK,
    allowed,
    limits_of,
    links_of,
    mark,
    measure_traffic,
    move,
    place,
    price_of,
    things_of,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TARGETS = 3
"""How many nodes are considered for each unit or block: those on which it would gain most. With only one the climb ends
early (collocation 8 instead of 11 % where all units talk to all), because a move to that node is often not allowed."""

EXCHANGES = 300
"""For how many units or blocks at most a step searches an exchange: the most promising ones. All of them would take
three times as long where all units talk to all, and gain hardly anything."""

LEAST_GAIN = 1e-9
"""Gains below this share of all traffic are rounding."""


def gather_traffic(
    problem: Problem, draft: Draft, edges: csr_array, blocks: Int32Array, *, band: float, keep: float = 0.0
) -> int:
    """Raise the collocation of a draft by moves and exchanges, those that gain most for their price first; count them.

    Every step gains traffic, so it ends; the collocation is never lower afterwards, and the rules of a draft hold.

    edges   (units, units)  traffic, both ways
    blocks  (units,)        units of the same number >= 0 are on one node and may move as one; -1: alone
    band    points of utilisation that a node may end off the mean; one that is farther off may not go farther
    keep    the share of the budget that must be left

    >>> from scipy.sparse import csr_array
    >>> from trimtab.planning.draft import draft_of
    >>> problem = Problem([10.0] * 4, [0, 1, 0, 1], [100.0, 100.0], max_moves=2)
    >>> edges = csr_array(([1.0] * 4, ([0, 1, 2, 3], [1, 0, 3, 2])), shape=(4, 4))
    >>> draft = draft_of(problem)
    >>> gather_traffic(problem, draft, edges, np.full(4, -1, dtype=np.int32), band=5.0)
    1
    >>> bool(draft.owner[0] == draft.owner[1] != draft.owner[2] == draft.owner[3])
    True

    Time: a step considers the neighbours of what moved, and exchanges only for the most promising things.
    """
    links = links_of(draft, edges)
    if links is None:
        return 0
    return int(_climb(draft, things_of(problem, blocks), links, limits_of(problem, band, keep)))


@kernel
def _climb(draft, things, links, limits):
    """Make the best step until there is none; return how many were made."""
    count, nodes = things.work.size, draft.loads.size
    gains = np.zeros((count, TARGETS))
    targets = np.full((count, TARGETS), -1, dtype=np.int64)
    ratios = np.zeros((count, TARGETS))
    stale = np.ones(count, dtype=np.bool_)
    towards = np.zeros(nodes)
    marks = np.full(draft.owner.size, NO_MARK, dtype=np.int64)
    steps = 0
    # Units that have left home could move again at no cost. That gains little and takes many steps.
    while draft.budget[0] - limits.least[0] >= 1:
        for thing in range(count):
            if stale[thing]:
                _look_around(draft, things, links, limits, thing, towards, marks, gains, targets, ratios)
                stale[thing] = False
        thing, other, target = _best_step(draft, things, links, limits, marks, gains, targets, ratios)
        if thing < 0:
            break
        home = place(draft, things, thing)
        move(draft, things, links, thing, target, stale)
        if other >= 0:
            move(draft, things, links, other, home, stale)
        steps += 1
    return steps


@kernel
def _look_around(draft, things, links, limits, thing, towards, marks, gains, targets, ratios):
    """Write the nodes on which a thing would gain most, and how much, best first; -1 where there is none."""
    targets[thing] = -1
    ratios[thing] = 0.0
    node = place(draft, things, thing)
    if node < 0:
        return
    measure_traffic(draft, things, links, thing, towards, marks)
    stay = towards[node]
    towards[node] = 0.0
    for rank in range(TARGETS):
        best, target = stay + LEAST_GAIN, -1
        for other in range(towards.size):
            if towards[other] > best and draft.open_nodes[other]:
                best, target = towards[other], other
        if target < 0:
            return
        towards[target] = 0.0
        gains[thing, rank], targets[thing, rank] = best - stay, target
        ratios[thing, rank] = gains[thing, rank] / price_of(draft, things, limits, thing, target)


@kernel
def _best_step(draft, things, links, limits, marks, gains, targets, ratios):
    """The thing to move, what comes back in exchange (-1: nothing), and the node it goes to; -1 first if there is none.

    Of two things exchanged one gains at least as much for its price as both together: so going through single gains
    from the best down, one may stop as soon as they are no better than the best step found.
    """
    bounds, lists = _by_node(draft, things)
    best, chosen, partner, goal = 0.0, -1, -1, -1
    tried = 0
    for entry in np.argsort(-ratios.ravel(), kind="mergesort"):
        thing, rank = entry // TARGETS, entry % TARGETS
        if ratios[thing, rank] <= best or tried == EXCHANGES:
            break
        home, target = place(draft, things, thing), targets[thing, rank]
        if allowed(draft, things, limits, thing, -1, home, target):
            best, chosen, partner, goal = ratios[thing, rank], thing, -1, target
            continue
        if not draft.open_nodes[home]:
            continue
        tried += 1
        price, gain = price_of(draft, things, limits, thing, target), gains[thing, rank]
        mark(things, thing, marks, thing)
        for slot in range(bounds[target], bounds[target + 1]):
            other = lists[slot]
            both = price + price_of(draft, things, limits, other, home)
            most = gain + _most_gain(gains, targets, other, home)
            if most <= best * both or not allowed(draft, things, limits, thing, other, home, target):
                continue
            found = gain + _gain_of_return(draft, things, links, other, thing, home, target, marks)
            if found > LEAST_GAIN and found > best * both:
                best, chosen, partner, goal = found / both, thing, other, target
        mark(things, thing, marks, NO_MARK)
    return chosen, partner, goal


@kernel
def _most_gain(gains, targets, thing, node):
    """An upper bound of a thing's gain on a node: the stored gain, or the least of those stored for other nodes."""
    for rank in range(TARGETS):
        if targets[thing, rank] == node:
            return gains[thing, rank]
        if targets[thing, rank] < 0:
            return 0.0
    return gains[thing, TARGETS - 1]


@kernel
def _by_node(draft, things):
    """The things on each node: node n has `lists[bounds[n] : bounds[n + 1]]`."""
    bounds = np.zeros(draft.loads.size + 1, dtype=np.int64)
    for thing in range(things.work.size):
        node = place(draft, things, thing)
        if node >= 0:
            bounds[node + 1] += 1
    bounds = np.cumsum(bounds)
    cursor, lists = bounds[:-1].copy(), np.empty(bounds[-1], dtype=np.int64)
    for thing in range(things.work.size):
        node = place(draft, things, thing)
        if node >= 0:
            lists[cursor[node]] = thing
            cursor[node] += 1
    return bounds, lists


@kernel
def _gain_of_return(draft, things, links, other, thing, home, target, marks):
    """What sending `other` from `target` to `home` gains while `thing` (marked) goes the other way."""
    total, own = 0.0, -2 - other
    mark(things, other, marks, own)
    for slot in range(things.starts[other], things.starts[other + 1]):
        unit = things.members[slot]
        for edge in range(links.first[unit], links.first[unit + 1]):
            far = links.others[edge]
            if marks[far] == own:
                continue
            if marks[far] == thing:
                total -= links.traffic[edge]  # the two change places: what `thing` would gain from it is lost
            elif draft.owner[far] == home:
                total += links.traffic[edge]
            elif draft.owner[far] == target:
                total -= links.traffic[edge]
    mark(things, other, marks, NO_MARK)
    return total
