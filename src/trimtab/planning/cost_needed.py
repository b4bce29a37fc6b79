"""Cost needed: can a cost bring every node into a band around the mean? "No" is a proof, "yes" is none.

Nodes that are too full have to send load, and nodes that are too empty to get some. At best they choose the units with
the most load for their cost, the last one only in part (a fractional knapsack).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab.planning.moves_needed import Loads
from trimtab.planning.problem import NEW, ROUNDING, Float64Array, Int64Array, Problem


class Bargains(NamedTuple):
    """Units with a home and a load, the most load for their cost first.

    work, cost  (units,)  what each weighs, and what moving it costs
    homes       (units,)  where it lives
    """

    work: Float64Array
    cost: Float64Array
    homes: Int64Array


def bargains_of(problem: Problem) -> Bargains:
    """Sort a problem's units by what they weigh for their cost.

    >>> bargains_of(Problem([2.0, 3.0, 0.0], [0, 0, 0], [9.0], move_costs=[1.0, 0.0, 1.0])).work.tolist()
    [3.0, 2.0]
    """
    units = np.flatnonzero((problem.homes != NEW) & (problem.work > 0))
    work, cost = problem.work[units], problem.move_costs[units]
    worth = np.divide(work, cost, out=np.full(len(units), np.inf), where=cost > 0)
    order = np.argsort(-worth, kind="stable")
    return Bargains(work[order], cost[order], problem.homes[units][order].astype(np.int64))


def cost_may_suffice(problem: Problem, loads: Loads, bargains: Bargains, distance: float) -> bool:
    """False if it is proved that the cost allowed can't bring all nodes within this distance of the mean.

    >>> from trimtab.planning.moves_needed import loads_of
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
    needed = max(float(_to_send(send, *bargains)), _to_get(get, bargains))
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


def _to_get(get: Float64Array, bargains: Bargains) -> float:
    """What it costs at least that each node gets this much load, if each could have the best bargains of all."""
    got, paid = np.append(0.0, np.cumsum(bargains.work)), np.append(0.0, np.cumsum(bargains.cost))
    return float(np.interp(get[get > 0], got, paid).sum())
