"""The rows that a batch works on: kept ones and new ones, key by key and in time order within a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import BoolArray, Int64Array, int64s, repeat_constant, single, take
from trimtab.engine.columns.keys import key_codes
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.times import times_us
from trimtab.engine.match.ir.expression import Const, RowValue, Source
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.ir.state_schema import PENDING, ROWS
from trimtab.engine.match.run.binding import Bound, joined, numbers
from trimtab.engine.match.run.fresh import Fresh, fresh_rows
from trimtab.engine.match.run.queue import joint_levels, kept_levels, place_rows
from trimtab.engine.operator import ARRIVAL, Moment, State
from trimtab.keyed_state import KEY, KEYS, SLOT


@dataclass(frozen=True)
class Rowset:
    """The rows at hand in the kernel's order, and where each key's rows lie in it.

    A *row* is its number among the kept rows and the new ones after them. Keys with new rows come first.
    """

    query: MatchQuery
    old: pa.Table | None  # the rows that were kept in the state, with the columns kept of rows; None: there are none
    new: pa.Table
    fresh: Fresh  # the new rows in order
    memo: Memo
    order: Int64Array  # the row at each position
    lo: Int64Array  # per key: its first row (kept ones included)
    first: Int64Array  # its first row that was not processed
    ready: Int64Array  # after its last row whose place in time order is certain
    hi: Int64Array  # after its last row
    keys: pa.Table  # the partition columns of each key
    old_keys: Int64Array  # the key of each key of the state
    of_keys: frozenset[str]  # columns that are only in `keys`
    kept_by_queries: list[Any] = field(default_factory=list, repr=False)  # see `kept.py`
    _numbers: dict[str, Bound] = field(default_factory=dict, repr=False)

    @property
    def kept(self) -> int:
        """How many rows were kept in the state."""
        return 0 if self.old is None else self.old.num_rows

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.new.schema

    @cached_property
    def place_of_kept(self) -> Int64Array:
        """The position of each row that was kept in the state."""
        place = np.empty(self.kept, np.int64)
        at = np.flatnonzero(self.order < self.kept)
        place[self.order[at]] = at
        return place

    def by_time(self, positions: Int64Array) -> Int64Array:
        """The order that sorts positions by time, over all keys, and by arrival where they tie."""
        rows, found = self.order[positions], None
        if not self.kept and len(rows) > len(self.order) // 16:
            # If no rank occurs twice, which is usual, writing each to its place sorts them.
            rank = self.fresh.rank[rows]
            at = np.full(len(self.order), -1, np.int64)
            at[rank] = np.arange(len(rank))
            at = at[at >= 0]
            found = at if len(at) == len(rank) else None
        levels = self._levels
        if found is None:
            found = np.lexsort([level[rows] for level in reversed(levels)]) if levels else np.arange(len(rows))
        return self._ties_by_arrival(found, rows, levels)

    def _ties_by_arrival(self, found: Int64Array, rows: Int64Array, levels: Sequence[Int64Array]) -> Int64Array:
        in_order, same = rows[found], np.ones(max(len(rows) - 1, 0), np.bool_)
        for level in levels:
            values = level[in_order]
            same &= values[1:] == values[:-1]
        if not same.any():
            return found
        arrival = self.whole(ARRIVAL)[rows]
        return np.lexsort([arrival, *(level[rows] for level in reversed(levels))])

    @cached_property
    def _levels(self) -> Sequence[Int64Array]:
        """The levels of all rows, see `sort_levels`."""
        if self.old is None:
            return self.fresh.levels
        own = kept_levels(self.query.order, self.old, self.new)
        if own is not None:
            return [np.concatenate(both) for both in zip(own, self.fresh.levels, strict=True)]
        return joint_levels(self.query.order, self.old, self.new)

    # Values of rows, a column at a time; a position is that of a row in the kernel's order -----------

    def whole(self, name: str) -> Int64Array:
        """The whole numbers of a column, by row."""
        new = self.memo.once(int64s, [self.new.column(name)])
        return new if self.old is None else np.concatenate([int64s(single(self.old.column(name))), new])

    @cached_property
    def times(self) -> tuple[Int64Array, BoolArray | None]:
        """The event time of each row in microseconds, and where it is null (None: nowhere)."""
        assert self.query.time_column is not None
        times, nulls = self.memo.once(times_us, [self.new.column(self.query.time_column)])
        if self.old is None:
            return times, nulls
        old_times, old_nulls = times_us(self.old.column(self.query.time_column))
        if nulls is not None or old_nulls is not None:
            parts = [(old_nulls, old_times), (nulls, times)]
            nulls = np.concatenate([np.zeros(len(at), np.bool_) if n is None else n for n, at in parts])
        return np.concatenate([old_times, times]), nulls

    @cached_property
    def times_in_order(self) -> Int64Array:
        """The event time at each position, where none is null."""
        return self.times[0][self.order]

    def numbers(self, name: str) -> Bound:
        """A column that is not text, as numbers in the kernel's order."""
        if name not in self._numbers:
            tables = [self.new] if self.old is None else [self.old, self.new]
            whole = joined([self.memo.once(numbers, [table.column(name)]) for table in tables])
            nulls = None if whole.nulls is None else whole.nulls[self.order]
            self._numbers[name] = Bound(whole.values[self.order], nulls)
        return self._numbers[name]

    def taken(self, positions: Int64Array) -> pa.Table:
        """The rows at some positions, none of which is negative, with the columns kept of rows."""
        picked = _Picked.of(self.order[positions], self.kept)
        schema = pa.schema([field for field in self.schema if field.name not in self.of_keys])
        return pa.table([picked.column(*self._parts(name)) for name in schema.names], schema=schema)

    def column(self, name: str, positions: Int64Array) -> pa.Array:
        """A column's values at some positions, null at negative ones."""
        if name in self.of_keys:
            keys = np.searchsorted(self.hi, np.where(positions < 0, 0, positions), side="right")
            return single(self.keys.column(name)).take(pa.array(keys, mask=positions < 0))
        if len(positions) and positions.min() < 0:
            known = np.clip(positions, 0, None)
            rows = np.where(positions < 0, -1, self.order[known]) if len(self.order) else np.full(len(positions), -1)
        else:
            rows = self.order[positions]
        return _Picked.of(rows, self.kept).column(*self._parts(name))

    def _parts(self, name: str) -> tuple[pa.ChunkedArray | None, pa.ChunkedArray]:
        """A column of the kept rows, and of the new ones."""
        return None if self.old is None else self.old.column(name), self.new.column(name)

    def values(self, value: RowValue, positions: Int64Array, labels: Int64Array | None) -> pa.Array:
        """A row value at some positions, whose rows have these labels (-1: outside the match)."""
        if len(value.sources) == 1:
            found = self._source(value.sources[0], positions, value.type)
        else:
            assert labels is not None
            choices = [self._source(s, positions, value.type) for s in value.sources]
            index = np.where(labels < 0, len(choices) - 1, labels)
            flat = index * len(positions) + np.arange(len(positions))
            found = pa.concat_arrays(choices).take(pa.array(flat))
        missing = positions < 0
        if not missing.any():
            return found
        default = repeat_constant(value.default.value, value.type, len(positions))
        return single(pc.if_else(pa.array(missing), default, found))

    def _source(self, source: Source, positions: Int64Array, type_: pa.DataType) -> pa.Array:
        if isinstance(source, Const):
            return repeat_constant(source.value, type_, len(positions))
        found = self.column(source, positions)
        return found if found.type == type_ else found.cast(type_, safe=False)


@dataclass(frozen=True)
class _Picked:
    """Some rows, as rows of the kept table and rows of the new one."""

    old: Int64Array | None  # None: none of them
    new: Int64Array  # negative: no row
    back: Int64Array | None  # where each row is among the old ones and the new ones after them

    @classmethod
    def of(cls, rows: Int64Array, kept: int) -> _Picked:
        """Rows, of which the first `kept` numbers are of the kept table; a negative one is no row."""
        if not kept:
            return cls(None, rows, None)
        is_old = (rows >= 0) & (rows < kept)
        if not is_old.any():
            return cls(None, np.where(rows < 0, -1, rows - kept), None)
        old, new = np.flatnonzero(is_old), np.flatnonzero(~is_old)
        back = np.empty(len(rows), np.int64)
        back[old] = np.arange(len(old))
        back[new] = np.arange(len(old), len(rows))
        return cls(rows[old], np.where(rows[new] < 0, -1, rows[new] - kept), back)

    def column(self, old: pa.ChunkedArray | None, new: pa.ChunkedArray) -> pa.Array:
        """A column at these rows."""
        if self.old is None or old is None:
            return take(new, self.new)
        return pa.concat_arrays([take(old, self.old), take(new, self.new)]).take(pa.array(self.back))


def gather(query: MatchQuery, columns: Sequence[str], rows: pa.Table, state: State, moment: Moment) -> Rowset:
    """The rows at hand: those kept in the state and the new ones, with the columns that are needed."""
    memo, new = moment.memo or Memo(), rows.select(columns)
    if any(column.num_chunks > 1 for column in new.columns):
        new = new.combine_chunks()  # once, and not wherever a column is read
    fresh = fresh_rows(memo, new, query.partition, query.order, ARRIVAL)
    old = state[ROWS] if ROWS in state and state[ROWS].num_rows else None
    of_keys = only_of_keys(query, new.schema)
    keys, old_keys = _keys(query.partition, state.get(KEYS), new, fresh)
    count = keys.num_rows
    sizes, context = np.zeros((2, count), np.int64)
    sizes[: len(fresh.sizes)] = fresh.sizes
    order, key, pending = fresh.order, _NONE, np.zeros(0, np.bool_)
    if old is not None:
        key = old_keys[old.column(KEY).to_numpy()]
        pending = old.column(PENDING).to_numpy(zero_copy_only=False).astype(np.bool_)
        sizes += np.bincount(key, minlength=count)
        context = np.bincount(key[~pending], minlength=count)
        order = place_rows(query.order, old, new, fresh, key, pending, count)
    hi = np.cumsum(sizes)
    lo = hi - sizes
    table = None if old is None else old.select([name for name in columns if name not in of_keys])
    found = Rowset(query, table, new, fresh, memo, order, lo, lo + context, hi, hi, keys, old_keys, of_keys)
    if moment.watermark_us is None or moment.closing:
        return found
    assert query.time_column is not None
    times, _ = memo.once(times_us, [new.column(query.time_column)])
    uncertain = np.bincount(fresh.codes[np.flatnonzero(times >= moment.watermark_us)], minlength=count)
    if old is not None:
        waits = pending & (times_us(old.column(query.time_column))[0] >= moment.watermark_us)
        uncertain += np.bincount(key[waits], minlength=count)
    return replace(found, ready=hi - uncertain)


_NONE = np.zeros(0, np.int64)


def only_of_keys(query: MatchQuery, rows: pa.Schema) -> frozenset[str]:
    """The partition columns that nothing reads of rows, and of which equal values are the same: 0.0 and -0.0 aren't."""
    read = {*query.columns_read(), *(key.column for key in query.order), query.time_column}
    kinds = {name: rows.field(name).type for name in query.partition if name not in read}
    return frozenset(
        name
        for name, kind in kinds.items()
        if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_temporal(kind)
    )


def _keys(partition: Sequence[str], kept: pa.Table | None, new: pa.Table, fresh: Fresh) -> tuple[pa.Table, Int64Array]:
    """The partition columns of each key, those with new rows first; and the keys of the state as such keys."""
    own = new.select(partition).take(pa.array(fresh.first_rows))
    count, old_count = len(fresh.sizes), 0 if kept is None else kept.num_rows
    if kept is None or not old_count:
        return (own if partition else _no_columns(count)), _NONE
    if not partition:
        return _no_columns(1), np.zeros(old_count, np.int64)
    both = pa.concat_tables([kept.select(partition), own], promote_options="default").combine_chunks()
    of_own = _by_slot(partition, both, old_count)
    if of_own is None:
        codes, _ = key_codes(both.columns, old_count + count)
        of_own = codes[old_count:]  # keys of the state are distinct, so their numbers are their rows
    known = of_own < old_count
    old_keys = np.full(old_count, -1)
    old_keys[of_own[known]] = np.flatnonzero(known)
    alone = np.flatnonzero(old_keys < 0)
    old_keys[alone] = count + np.arange(len(alone))
    chosen = np.concatenate([np.where(known, of_own, old_count + np.arange(count)), alone])
    return both.take(pa.array(chosen)), old_keys


def _by_slot(partition: Sequence[str], keys: pa.Table, old_count: int) -> Int64Array | None:
    """For each key after the first `old_count`, the number of the equal one among these, or a larger number.

    None: the slots, which are the first column, don't ascend in both parts, or don't decide alone which keys are equal.
    """
    if partition[0] != SLOT or not old_count or old_count == keys.num_rows:
        return None
    slots = int64s(single(keys.column(SLOT)))
    old, own = slots[:old_count], slots[old_count:]
    if not ((old[1:] > old[:-1]).all() and (own[1:] > own[:-1]).all()):
        return None
    places = np.minimum(np.searchsorted(old, own), old_count - 1)
    known = old[places] == own
    left, right = pa.array(places[known]), pa.array(old_count + np.flatnonzero(known))
    for name in partition[1:]:
        column = single(keys.column(name))
        if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
            return None
        if not pc.all(pc.equal(column.take(left), column.take(right)), skip_nulls=False, min_count=0).as_py():
            return None
    return np.where(known, places, old_count)


def _no_columns(count: int) -> pa.Table:
    return pa.table({"__none": pa.nulls(count)}).select([])


def sums_before(counts: BoolArray | Int64Array) -> Int64Array:
    """The sum of the counts before each one, and of all of them."""
    return np.concatenate(([0], np.cumsum(counts)))


def spans(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """For each start as many numbers from it on as its length, one span after another.

    >>> spans(np.array([0, 5, 7]), np.array([2, 0, 2]))
    array([0, 1, 7, 8])
    """
    numbers: Int64Array = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return numbers
