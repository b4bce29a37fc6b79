"""The rows that a batch works on: kept ones and new ones, key by key and in time order within a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import BoolArray, Int64Array, repeat_constant, single, take
from trimtab.engine.columns.groups import by_group, first_rows
from trimtab.engine.columns.keys import key_codes
from trimtab.engine.columns.order import sort_levels, sorted_by
from trimtab.engine.columns.times import times_us
from trimtab.engine.match.ir.expression import Const, RowValue, Source
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.ir.state_schema import PENDING, ROWS
from trimtab.engine.operator import ARRIVAL, Moment, State
from trimtab.keyed_state import KEY, KEYS


@dataclass(frozen=True)
class Rowset:
    """The rows at hand in the kernel's order, and where each key's rows lie in it."""

    table: pa.Table
    order: Int64Array  # the row of the table at each position
    sequence: Int64Array  # rows of the table in time order, over all keys
    lo: Int64Array  # per key: its first row (kept ones included)
    first: Int64Array  # its first row that was not processed
    ready: Int64Array  # after its last row whose place in time order is certain
    hi: Int64Array  # after its last row
    key_rows: tuple[pa.Table, Int64Array]  # rows with the partition columns, and the key of each
    kept: int  # the first rows of the table, this many, were kept in the state

    @cached_property
    def place_of_kept(self) -> Int64Array:
        """The position of each row that was kept in the state."""
        place = np.empty(self.kept, np.int64)
        at = np.flatnonzero(self.order < self.kept)
        place[self.order[at]] = at
        return place

    @cached_property
    def rank(self) -> Int64Array:
        """The place of each row of the table in time order, over all keys."""
        rank = np.empty(len(self.sequence), np.int64)
        rank[self.sequence] = np.arange(len(self.sequence))
        return rank

    def by_time(self, positions: Int64Array) -> Int64Array:
        """The order that sorts positions by time, over all keys; the sort is stable."""
        rank = self.rank[self.order[positions]]
        if len(rank) > len(self.sequence) // 16:
            # If no rank occurs twice, which is usual, writing each to its place sorts them.
            found = np.full(len(self.sequence), -1, np.int64)
            found[rank] = np.arange(len(rank))
            found = found[found >= 0]
            if len(found) == len(rank):
                return found
        return np.argsort(rank, kind="stable")

    @cached_property
    def keys(self) -> pa.Table:
        """The partition columns of each key."""
        table, codes = self.key_rows
        if not table.column_names:
            return pa.table({"__none": pa.nulls(len(self.lo))}).select([])
        return table.take(pa.array(first_rows(codes, len(self.lo))))

    # Values of rows, a column at a time; a position is that of a row in the kernel's order -----------

    def _rows(self, positions: Int64Array) -> Int64Array:
        """Positions as rows of the table; negative stays negative."""
        if len(positions) and positions.min() >= 0:
            return self.order[positions]
        if not len(self.order):
            return np.full(len(positions), -1)
        return np.where(positions < 0, -1, self.order[np.clip(positions, 0, None)])

    def column(self, name: str, positions: Int64Array) -> pa.Array:
        """A column's values at some positions, null at negative ones."""
        return take(self.table.column(name), self._rows(positions))

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


def gather(query: MatchQuery, columns: Sequence[str], rows: pa.Table, state: State, moment: Moment) -> Rowset:
    """The rows at hand: those kept in the state and the new ones, with the columns that are needed."""
    keys, old = state.get(KEYS), state.get(ROWS)
    table = rows.select(columns)
    new_keys = table.select(query.partition)
    old_count = 0 if keys is None else keys.num_rows
    if keys is not None and old_count:
        new_keys = pa.concat_tables([keys.select(query.partition), new_keys], promote_options="default")
    codes, count = key_codes([new_keys.column(c) for c in query.partition], old_count + table.num_rows)
    context = np.zeros(0, np.int64)
    key, waiting = codes[old_count:], np.arange(table.num_rows)
    if old is not None and old.num_rows:
        table = pa.concat_tables([old.select(columns), table])
        key = np.concatenate([old.column(KEY).to_numpy(), key])
        pending = old.column(PENDING).to_numpy(zero_copy_only=False).astype(np.bool_)
        waiting = np.concatenate([np.flatnonzero(pending), np.arange(old.num_rows, table.num_rows)])
        context = np.flatnonzero(~pending)
    table = table.combine_chunks()  # once, and not wherever a column is read
    # Rows processed before come first and are in order; waiting rows are put in order after them.
    levels = sort_levels([table.column(k.column) for k in query.order], query.order)
    own_levels = [level[waiting] for level in levels] if len(context) else levels
    order = sorted_by(own_levels)
    if order is not None:
        waiting = waiting[order]
    sequence = np.concatenate([context, waiting]) if len(context) else waiting
    grouped = by_group(key[sequence], count) if count > 1 else None
    positions = sequence if grouped is None else sequence[grouped]
    sizes = np.bincount(key, minlength=count) if count else np.zeros(0, np.int64)
    hi = np.cumsum(sizes)
    lo = hi - sizes
    first = lo + (np.bincount(key[context], minlength=count) if len(context) else 0)
    arrival = table.column(ARRIVAL).to_numpy()
    if _ties_descend(own_levels, order, arrival[waiting] if len(context) or order is not None else arrival):
        positions, sequence = _ties_by_arrival(levels, arrival, first, hi, positions, sequence)
    ready = hi
    if moment.watermark_us is not None and not moment.closing:
        assert query.time_column is not None
        times, _ = times_us(table.column(query.time_column))
        uncertain = times >= moment.watermark_us
        uncertain[context] = False
        ready = hi - (np.bincount(key[uncertain], minlength=count) if count else 0)
    return Rowset(table, positions, sequence, lo, first, ready, hi, (new_keys, codes), table.num_rows - rows.num_rows)


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


def _ties_descend(levels: Sequence[Int64Array], order: Int64Array | None, arrival: Int64Array) -> bool:
    """Whether two neighbours in the order, of any keys, are equal but arrived in the opposite order.

    `arrival` is in that order. Mostly there are none, so the cheapest test comes first.
    """
    descends = arrival[1:] < arrival[:-1]
    for level in levels:
        if not descends.any():
            return False
        values = level if order is None else level[order]
        descends &= values[1:] == values[:-1]
    return bool(descends.any())


def _ties_by_arrival(
    levels: Sequence[Int64Array], arrival: Int64Array, first: Int64Array, hi: Int64Array,
    positions: Int64Array, sequence: Int64Array,
) -> tuple[Int64Array, Int64Array]:  # fmt: skip
    """`positions` and `sequence` with equal rows of a key in order of arrival; other rows keep their places.

    Of each key only the rows from `first` to `hi` are reordered: the others were processed.
    """
    values = levels[0][positions] if levels else np.zeros(len(positions), np.int64)
    equal = values[1:] == values[:-1]
    equal[hi[(hi > 0) & (hi < len(positions))] - 1] = False  # the last row of a key and the first one of the next
    same = np.flatnonzero(equal)
    same = same[same >= first[np.searchsorted(hi, same, side="right")]]
    for level in levels[1:]:
        same = same[level[positions[same]] == level[positions[same + 1]]]
    if not bool(np.any(arrival[positions[same]] > arrival[positions[same + 1]])):
        return positions, sequence
    tied = np.union1d(same, same + 1)
    group = np.cumsum(~np.isin(tied, same + 1, assume_unique=True))  # a new one where a row doesn't equal the last one
    before = positions[tied]
    after = before[np.lexsort((arrival[before], group))]
    # Rows only change places with equal ones, in both orders.
    moved = np.zeros(len(positions), np.bool_)
    moved[before] = True
    places = np.flatnonzero(moved[sequence])
    places = places[np.argsort(sequence[places])][np.argsort(np.argsort(before))]
    positions, sequence = positions.copy(), sequence.copy()
    positions[tied] = after
    sequence[places] = after
    return positions, sequence
