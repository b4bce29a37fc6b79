"""Lower bound: a load distance that no placement within the budget can be below, whatever it looks like.

The largest of four bounds, each of which leaves out most of what makes the problem hard. All of them ignore side
resources: leaving out conditions can only lower a bound.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.moves_needed import Loads, loads_of, may_suffice
from trimtab.planning.problem import NEW, ROUNDING, Float64Array, Int64Array, Problem

Bargains = tuple[Float64Array, Float64Array, Int64Array]

NEAR = 1e-6
"""Bounds are found by halving, until they are known up to this share of them."""


def lower_bound(problem: Problem) -> float:
    """A proven bound on the load distance of any plan for this problem.

    It is never above the optimum. How close it is depends on the budget: with few moves it is mostly exact or nearly
    so, and with no limit it is mostly 0.

    >>> problem = Problem(loads=[30.0, 20.0, 10.0], homes=[0, 0, 0], capacities=[100.0, 100.0], max_moves=1)
    >>> round(lower_bound(problem), 3)
    0.0
    >>> problem = Problem(loads=[10.0] * 6, homes=[0] * 6, capacities=[100.0, 100.0], max_moves=1)
    >>> round(lower_bound(problem), 3)
    20.0

    Time O(units log units) for a few moves, and as much times the logarithm of the precision.
    """
    simple = max(0.0, crowding(problem), starving(problem), undrained(problem))
    bound = max(simple, _by_moves(problem, simple))
    # A little less: rounding must never make a bound that a placement is below.
    return max(0.0, bound * (1 - ROUNDING) - ROUNDING * problem.mean)


def crowding(problem: Problem) -> float:
    """Of the k n + 1 largest units one of n nodes has k + 1 at least, and so the load of the lightest k + 1 of them.

    >>> problem = Problem(loads=[30.0, 30.0, 30.0], homes=[0, 0, 0], capacities=[100.0, 100.0])
    >>> crowding(problem)
    15.0
    """
    nodes = int(problem.open_nodes.sum())
    may_stay = ~problem.open_nodes[problem.homes] & (problem.homes != NEW)  # on a closed node
    falling = np.sort(problem.work[~may_stay])[::-1]
    if not len(falling):
        return 0.0
    rounds = np.arange((len(falling) - 1) // nodes + 1)
    below = np.concatenate(([0.0], np.cumsum(falling)))
    last = rounds * nodes + 1
    load = float((below[last] - below[last - 1 - rounds]).max())
    return 100.0 * load / float(problem.strength[problem.open_nodes].max()) - problem.mean


def starving(problem: Problem) -> float:
    """Some node has at most an equal share of the number of units; even the heaviest ones may be less than the mean.

    >>> problem = Problem(loads=[30.0, 30.0], homes=[0, 0], capacities=[100.0, 100.0, 100.0])
    >>> starving(problem)
    20.0
    """
    share = problem.units // int(problem.open_nodes.sum())
    load = float(np.sort(problem.work)[problem.units - share :].sum())
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
        weights, costs, homes = bargains_of(problem)
        closed = ~problem.open_nodes[homes]
        paid, gone = np.cumsum(costs[closed]), np.cumsum(weights[closed])
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


def bargains_of(problem: Problem) -> Bargains:
    """Work, costs and homes of the units that have a home and a load, the most load for its cost first.

    >>> bargains_of(Problem([2.0, 3.0, 0.0], [0, 0, 0], [9.0], move_costs=[1.0, 0.0, 1.0]))[0].tolist()
    [3.0, 2.0]
    """
    units = np.flatnonzero((problem.homes != NEW) & (problem.work > 0))
    work, cost = problem.work[units], problem.move_costs[units]
    worth = np.divide(work, cost, out=np.full(len(units), np.inf), where=cost > 0)
    order = np.argsort(-worth, kind="stable")
    return work[order], cost[order], problem.homes[units][order].astype(np.int64)


def cost_may_suffice(problem: Problem, loads: Loads, bargains: Bargains, distance: float) -> bool:
    """False if it is proved that the cost allowed can't bring all nodes within this distance of the mean.

    Nodes that are too full have to send load, and nodes that are too empty to get some. At best they choose the units
    with the most load for their cost, the last one only in part (a fractional knapsack).

    >>> problem = Problem([2.0] * 4, [0] * 4, [10.0, 10.0], move_costs=[3.0] * 4, max_cost=5.0)
    >>> loads, bargains = loads_of(problem), bargains_of(problem)
    >>> [cost_may_suffice(problem, loads, bargains, distance) for distance in (5.0, 10.0)]
    [False, True]
    """
    if problem.max_cost is None:
        return True
    per_point = problem.strength / 100.0
    slack = ROUNDING * (problem.mean + distance) + ROUNDING
    send = np.where(problem.open_nodes, loads.at_home - (problem.mean + distance + slack) * per_point, 0.0)
    get = np.where(problem.open_nodes, (problem.mean - distance - slack) * per_point - loads.at_home - loads.new, 0.0)
    # At best each node that gets load could have the best bargains of all.
    got, paid = (np.append(0.0, np.cumsum(each)) for each in bargains[:2])
    needed = max(float(_to_send(send, *bargains)), float(np.interp(get[get > 0], got, paid).sum()))
    return needed <= problem.max_cost * (1 + ROUNDING) + ROUNDING


@kernel
def _to_send(send, work, cost, homes):
    """What it costs at least that each node sends this much of its own load; `send` is used up."""
    total = 0.0
    for unit in range(work.size):
        wanted = send[homes[unit]]
        if wanted > 0.0:
            total += cost[unit] * min(1.0, wanted / work[unit])
            send[homes[unit]] = wanted - work[unit]
    return total
