"""Synthetic clusters with a known shape, for experiments with planners (Madsen 2017, sections 5.1 and 5.3).

Nodes have a capacity of 100, so that loads are percentages. The same seed gives the same cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trimtab.errors import BalanceError
from trimtab.planning.problem import Float64Array, Int32Array, Int64Array, Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CAPACITY = 100.0
SPREAD = 0.05
"""Every unit's load is at first the mean, plus or minus up to this share of it."""
SHIFTED_NODES = 0.2
"""The share of the nodes whose load is changed."""
DEEPEST_CUT = 0.8
"""Units lose at most this share of their load, so that every unit keeps some load."""


def synthetic_cluster(
    nodes: int,
    units: int,
    *,
    varies: float,
    seed: int,
    operators: int = 10,
    mean_load: float = 50.0,
    max_moves: int | None = 20,
    one_to_one: float | None = None,
) -> Problem:
    """A cluster in which a fifth of the nodes have `varies / 2` percentage points too much or too little load.

    Every node gets the same number of units (as far as it divides), at random, and every unit the same load, give or
    take 5 %. Half of the changed nodes lose, the others gain; the change is made on a random half of a node's units.
    A move costs 1. With `one_to_one` (0 to 100) the operators form a chain, in which this percentage of each operator's
    units send everything to one unit of the next operator, which receives from no other unit; the rest send evenly to
    all of the rest. Collocation can reach about that percentage. Without it there is no traffic.

    >>> problem = synthetic_cluster(20, 400, varies=20.0, seed=1)
    >>> problem.units, problem.nodes, round(problem.mean), 9 < problem.load_distance(problem.homes) < 12
    (400, 20, 50, True)
    """
    _check(nodes, units, operators)
    if not 0 <= varies <= 2 * DEEPEST_CUT * mean_load:
        message = f"varies is {varies} with a mean load of {mean_load}"
        raise BalanceError("plan.synthetic", message, f"give a number from 0 to {2 * DEEPEST_CUT * mean_load}")
    rng = np.random.default_rng(seed)
    homes = rng.permutation(np.arange(units, dtype=np.int32) % nodes)
    sizes = 1 + rng.uniform(-SPREAD, SPREAD, units)
    loads = sizes * mean_load * nodes / max(units, 1)
    changed = rng.permutation(nodes)[: round(SHIFTED_NODES * nodes)]
    for position, node in enumerate(changed):
        _shift(loads, np.flatnonzero(homes == node), varies / 2 * (-1) ** position, rng)
    part_of = (np.arange(units, dtype=np.int64) * operators // max(units, 1)).astype(np.int32)
    return Problem(
        loads,
        homes,
        np.full(nodes, CAPACITY),
        state_bytes=np.ones(units),
        traffic=None if one_to_one is None else chain_traffic(part_of, sizes, one_to_one, rng),
        operators=part_of,
        max_moves=max_moves,
    )


def shrinking_cluster(
    nodes: int,
    units: int,
    *,
    remove: int,
    overloaded: int,
    seed: int,
    operators: int = 10,
    mean_load: float = 50.0,
    max_moves: int | None = 20,
) -> Problem:
    """A cluster of which `remove` nodes are to be emptied while `overloaded` of the others are at 100 % (figure 5).

    >>> problem = shrinking_cluster(60, 1200, remove=10, overloaded=5, seed=1)
    >>> int(problem.draining.sum()), np.sort(problem.utilisation(problem.homes).round())[-6:].tolist()
    (10, [51.0, 100.0, 100.0, 100.0, 100.0, 100.0])
    """
    if remove < 0 or overloaded < 0 or remove + overloaded > nodes:
        message = f"{remove} nodes to remove and {overloaded} overloaded of {nodes}"
        raise BalanceError("plan.synthetic", message, "together they can't be more than all")
    even = synthetic_cluster(nodes, units, varies=0, seed=seed, operators=operators, mean_load=mean_load)
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(nodes)
    loads = even.work.copy()
    for node in order[remove : remove + overloaded]:
        there = np.flatnonzero(even.homes == node)
        _shift(loads, there, CAPACITY - float(loads[there].sum()), rng)
    draining = np.zeros(nodes, dtype=np.bool_)
    draining[order[:remove]] = True
    return replace(even, loads=loads, draining=draining, max_moves=max_moves)


def drift(problem: Problem, seed: int, percent: float = 2.0) -> Problem:
    """What the cluster looks like a period later: a fifth of the nodes change their load by up to `percent` percent.

    To continue from a plan, pass `dataclasses.replace(problem, homes=plan.owner)`.

    >>> problem = synthetic_cluster(20, 400, varies=0, seed=1)
    >>> later = drift(problem, seed=2)
    >>> int(np.count_nonzero(later.work != problem.work))
    80
    """
    factors = node_changes(problem.nodes, percent, SHIFTED_NODES, np.random.default_rng(seed))
    factors = np.append(factors, 1.0)  # for units without a home: NEW is -1
    return replace(problem, loads=problem.loads * factors[problem.homes][:, None])


def node_changes(nodes: int, percent: float, share: float, rng: np.random.Generator) -> Float64Array:
    """The factor for each node's load: a random `share` of the nodes change by up to `percent` percent."""
    factors = np.ones(nodes)
    changed = rng.permutation(nodes)[: round(share * nodes)]
    factors[changed] += rng.uniform(-percent, percent, len(changed)) / 100
    return factors


def chain_traffic(operators: Int32Array, rates: Float64Array, one_to_one: float, rng: np.random.Generator) -> csr_array:
    """Traffic in a chain of operators: a random `one_to_one` percent of the units in pairs, the rest all to all.

    operators  (units,)  the operator of each unit; operator 0 sends to 1, 1 to 2, and so on
    rates      (units,)  what each unit sends; the last operator sends nothing
    """
    from scipy.sparse import csr_array

    if not 0 <= one_to_one <= 100:
        raise BalanceError("plan.synthetic", f"one_to_one is {one_to_one}", "give a percentage from 0 to 100")
    units = len(operators)
    senders, receivers, amounts = [], [], []
    last = int(operators.max()) if units else 0
    for operator in range(last):
        upper = rng.permutation(np.flatnonzero(operators == operator))
        lower = rng.permutation(np.flatnonzero(operators == operator + 1))
        pairs = round(one_to_one / 100 * min(len(upper), len(lower)))
        rest, targets = upper[pairs:], lower[pairs:] if len(lower) > pairs else lower
        senders += [upper[:pairs], np.repeat(rest, len(targets))]
        receivers += [lower[:pairs], np.tile(targets, len(rest))]
        amounts += [rates[upper[:pairs]], np.repeat(rates[rest] / len(targets), len(targets))]
    if not senders:
        return csr_array((units, units))
    where = (np.concatenate(senders), np.concatenate(receivers))
    return csr_array((np.concatenate(amounts), where), shape=(units, units))


def _shift(loads: Float64Array, there: Int64Array, points: float, rng: np.random.Generator) -> None:
    """Change the load of a node by `points`, on a random half of its units, or on more if half can't lose it."""
    if not len(there):
        return
    chosen = rng.permutation(there)
    size = (len(there) + 1) // 2
    if points < 0:
        gone = DEEPEST_CUT * np.cumsum(loads[chosen])
        size = max(size, int(np.searchsorted(gone, -points)) + 1)
    chosen = chosen[:size]
    loads[chosen] *= max(1 + points / float(loads[chosen].sum()), 1 - DEEPEST_CUT)


def _check(nodes: int, units: int, operators: int) -> None:
    if nodes < 1 or units < 0 or operators < 1:
        message = f"{nodes} nodes, {units} units, {operators} operators"
        raise BalanceError("plan.synthetic", message, "at least one node and one operator")
