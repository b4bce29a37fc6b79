"""Collocation sets: which units talk so much that they should share a node, and which ones should stay together.

Steps 1 and 2 of Madsen's Algorithm 2. Nothing is placed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trimtab.planning.problem import Float64Array, Int32Array, Int64Array, Problem
from trimtab_lab.planners.graph_partition import partition_graph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FORESIGHT = 0.2
"""With it chains are collocated in 50 periods, without it in 80 (40 nodes, 800 units, 20 moves a period)."""
MOST_FORESIGHT = 20_000_000
"""More steps than this take too long; where units have that many partners, foresight gains little."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of units worth collocating: `senders[i]` sends `amounts[i]` to `receivers[i]`."""

    senders: Int64Array
    receivers: Int64Array
    amounts: Float64Array


def traffic_both_ways(problem: Problem) -> csr_array:
    """How much two units send each other, in both directions together; nothing if the problem has no traffic."""
    from scipy.sparse import csr_array

    if problem.traffic is None:
        return csr_array((problem.units, problem.units))
    return csr_array(problem.traffic + problem.traffic.T)


def talkative_pairs(problem: Problem, score_factor: float) -> Pairs:
    """The pairs in which a unit sends another one more than `score_factor` times what it sends to a unit on average.

    The average is over all units of the operators that the sender's operator sends to, also those that get nothing.

    >>> from scipy.sparse import csr_array
    >>> traffic = csr_array(([8.0, 1.0, 4.0, 5.0], ([0, 0, 1, 1], [2, 3, 2, 3])), shape=(4, 4))
    >>> problem = Problem([1.0] * 4, [0] * 4, [100.0], traffic=traffic, operators=[0, 0, 1, 1])
    >>> pairs = talkative_pairs(problem, score_factor=1.5)
    >>> pairs.senders.tolist(), pairs.receivers.tolist()
    ([0], [2])

    Reference: Madsen et al. (2017), Algorithm 2, step 1.
    """
    if problem.traffic is None or not problem.traffic.nnz:
        none = np.zeros(0, dtype=np.int64)
        return Pairs(none, none, np.zeros(0))
    table = problem.traffic.tocoo()
    senders, receivers = (end.astype(np.int64) for end in table.coords)
    _, operator, sizes = np.unique(problem.operators, return_inverse=True, return_counts=True)
    streams = np.unique(operator[senders] * len(sizes) + operator[receivers])
    listeners = np.bincount(streams // len(sizes), weights=sizes[streams % len(sizes)], minlength=len(sizes))
    output = np.bincount(senders, weights=table.data, minlength=problem.units)
    average = output[senders] / listeners[operator[senders]]
    worth = (table.data > score_factor * average) & (senders != receivers)
    return Pairs(senders[worth], receivers[worth], np.asarray(table.data[worth], dtype=np.float64))


def with_foresight(edges: csr_array, pairs: Pairs, *, weight: float = FORESIGHT) -> csr_array:
    """Edges, with additional ones between units that both talk to a third one.

    Two units that each form a talkative pair with a third one get `weight` of the lesser share of that traffic, as if
    they talked to each other a little. Moves chosen by this gather a chain of units from both of its ends on one node,
    instead of making many short pieces of it that have to be joined later at a higher price.

    edges  (units, units)  traffic, both ways

    >>> from scipy.sparse import csr_array
    >>> chain = csr_array(([4.0, 4.0], ([0, 1], [1, 2])), shape=(3, 3))
    >>> pairs = Pairs(np.array([0, 1]), np.array([1, 2]), np.array([4.0, 4.0]))
    >>> with_foresight(csr_array(chain + chain.T), pairs, weight=0.5).toarray()
    array([[0., 4., 1.],
           [4., 0., 4.],
           [1., 4., 0.]])
    """
    from scipy.sparse import csr_array

    units = edges.shape[0]
    heavy = csr_array((pairs.amounts, (pairs.senders, pairs.receivers)), shape=(units, units))
    heavy = csr_array(heavy + heavy.T)
    steps = float(np.diff(heavy.indptr)[heavy.indices].sum())
    if not 0 < steps <= MOST_FORESIGHT:
        return edges
    total = heavy.sum(axis=1)
    shares = heavy.copy()
    shares.data /= np.repeat(total, np.diff(heavy.indptr))
    ahead = (heavy @ shares).tocoo()
    one, other = ahead.coords
    apart = one != other
    ahead = csr_array((ahead.data[apart] * weight / 2, (one[apart], other[apart])), shape=(units, units))
    return csr_array(edges + ahead + ahead.T)


def collocated_sets(owner: Int32Array, pairs: Pairs) -> Int32Array:
    """Number the sets of units that are formed by pairs on one node, merged where they overlap; -1: in no set.

    >>> pairs = Pairs(np.array([0, 1, 3]), np.array([1, 2, 4]), np.ones(3))
    >>> collocated_sets(np.array([0, 0, 0, 0, 1]), pairs).tolist()
    [0, 0, 0, -1, -1]
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    shared = owner[pairs.senders] == owner[pairs.receivers]
    ends = (pairs.senders[shared], pairs.receivers[shared])
    graph = csr_array((np.ones(len(ends[0])), ends), shape=(len(owner), len(owner)))
    count, number = connected_components(graph, directed=False)
    real = np.bincount(number, minlength=count) > 1
    names: Int32Array = np.where(real, np.cumsum(real) - 1, -1).astype(np.int32)
    named: Int32Array = names[number]
    return named


def partitions(
    problem: Problem, owner: Int32Array, pairs: Pairs, edges: csr_array, *, max_load: float, seed: int = 0
) -> Int32Array:
    """Number the blocks that should move as one: pairs on one node, merged where they overlap, and split if too large.

    A block needs at most `max_load` percent of its node and at most the whole budget; what is larger is cut into even
    parts with little traffic between them. Units alone get -1; with a `max_load` of 0 all are alone.

    edges  (units, units)  traffic, both ways

    >>> from scipy.sparse import csr_array
    >>> pairs = Pairs(np.array([0, 1, 3]), np.array([1, 2, 4]), np.ones(3))
    >>> problem = Problem([10.0] * 5, [0, 0, 0, 0, 1], [100.0, 100.0])
    >>> partitions(problem, problem.homes, pairs, csr_array((5, 5)), max_load=30).tolist()
    [0, 0, 0, -1, -1]

    Reference: Madsen et al. (2017), Algorithm 2, step 2.
    """
    blocks = np.full(problem.units, -1, dtype=np.int32)
    number = collocated_sets(owner, pairs)
    inside = np.argsort(number, kind="stable")
    inside = inside[number[inside] >= 0]
    if max_load <= 0 or not len(inside):
        return blocks
    sets = np.split(inside, np.cumsum(np.bincount(number[inside]))[:-1])
    strength = np.where(problem.strength > 0, problem.strength, problem.strength.max())
    load = 100 * problem.work / strength[owner] / max_load
    price = budget_shares(problem)
    waiting, found = list(sets), 0
    while waiting:
        block = waiting.pop()
        if len(block) < 2:
            continue
        needs_load, needs_budget = float(load[block].sum()), float(price[block].sum())
        parts = int(np.ceil(max(needs_load, needs_budget) - 1e-9))
        if parts <= 1:
            blocks[block] = found
            found += 1
            continue
        weights = price if needs_budget > needs_load else load
        label = partition_graph(weights[block], edges[block][:, block], parts, seed=seed)
        # Parts are checked again: METIS makes them even only as far as the units allow.
        waiting += [block[label == part] for part in range(int(label.max()) + 1)]
    return blocks


def budget_shares(problem: Problem) -> Float64Array:
    """The cost of moving each unit, as a share of the budget; 0 without a budget."""
    shares = np.zeros(problem.units)
    if problem.max_moves is not None:
        shares += 1 / problem.max_moves if problem.max_moves else 1.0
    if problem.max_cost is not None:
        costs = problem.move_costs
        shares = np.maximum(shares, costs / problem.max_cost if problem.max_cost else (costs > 0).astype(np.float64))
    return shares
