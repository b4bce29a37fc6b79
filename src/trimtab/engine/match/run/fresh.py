"""The new rows of a batch, key by key and in order: the same for all queries with these keys and this order.

Such queries share all of it through the batch's memo (`engine/columns/memo.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, int64s, single
from trimtab.engine.columns.groups import by_group, first_rows
from trimtab.engine.columns.keys import key_codes
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import OrderKey, Ties, sort_levels, sorted_by, ties_of
from trimtab.keyed_state import SLOT


@dataclass(frozen=True, eq=False)
class Fresh:
    """New rows in order; a *place* is a row's number in `order`."""

    codes: Int64Array  # the key of each row; if keys have slots, they are in order of these
    sizes: Int64Array  # the number of rows of each key
    levels: tuple[Int64Array, ...]  # whole numbers by which the rows are ordered, see `sort_levels`
    sequence: Int64Array  # the rows in that order, over all keys; ties as they came
    order: Int64Array  # the rows key by key, and in that order within a key; ties in order of arrival

    @cached_property
    def ties(self) -> Ties:
        """The places of rows that are equal in key and order."""
        return ties_of(self.order, (*self.levels, self.codes))

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
    """The rows in order.

    Queries that break ties by other columns have their own `arrival`, and still share all of it if no rows tie.
    """
    columns = [rows.column(name) for name in (*partition, *(key.column for key in order))]
    by = tuple((key.descending, key.nulls_first) for key in order)
    has_slot = bool(partition) and partition[0] == SLOT
    found = memo.once(_in_order, columns, len(partition), rows.num_rows, has_slot, by)
    return memo.once(_by_arrival, [rows.column(arrival)], found) if len(found.ties.places) else found


def _in_order(*columns_and_more: Any) -> Fresh:
    """The rows in order; ties as they came."""
    *columns, key_count, row_count, has_slot, by = columns_and_more
    keys, ordered = columns[:key_count], columns[key_count:]
    codes, count = key_codes(keys, row_count)
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
    sizes = np.bincount(codes, minlength=count) if count else np.zeros(0, np.int64)
    return Fresh(codes, sizes, levels, sequence, order)


def _by_arrival(arrival: pa.Array, fresh: Fresh) -> Fresh:
    return replace(fresh, order=fresh.ties.by_arrival(fresh.order, int64s(arrival)))
