"""The new rows of a batch, key by key and in order: the same for all queries with these keys and this order.

Such queries share all of it through the batch's memo (`engine/columns/memo.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, int64s, single
from trimtab.engine.columns.groups import by_group, first_rows
from trimtab.engine.columns.keys import key_codes
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import OrderKey, sort_levels, sorted_by
from trimtab.keyed_state import SLOT


@dataclass(frozen=True)
class Fresh:
    """New rows in order; a *place* is a row's number in `order`."""

    codes: Int64Array  # the key of each row; if keys have slots, they are in order of these
    sizes: Int64Array  # the number of rows of each key
    levels: tuple[Int64Array, ...]  # whole numbers by which the rows are ordered, see `sort_levels`
    sequence: Int64Array  # the rows in that order, over all keys; ties as they came
    order: Int64Array  # the rows key by key, and in that order within a key; ties in order of arrival

    @cached_property
    def first_rows(self) -> Int64Array:
        """Some row of each key, to read its columns from."""
        return first_rows(self.codes, len(self.sizes))

    @cached_property
    def rank(self) -> Int64Array:
        """The place of each row in `sequence`."""
        rank = np.empty(len(self.sequence), np.int64)
        rank[self.sequence] = np.arange(len(self.sequence))
        return rank

    @cached_property
    def numbered(self) -> Numbered | None:
        """Key and time of each row as one number; None: there are no rows, several levels, or numbers too large."""
        if len(self.levels) != 1 or not len(self.order):
            return None
        least, most = int(self.levels[0].min()), int(self.levels[0].max())
        span = most - least + 2
        if span * len(self.sizes) >= MOST:
            return None
        return Numbered(self.codes[self.order] * span + (self.levels[0][self.order] - least), least, span)


class Numbered(NamedTuple):
    """Numbers of the rows in `order`, which ascend: its key's times `span`, and how much its level is above `least`."""

    ascending: Int64Array
    least: int
    span: int

    def of(self, codes: Int64Array, levels: Int64Array) -> Int64Array:
        """The numbers of other rows; they are before or after all rows of their key if they are outside of the span."""
        return codes * self.span + (np.clip(levels, self.least, self.least + self.span - 1) - self.least)


MOST = 2**61
"""Numbers made of a key and a time have to be smaller."""


def fresh_rows(memo: Memo, rows: pa.Table, partition: Sequence[str], order: Sequence[OrderKey], arrival: str) -> Fresh:
    """The rows in order."""
    columns = [rows.column(name) for name in (*partition, *(key.column for key in order), arrival)]
    by = tuple((key.descending, key.nulls_first) for key in order)
    has_slot = bool(partition) and partition[0] == SLOT
    return memo.once(_fresh, columns, len(partition), has_slot, by)


def _fresh(*columns_and_more: Any) -> Fresh:
    *columns, key_count, has_slot, by = columns_and_more
    return _in_order(columns[:key_count], columns[key_count:-1], columns[-1], has_slot, by)


def _in_order(
    keys: Sequence[pa.Array], ordered: Sequence[pa.Array], arrival: pa.Array, has_slot: bool,
    by: Sequence[tuple[bool, bool]],
) -> Fresh:  # fmt: skip
    codes, count = key_codes(keys, len(arrival))
    if has_slot and count > 1:
        slots = int64s(single(keys[0]))[first_rows(codes, count)]
        if not (slots[1:] >= slots[:-1]).all():
            number = np.empty(count, np.int64)
            number[np.argsort(slots, kind="stable")] = np.arange(count)
            codes = number[codes]
    levels = tuple(sort_levels(ordered, [OrderKey("", *each) for each in by]))
    found = sorted_by(levels)
    sequence = np.arange(len(codes)) if found is None else found
    order = sequence if count <= 1 else sequence[by_group(codes[sequence], count)]
    order = ties_by_arrival(order, codes, levels, int64s(arrival))
    sizes = np.bincount(codes, minlength=count) if count else np.zeros(0, np.int64)
    return Fresh(codes, sizes, levels, sequence, order)


def ties_by_arrival(
    order: Int64Array, codes: Int64Array, levels: Sequence[Int64Array], arrival: Int64Array
) -> Int64Array:
    """The rows in `order`, key by key, with equal ones of a key in order of their arrival; others keep their places.

    >>> order, codes, level = np.array([0, 2, 1, 3]), np.array([0, 1, 0, 1]), np.array([5, 5, 5, 6])
    >>> ties_by_arrival(order, codes, [level], np.array([9, 2, 1, 0]))
    array([2, 0, 1, 3])
    """
    # Mostly there are no ties, so the cheapest test comes first.
    found = arrival[order]
    if not (found[1:] < found[:-1]).any():
        return order
    same: np.ndarray | None = None  # whether a row ties with the one before it
    for each in (*levels, codes):
        values = each[order]
        equal = values[1:] == values[:-1]
        same = equal if same is None else same & equal
        if not same.any():
            return order
    assert same is not None
    places = np.flatnonzero(np.append(same, False) | np.append(False, same))
    run = np.cumsum(np.append(True, ~same))[places]
    rows = order[places]
    order = order.copy()
    order[places] = rows[np.lexsort((arrival[rows], run))]
    return order
