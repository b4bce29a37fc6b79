"""The order of rows that have waited and of new ones: queries over the same new rows share the sorting of these.

What a query has kept is few rows, and its own, so it merges them in. Where values of both can't be compared one by one,
such as text, everything is sorted at once: that is the plain twin of merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array, int64s, plain, single
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import (
    OrderKey,
    are_comparable,
    arrival_order,
    sort_levels,
    stable_order,
    ties_by_arrival,
)


def joint_order(
    memo: Memo, waiting: pa.Table, new: pa.Table, by: Sequence[OrderKey], arrival: str, leaving: BoolArray
) -> tuple[Int64Array, list[Int64Array]]:
    """The `leaving` rows by the order columns and then arrival, and the levels of all rows, see `sort_levels`.

    A row is its number among the waiting rows and the new ones after them.
    """
    kept = waiting.num_rows
    arrivals = [int64s(single(table.column(arrival))) for table in (waiting, new)]
    columns = [[table.column(key.column) for key in by] for table in (waiting, new)]
    if not by or (kept and not are_comparable([*columns[0], *columns[1]])):
        both = [pa.concat_arrays([plain(old), plain(fresh)]) for old, fresh in zip(*columns, strict=True)]
        levels = sort_levels(both, by)
        return _sorted(levels, np.concatenate(arrivals), leaving), levels
    fresh_levels, fresh_order = memo.once(_in_order, columns[1], tuple((key.descending, key.nulls_first) for key in by))
    order = ties_by_arrival(fresh_order, fresh_levels, arrivals[1])
    if not leaving[kept:].all():
        order = order[leaving[kept:][order]]
    if not kept:
        return order, list(fresh_levels)
    levels = sort_levels(columns[0], by)
    rows = _sorted(levels, arrivals[0], leaving[:kept])
    places = _places(order, [*fresh_levels, arrivals[1]], [level[rows] for level in (*levels, arrivals[0])])
    joint = [np.concatenate(both) for both in zip(levels, fresh_levels, strict=True)]
    return np.insert(order + kept, places, rows), joint


def _in_order(*columns_and_by: Any) -> tuple[list[Int64Array], Int64Array]:
    """The levels of new rows, and the rows sorted by them; ties as they came."""
    *columns, by = columns_and_by
    levels = sort_levels(columns, [OrderKey("", *each) for each in by])
    return levels, stable_order(levels, len(levels[0]))


def _sorted(levels: Sequence[Int64Array], arrivals: Int64Array, chosen: BoolArray) -> Int64Array:
    """The chosen rows by the levels and then arrival."""
    rows = np.flatnonzero(chosen)
    return rows[arrival_order([level[rows] for level in levels], arrivals[rows])]


def _places(order: Int64Array, levels: Sequence[Int64Array], wanted: Sequence[Int64Array]) -> Int64Array:
    """Before which places in an order rows with the `wanted` levels belong, by bisection.

    >>> _places(np.array([1, 0, 2]), [np.array([5, 3, 5]), np.array([1, 0, 9])], [np.array([5, 9]), np.array([4, 0])])
    array([2, 3])
    """
    low, high = np.zeros(len(wanted[0]), np.int64), np.full(len(wanted[0]), len(order))
    while (is_open := low < high).any():
        middle = (low + high) >> 1
        rows = order[np.minimum(middle, len(order) - 1)]
        is_less, is_equal = np.zeros(len(rows), np.bool_), is_open
        for level, own in zip(levels, wanted, strict=True):
            values = level[rows]
            is_less |= is_equal & (values < own)
            is_equal = is_equal & (values == own)
        low, high = np.where(is_less, middle + 1, low), np.where(is_open & ~is_less, middle, high)
    return low
