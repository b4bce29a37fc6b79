"""Can a number of moves bring every node into a band around the mean? "No" is proved; "yes" is only possible.

Each node is looked at alone. If it sends p units and gets q, its load falls at most by what its p heaviest units weigh
less the q lightest of the others, and rises at most by the opposite; so some (p, q) can't bring it into the band. All
nodes together send as many units as they get. If no choice of one (p, q) for each node has both sums equal and within
the budget, no placement has all nodes in the band.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.problem import NEW, ROUNDING, BoolArray, Float64Array, Int64Array, Problem

FEW = 62
"""Up to this many moves all sums are tried, as bits of one word; for more there is a relaxation."""

LEANINGS = np.linspace(-3.0, 3.0, 25)
"""How much dearer sending is than getting, in the relaxation. Any choice is valid, and the best one is taken."""


class Loads(NamedTuple):
    """Units and nodes as the bounds see them; units without a home are only a sum.

    at_home     (nodes,)      the load of each node before anything moves
    strength    (nodes,)      what it has
    open_nodes  (nodes,)      whether it counts
    first       (nodes + 1,)  where its units begin in `own`
    own         (homed,)      the loads of units, node by node, each node's heaviest first
    heaviest    (homed,)      the loads of all units with a home, heaviest first
    homes       (homed,)      the homes of those
    new         the load of the units without a home
    """

    at_home: Float64Array
    strength: Float64Array
    open_nodes: BoolArray
    first: Int64Array
    own: Float64Array
    heaviest: Float64Array
    homes: Int64Array
    new: float


def loads_of(problem: Problem) -> Loads:
    """Sort a problem's units in both ways."""
    homed = np.flatnonzero(problem.homes != NEW)
    work, homes = problem.work[homed], problem.homes[homed].astype(np.int64)
    falling = np.argsort(-work, kind="stable")
    by_node = falling[np.argsort(homes[falling], kind="stable")]
    return Loads(
        at_home=problem.node_loads(problem.homes),
        strength=problem.strength,
        open_nodes=problem.open_nodes,
        first=np.searchsorted(homes[by_node], np.arange(problem.nodes + 1)).astype(np.int64),
        own=work[by_node],
        heaviest=work[falling],
        homes=homes[falling],
        new=float(problem.work[problem.homes == NEW].sum()),
    )


def may_suffice(loads: Loads, mean: float, distance: float, moves: int) -> bool:
    """False if it is proved that this many moves can't bring all nodes within this distance of the mean.

    >>> problem = Problem(loads=[3.0, 3.0, 3.0, 1.0], homes=[0, 0, 0, 1], capacities=[10.0, 10.0])
    >>> loads = loads_of(problem)
    >>> [may_suffice(loads, problem.mean, 10.0, moves) for moves in (0, 1)]
    [False, True]
    """
    if moves <= FEW:
        return bool(_some_sum_fits(loads, mean, distance, moves))
    return bool(_price_is_low_enough(loads, mean, distance, moves, LEANINGS))


@kernel
def own_loads(loads, node):
    """The loads of a node's units, the heaviest first."""
    return loads.own[loads.first[node] : loads.first[node + 1]]


@kernel
def to_change(loads, mean, distance, node):
    """By how much a node's load must change at least and at most to come into the band.

    The band is a little wider than asked: rounding must never prove anything.
    """
    slack = ROUNDING * (mean + distance) + ROUNDING
    per_point, now = loads.strength[node] / 100.0, loads.at_home[node]
    return (mean - distance - slack) * per_point - now, (mean + distance + slack) * per_point - now


@kernel
def _some_sum_fits(loads, mean, distance, moves):
    """Whether some choice of (p, q) for each node has equal sums within the budget: all sums, as bits."""
    reached = np.zeros(moves + 1, np.uint64)  # bit q of word p: sums p and q can be had
    reached[0] = 1
    most, least = np.zeros(moves + 1), np.zeros(moves + 1)
    spare = 0
    for node in range(loads.at_home.size):
        if not loads.open_nodes[node]:
            spare += loads.first[node + 1] - loads.first[node]  # it may send whatever it has, or nothing
            continue
        others = _others(loads.heaviest, loads.homes, node, most)
        _others(loads.heaviest[::-1], loads.homes[::-1], node, least)
        change = to_change(loads, mean, distance, node)
        reached = _with_node(loads, node, reached, most[: others + 1], least[: others + 1], change)
    for sent in range(moves + 1):
        for extra in range(min(spare, moves - sent) + 1):
            if (reached[sent] >> np.uint64(sent + extra)) & np.uint64(1):
                return True
    return False


@kernel
def _with_node(loads, node, reached, most, least, change):
    """The sums that can be had with a node on top of those before it."""
    moves = reached.size - 1
    within = (np.uint64(1) << np.uint64(moves + 1)) - np.uint64(1)
    own, (below, above) = own_loads(loads, node), change
    heavy, light = running(own), running(own[::-1])
    after = np.zeros(moves + 1, np.uint64)
    seen = np.zeros(2 * moves + 1, np.bool_)
    for out in range(min(own.size, moves) + 1):
        for into in range(most.size):
            # One unit more in both directions only costs more, so the least pair of each difference is enough.
            if seen[out - into + moves]:
                continue
            if most[into] - light[out] + loads.new < below or least[into] - heavy[out] > above:
                continue
            if loads.new == 0.0 and not _such_units(loads, own, out, into, below, above):
                continue
            seen[out - into + moves] = True
            for sent in range(moves + 1 - out):
                after[sent + out] |= (reached[sent] << np.uint64(into)) & within
    return after


@kernel
def _others(work, homes, node, sums):
    """Fill what the first 0, 1, 2 ... units of other nodes weigh together; how many there are, as far as they fit."""
    count = 0
    for place in range(work.size):
        if count + 1 == sums.size:
            break
        if homes[place] != node:
            sums[count + 1] = sums[count] + work[place]
            count += 1
    return count


@kernel
def running(loads):
    """What the first 0, 1, 2 ... weigh together."""
    sums = np.zeros(loads.size + 1)
    for place in range(loads.size):
        sums[place + 1] = sums[place] + loads[place]
    return sums


@kernel
def _such_units(loads, own, out, into, least, most):
    """Whether there are units that change a load by such an amount, if they are few enough to look at each.

    It matters: sizes come in clusters, with nothing in between.
    """
    if into == 0 and out == 1:
        return _one_between(own, -most, -least)
    if into == 0 and out == 2:
        return _two_between(own, -most, -least)
    if into == 1 and out == 0:
        return _one_between(loads.heaviest, least, most)
    return True


@kernel
def _one_between(falling, least, most):
    """Whether one of the loads is in between."""
    rising = falling[::-1]
    place = np.searchsorted(rising, least)
    return place < rising.size and rising[place] <= most


@kernel
def _two_between(falling, least, most):
    """Whether two of the loads have a sum in between."""
    one, other = 0, falling.size - 1
    while one < other:
        both = falling[one] + falling[other]
        if both > most:
            one += 1
        elif both < least:
            other -= 1
        else:
            return True
    return False


@kernel
def _price_is_low_enough(loads, mean, distance, moves, leanings):
    """Whether all nodes can pay for their moves if a unit sent costs (1 + x) / 2 and one received (1 - x) / 2."""
    most, least = running(loads.heaviest), running(loads.heaviest[::-1])
    paid = np.zeros(leanings.size)
    cheapest = np.empty(leanings.size)
    for node in range(loads.at_home.size):
        own = own_loads(loads, node)
        if not loads.open_nodes[node]:
            for lean in range(leanings.size):
                paid[lean] += min(0.0, (1 + leanings[lean]) / 2 * own.size)
            continue
        below, above = to_change(loads, mean, distance, node)
        cheapest[:] = np.inf
        heavy, light = running(own), running(own[::-1])
        for out in range(min(own.size, moves) + 1):
            fewest = np.searchsorted(most, below + light[out] - loads.new)
            largest = min(np.searchsorted(least, above + heavy[out], side="right") - 1, moves)
            if fewest > largest:
                continue
            for lean in range(leanings.size):
                receiving = (1 - leanings[lean]) / 2
                into = fewest if receiving >= 0 else largest
                cheapest[lean] = min(cheapest[lean], (1 + leanings[lean]) / 2 * out + receiving * into)
        paid += cheapest
    return paid.max() <= moves * (1 + ROUNDING) + ROUNDING
