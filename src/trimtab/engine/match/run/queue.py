"""Puts kept rows among the new ones: rows that were processed before, then those that wait, in order.

The new rows are in order already, in the same way for all queries that share them; the kept ones, which are few, are
merged in. Where values of both can't be compared one by one, such as text, everything is sorted again: that is the
plain twin of merging.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array, int64s, single
from trimtab.engine.columns.order import OrderKey, are_comparable, sort_levels, stable_order, ties_by_arrival
from trimtab.engine.match.run.fresh import Fresh
from trimtab.engine.operator import ARRIVAL


def place_rows(
    by: Sequence[OrderKey], old: pa.Table, new: pa.Table, fresh: Fresh, key: Int64Array, pending: BoolArray, count: int
) -> Int64Array:
    """The row at each position, key by key; of each key first those of the kept rows that aren't `pending`.

    key   the key of each kept row, of `count` keys; a key's rows are in order
    """
    context, waiting = _by_key(np.flatnonzero(~pending), key), _by_key(np.flatnonzero(pending), key)
    queue: Int64Array = fresh.order + old.num_rows
    sizes = np.zeros(count, np.int64)
    sizes[: len(fresh.sizes)] = fresh.sizes
    places = _merged(by, old, new, fresh, key, waiting) if len(waiting) and len(queue) else np.zeros_like(waiting)
    if places is None:
        queue = _sorted(by, old, new, fresh, key, waiting)
        sizes += np.bincount(key[waiting], minlength=count)
        waiting = places = waiting[:0]
    # Of a key, at the same place, rows that were processed come before those that wait.
    rows = np.concatenate([context, waiting])
    before = np.concatenate([(np.cumsum(sizes) - sizes)[key[context]], places])
    by_key = np.argsort(key[rows], kind="stable")
    return np.insert(queue, before[by_key], rows[by_key])


def kept_levels(by: Sequence[OrderKey], old: pa.Table, new: pa.Table) -> list[Int64Array] | None:
    """The levels of kept rows that can be compared with those of the new ones; None: they can't."""
    if are_comparable([table.column(key.column) for key in by for table in (old, new)]):
        return sort_levels([old.column(key.column) for key in by], by)
    return None


def joint_levels(by: Sequence[OrderKey], old: pa.Table, new: pa.Table) -> list[Int64Array]:
    """The levels of the kept rows and the new ones after them, made together."""
    names = [key.column for key in by]
    both = pa.concat_tables([old.select(names), new.select(names)]).combine_chunks()
    return sort_levels(both.columns, by)


def _by_key(rows: Int64Array, key: Int64Array) -> Int64Array:
    """Rows of one key after another; each key's stay in order."""
    keys = key[rows]
    return rows if (keys[1:] >= keys[:-1]).all() else rows[np.argsort(keys, kind="stable")]


def _merged(
    by: Sequence[OrderKey], old: pa.Table, new: pa.Table, fresh: Fresh, key: Int64Array, waiting: Int64Array
) -> Int64Array | None:
    """Before which places in the order of new rows the waiting ones belong; None: that has to be sorted out."""
    levels, numbered = kept_levels(by, old, new), fresh.numbered
    if levels is None or numbered is None:
        return None
    level, ordered = levels[0][waiting], numbered.ascending
    # Keys without new rows are the last ones, and all of their rows come after the others.
    numbers = numbered.of(np.minimum(key[waiting], len(fresh.sizes)), level)
    places = np.searchsorted(ordered, numbers)
    tied = (ordered[np.minimum(places, len(ordered) - 1)] == numbers) & (level >= numbered.least)
    if tied.any():
        arrival = int64s(single(new.column(ARRIVAL)))
        ends = np.searchsorted(ordered, numbers[tied], side="right")
        wanted = int64s(single(old.column(ARRIVAL)))[waiting[tied]]
        places[tied] = _bisected(arrival[fresh.order], places[tied], ends, wanted)
    return places


def _bisected(values: Int64Array, starts: Int64Array, ends: Int64Array, wanted: Int64Array) -> Int64Array:
    """Where each number belongs within its own range of values, which ascend there.

    >>> _bisected(np.array([1, 5, 9, 2, 4]), np.array([0, 3, 3]), np.array([3, 5, 5]), np.array([6, 1, 7])).tolist()
    [2, 3, 5]
    """
    low, high = starts.copy(), ends.copy()
    while (open_ := low < high).any():
        middle = np.minimum((low + high) >> 1, len(values) - 1)
        is_less = open_ & (values[middle] < wanted)
        low, high = np.where(is_less, middle + 1, low), np.where(open_ & ~is_less, middle, high)
    return low


def _sorted(
    by: Sequence[OrderKey], old: pa.Table, new: pa.Table, fresh: Fresh, key: Int64Array, waiting: Int64Array
) -> Int64Array:
    """The waiting rows and the new ones, key by key and in order."""
    chosen = np.concatenate([waiting, np.arange(old.num_rows, old.num_rows + new.num_rows)])
    levels = [level[chosen] for level in joint_levels(by, old, new)]
    codes = np.concatenate([key[waiting], fresh.codes])
    arrival = np.concatenate([int64s(single(table.column(ARRIVAL))) for table in (old, new)])[chosen]
    found = stable_order([codes, *levels], len(chosen))
    return chosen[ties_by_arrival(found, [*levels, codes], arrival)]
