"""Subset sums: which units to take off a node so that the sum of their loads is in an interval.

A dynamic program over integer loads: exact, with a cost that is known in advance. It is independent of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError
from trimtab.planning.problem import BoolArray, Float64Array, Int64Array


def subsets_by_state(loads: npt.ArrayLike, states: npt.ArrayLike, low: int, high: int) -> Iterator[Int64Array]:
    """Yield subsets whose loads have a sum from `low` to `high`, those with the least state first.

    For every sum in the interval that can be reached, the subset of least state is yielded, once; of equal ones the
    one with the smaller sum comes first. So the first one is the best of all subsets in the interval, and the
    following ones are alternatives if it can't be used. Nothing is yielded if no sum is in the interval.

    loads   (units,) integers, not negative
    states  (units,) what taking a unit costs, not negative

    >>> [subset.tolist() for subset in subsets_by_state([5, 3, 2, 4], [9.0, 1.0, 1.0, 8.0], 5, 6)]
    [[1, 2], [2, 3]]

    Time and memory O(units * high). References: Martello and Toth, Algorithms for knapsack problems (1987), which
    Heinze (2013), section 3.2, uses.
    """
    whole = np.asarray(loads)
    if whole.size and (not np.issubdtype(whole.dtype, np.integer) or int(whole.min()) < 0):
        raise BalanceError("plan.loads", "subset sums need whole loads of 0 or more", "scale them and round them down")
    costs = np.asarray(states, dtype=np.float64)
    if whole.shape != costs.shape:
        raise BalanceError("plan.shape", f"{whole.size} loads and {costs.size} states")
    low = max(low, 0)
    high = min(high, int(whole.sum()))
    if high < low:
        return
    least, taken = _least_states(whole, costs, high)
    sums = low + np.flatnonzero(np.isfinite(least[low:]))
    for total in sums[np.argsort(least[sums], kind="stable")]:
        yield _subset(whole, taken, int(total))


def _least_states(loads: npt.NDArray[np.integer], costs: Float64Array, high: int) -> tuple[Float64Array, BoolArray]:
    """`least[s]`: the least state with which the sum s is reached. `taken[u, s]`: whether that took unit u, of 0..u."""
    least = np.full(high + 1, np.inf)
    least[0] = 0.0
    taken = np.zeros((len(loads), high + 1), dtype=np.bool_)
    for unit, (load, cost) in enumerate(zip(loads.tolist(), costs.tolist(), strict=True)):
        if not 0 < load <= high:  # a unit without load frees nothing
            continue
        with_it = least[: high + 1 - load] + cost
        better = with_it < least[load:]
        taken[unit, load:] = better
        least[load:] = np.where(better, with_it, least[load:])
    return least, taken


def _subset(loads: npt.NDArray[np.integer], taken: BoolArray, total: int) -> Int64Array:
    units = []
    for unit in range(len(loads) - 1, -1, -1):
        if taken[unit, total]:
            units.append(unit)
            total -= int(loads[unit])
    return np.array(units[::-1], dtype=np.int64)
