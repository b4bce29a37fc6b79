"""The rows that a batch works on: kept ones and new ones, key by key and in time order within a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.binding import Int64Array, times_us
from trimtab.engine.grouping import by_key, in_order, key_codes
from trimtab.engine.operator import Moment, State
from trimtab.engine.query import MatchQuery


@dataclass(frozen=True)
class Rowset:
    """The rows at hand in the kernel's order, and where each key's rows lie in it."""

    table: pa.Table
    order: Int64Array  # row of the table at each position
    sequence: Int64Array  # rows of the table in time order, over all keys
    lo: Int64Array  # per key: its first row (kept ones included)
    first: Int64Array  # its first row that was not processed
    ready: Int64Array  # behind its last row whose place in time order is certain
    hi: Int64Array  # behind its last row
    key_of_row: Int64Array  # the key of each row of the table
    key_rows: tuple[pa.Table, Int64Array]  # rows with the partition columns, and the key of each

    @cached_property
    def codes(self) -> Int64Array:
        """The key of each position."""
        return self.key_of_row[self.order]

    @cached_property
    def rank(self) -> Int64Array:
        """Where each row of the table stands in time order, over all keys."""
        rank = np.empty(len(self.sequence), np.int64)
        rank[self.sequence] = np.arange(len(self.sequence))
        return rank

    @cached_property
    def keys(self) -> pa.Table:
        """The partition columns of each key."""
        return _first_of_each(*self.key_rows, len(self.lo))


def gather(query: MatchQuery, columns: Sequence[str], rows: pa.Table, state: State, moment: Moment) -> Rowset:
    """The rows at hand: those kept in the state and the new ones, with the columns that are needed."""
    keys, old = state.get("keys"), state.get("rows")
    fresh = rows.select(columns)
    new_keys = fresh.select(query.partition)
    old_count = 0 if keys is None else keys.num_rows
    if keys is not None:
        new_keys = pa.concat_tables([keys.select(query.partition), new_keys], promote_options="default")
    codes, count = key_codes([new_keys.column(c) for c in query.partition], old_count + fresh.num_rows)
    if not query.partition:
        count = 1 if old_count + fresh.num_rows else 0
    if old is not None:
        table = pa.concat_tables([old.select(columns), fresh])
        key = np.concatenate([old.column("key").to_numpy(), codes[old_count:]])
        pending = old.column("pending").to_numpy(zero_copy_only=False).astype(np.bool_)
        waiting = np.concatenate([np.flatnonzero(pending), np.arange(old.num_rows, table.num_rows)])
        context = np.flatnonzero(~pending)
    else:
        table, key = fresh, codes
        waiting, context = np.arange(table.num_rows), np.zeros(0, np.int64)
    # Rows processed before come first and stand in order; what waits is put in order behind them.
    unsorted = table if old is None else table.take(pa.array(waiting))
    order = in_order([unsorted.column(k.column) for k in query.order], query.order)
    if order is not None:
        waiting = waiting[order]
    sequence = np.concatenate([context, waiting]) if len(context) else waiting
    grouped = by_key(key[sequence], count) if count > 1 else None
    positions = sequence if grouped is None else sequence[grouped]
    sizes = np.bincount(key, minlength=count) if count else np.zeros(0, np.int64)
    hi = np.cumsum(sizes)
    lo = hi - sizes
    first = lo + (np.bincount(key[context], minlength=count) if len(context) else 0)
    ready = hi
    if moment.watermark_us is not None and not moment.closing:
        assert query.time_column is not None
        times, _ = times_us(table.column(query.time_column))
        certain = np.ones(table.num_rows, np.bool_)
        certain[waiting] = times[waiting] < moment.watermark_us
        ready = lo + (np.bincount(key[certain], minlength=count) if count else 0)
    return Rowset(table, positions, sequence, lo, first, ready, hi, key, (new_keys, codes))


def _first_of_each(table: pa.Table, codes: Int64Array, count: int) -> pa.Table:
    """The row where each key appears first."""
    if not table.column_names:
        return pa.table({"__none": pa.nulls(count)}).select([])
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return table.take(pa.array(first))
