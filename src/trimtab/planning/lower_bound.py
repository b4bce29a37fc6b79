"""Lower bound: a load distance that no placement within the budget can be below, whatever it looks like.

The largest of four bounds, each of which leaves out most of what makes the problem hard. All of them ignore side
resources, and all but one that units may be tied together: leaving out conditions can only lower a bound.
"""

from __future__ import annotations

import numpy as np

from trimtab.planning.cost_needed import bargains_of, cost_may_suffice
from trimtab.planning.moves_needed import loads_of, may_suffice
from trimtab.planning.pieces import Pieces
from trimtab.planning.problem import NEW, ROUNDING, BoolArray, Problem

NEAR = 1e-6
"""Bounds are found by halving, until they are known up to this share of them."""


def lower_bound(problem: Problem, parts: Pieces | None = None) -> float:
    """A proven bound on the load distance of any plan for this problem.

    `parts` are the pieces that can't be divided, by default single units. Never above the optimum; how close it is
    depends on the budget: with few moves it is mostly exact or nearly so, and with no limit it is mostly 0.

    >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
    >>> round(lower_bound(problem), 3)
    0.0
    >>> problem = Problem(loads=[10.0] * 6, homes=[0] * 6, capacities=[100.0, 100.0], max_moves=1)
    >>> round(lower_bound(problem), 3)
    20.0

    Time O(units log units) for a few moves, and as much times the logarithm of the precision.
    """
    parts = Pieces.of(problem) if parts is None else parts
    simple = max(0.0, crowding(problem, parts), starving(problem, parts), undrained(problem))
    bound = max(simple, _by_moves(problem, simple))
    # A little less: rounding must never make a bound that a placement is below.
    return max(0.0, bound * (1 - ROUNDING) - ROUNDING * problem.mean)


def crowding(problem: Problem, parts: Pieces) -> float:
    """Of the k n + 1 largest pieces some node of n has k + 1; the lightest they can be is still a load.

    >>> problem = Problem(loads=[30.0, 30.0, 30.0], homes=[0, 0, 0], capacities=[100.0, 100.0])
    >>> crowding(problem, Pieces.of(problem))
    15.0
    """
    nodes = int(problem.open_nodes.sum())
    falling = parts.works[_must_be_on_open_nodes(problem, parts)][::-1]
    if not len(falling):
        return 0.0
    rounds = np.arange((len(falling) - 1) // nodes + 1)
    below = np.concatenate(([0.0], np.cumsum(falling)))
    last = rounds * nodes + 1
    load = float((below[last] - below[last - 1 - rounds]).max())
    return 100.0 * load / float(problem.strength[problem.open_nodes].max()) - problem.mean


def starving(problem: Problem, parts: Pieces) -> float:
    """Some node has at most its share of the number of pieces; the heaviest they can be may be less than the mean.

    >>> problem = Problem(loads=[30.0, 30.0], homes=[0, 0], capacities=[100.0, 100.0, 100.0])
    >>> starving(problem, Pieces.of(problem))
    20.0
    """
    share = parts.count // int(problem.open_nodes.sum())
    load = float(parts.works[parts.count - share :].sum())
    return problem.mean - 100.0 * load / float(problem.strength[problem.open_nodes].min())


def undrained(problem: Problem) -> float:
    """What the budget leaves on closed nodes is missing on the open ones (Madsen 2017, Lemma 2).

    >>> problem = Problem([30.0, 30.0, 30.0], [0, 1, 1], [100.0, 100.0], draining=[False, True], max_moves=1)
    >>> undrained(problem)
    30.0
    """
    there = ~problem.open_nodes[problem.homes] & (problem.homes != NEW)
    work = problem.work[there]
    leaves = float(work.sum())
    if problem.max_moves is not None:
        leaves = min(leaves, float(np.sort(work)[::-1][: problem.max_moves].sum()))
    if problem.max_cost is not None:
        bargains = bargains_of(problem)
        closed = ~problem.open_nodes[bargains.homes]
        paid, gone = np.cumsum(bargains.cost[closed]), np.cumsum(bargains.work[closed])
        allowed = problem.max_cost * (1 + ROUNDING) + ROUNDING
        leaves = min(leaves, float(np.interp(allowed, np.append(0.0, paid), np.append(0.0, gone))))
    return 100.0 * (float(work.sum()) - leaves) / float(problem.strength[problem.open_nodes].sum())


def affordable_moves(problem: Problem) -> int:
    """How many moves the budget allows at most: the cheapest ones."""
    costs = np.sort(problem.move_costs[problem.homes != NEW])
    moves = len(costs)
    if problem.max_cost is not None:
        moves = int(np.searchsorted(np.cumsum(costs), problem.max_cost * (1 + ROUNDING) + ROUNDING, side="right"))
    return moves if problem.max_moves is None else min(moves, problem.max_moves)


def _by_moves(problem: Problem, known: float) -> float:
    """The distance at which the moves and the cost that are needed come within the budget, by halving."""
    loads, bargains, moves = loads_of(problem), bargains_of(problem), affordable_moves(problem)

    def may(distance: float) -> bool:
        enough = may_suffice(loads, problem.mean, distance, moves)
        return enough and cost_may_suffice(problem, loads, bargains, distance)

    level = 100.0 * loads.at_home[problem.open_nodes] / problem.strength[problem.open_nodes]
    low, high = known, float(np.abs(level - problem.mean).max())  # at `high` nothing has to move
    if low >= high or may(low):
        return known
    while high - low > NEAR * low + ROUNDING * problem.mean:
        middle = (low + high) / 2
        if may(middle):
            high = middle
        else:
            low = middle
    return low


def _must_be_on_open_nodes(problem: Problem, parts: Pieces) -> BoolArray:
    """Pieces that can't stay on a closed node, since they aren't there."""
    must: BoolArray = (parts.homes == NEW) | problem.open_nodes[parts.homes]
    return must
