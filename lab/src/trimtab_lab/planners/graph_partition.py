"""Balanced graph partitioning: cut a weighted graph into even parts so that little traffic crosses between them.

METIS does each cut in two; the recursion is ours, because METIS alone leaves parts empty (and prints messages) when
there are few vertices for the requested parts. Nodes and moves play no part here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.planning.problem import BoolArray, Float64Array, Int32Array, Int64Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array, sparray

WEIGHT_STEPS = 10_000_000
"""METIS needs integers: all weights together are scaled to this sum."""


def partition_graph(
    weights: npt.ArrayLike, edges: sparray, parts: int, *, seed: int = 0, tolerance: float = 0.01
) -> Int32Array:
    """Give each vertex a part from 0 to `parts - 1`: parts of even weight, with few and light edges between them.

    No part is empty if there are enough vertices; with fewer vertices than parts each one is its own part. Parts are as
    even as possible: a vertex above the fair share makes its part heavier. The direction of edges doesn't matter, edges
    from a vertex to itself don't count, and the graph need not be connected.

    weights    (vertices,)                    not negative; if all are 0, every vertex counts the same
    edges      (vertices, vertices), sparse   not negative
    tolerance  how much heavier than its share a side of each single cut may be

    >>> from scipy.sparse import csr_array
    >>> edges = csr_array(([9.0, 1.0, 9.0], ([0, 1, 2], [1, 2, 3])), shape=(4, 4))
    >>> labels = partition_graph([1.0, 1.0, 1.0, 1.0], edges, 2)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True

    Reference: Karypis and Kumar (1998), multilevel recursive bisection.
    """
    from scipy.sparse import csr_array

    weight = np.asarray(weights, dtype=np.float64)
    if parts < 1:
        raise BalanceError("plan.options", f"parts is {parts}", "1 or more")
    if weight.ndim != 1 or edges.shape != (len(weight), len(weight)):
        raise BalanceError("plan.shape", f"edges are {edges.shape}, with {weight.shape} weights")
    there = csr_array(edges, dtype=np.float64)
    both = csr_array(there + there.T)
    labels = np.zeros(len(weight), dtype=np.int32)
    _divide(labels, np.arange(len(weight)), 0, parts, weight, both, seed, tolerance)
    return labels


def bisect_graph(
    weights: Float64Array, edges: csr_array, *, share: float = 0.5, seed: int = 0, tolerance: float = 0.01
) -> BoolArray:
    """Cut a graph in two: True for the first side, which gets `share` of the weight, False for the second.

    Neither side is empty if there are two vertices or more. `edges` must hold both directions of each edge.

    >>> from scipy.sparse import csr_array
    >>> first = bisect_graph(np.ones(3), csr_array((3, 3)), share=1 / 3)
    >>> int(first.sum())
    1
    """
    size = len(weights)
    if size < 2:
        return np.ones(size, dtype=np.bool_)
    first = _metis(weights, edges, share, seed, tolerance)
    # METIS may put everything on one side if one vertex outweighs all others together: then that one is a side alone.
    if first.all() or not first.any():
        heaviest = np.zeros(size, dtype=np.bool_)
        heaviest[int(weights.argmax())] = True
        return heaviest if share >= 0.5 else ~heaviest
    return first


def _divide(
    labels: Int32Array,
    members: Int64Array,
    start: int,
    parts: int,
    weights: Float64Array,
    edges: csr_array,
    seed: int,
    tolerance: float,
) -> None:
    """Write parts `start` to `start + parts - 1` to the members; `weights` and `edges` are only theirs."""
    parts = min(parts, len(members))
    if parts <= 1:
        labels[members] = start
        return
    if parts == len(members):
        labels[members] = start + np.arange(parts, dtype=np.int32)
        return
    low = parts // 2
    first = bisect_graph(weights, edges, share=low / parts, seed=seed, tolerance=tolerance)
    first = _with_enough(first, weights, low, parts - low)
    for side, begin, count in ((np.flatnonzero(first), start, low), (np.flatnonzero(~first), start + low, parts - low)):
        inner = edges[side][:, side] if count > 1 else edges
        _divide(labels, members[side], begin, count, weights[side], inner, seed, tolerance)


def _with_enough(first: BoolArray, weights: Float64Array, need_first: int, need_second: int) -> BoolArray:
    """Give a side with fewer vertices than parts the lightest ones of the other side."""
    first = first.copy()
    for need, mine in ((need_first, True), (need_second, False)):
        missing = need - int(np.count_nonzero(first == mine))
        if missing > 0:
            others = np.flatnonzero(first != mine)
            first[others[np.argsort(weights[others], kind="stable")[:missing]]] = mine
    return first


def _metis(weights: Float64Array, edges: csr_array, share: float, seed: int, tolerance: float) -> BoolArray:
    import pymetis

    rows = np.repeat(np.arange(len(weights)), np.diff(edges.indptr))
    real = (edges.indices != rows) & (edges.data > 0)
    starts = np.concatenate(([0], np.cumsum(np.bincount(rows[real], minlength=len(weights)))))
    options = pymetis.Options()
    options.seed = seed
    options.ufactor = max(1, round(1000 * tolerance))
    found = pymetis.part_graph(
        2,
        pymetis.CSRAdjacency(starts.astype(np.int64), edges.indices[real].astype(np.int64)),
        vweights=_steps(weights),
        eweights=_steps(edges.data[real]),
        tpwgts=[share, 1 - share],
        recursive=True,
        options=options,
    )
    parts: Int64Array = np.asarray(found.vertex_part, dtype=np.int64)
    first: BoolArray = parts == 0
    return first


def _steps(amounts: Float64Array) -> Int64Array:
    """Amounts as integers of at least 1 that add up to about WEIGHT_STEPS; METIS doesn't accept weights of 0."""
    total = float(amounts.sum())
    if not total > 0:
        return np.ones(len(amounts), dtype=np.int64)
    return np.maximum(np.rint(amounts * (WEIGHT_STEPS / total)), 1).astype(np.int64)
