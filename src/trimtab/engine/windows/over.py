"""`agg(x) OVER (PARTITION BY k ORDER BY ts ...)`: a row out per row in, with values of its frame.

A row is put out (it leaves) when no row can come any more that belongs before it or among its
peers: when the watermark has passed its time. Without a watermark rows must come in order, and
leave at once; only the last peers wait, if a frame includes them. The state is bounded by the frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array, int64s, plain
from trimtab.engine.columns.joint_order import joint_order
from trimtab.engine.columns.keys import Keys, encode_keys
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import OrderKey, arrival_order, sort_levels
from trimtab.engine.columns.times import floor_us
from trimtab.engine.operator import ARRIVAL, Description, Moment, Obstacle, Operator, State, StateTable, is_internal
from trimtab.engine.signature import signed
from trimtab.engine.windows.layout import Frame, Layout, bounds, further_back, lay_out
from trimtab.engine.windows.over_call import OverCall, OverColumns
from trimtab.engine.windows.over_memory import FRAME, SEEN, WAITING, Memory, last_column
from trimtab.engine.windows.running import Frames
from trimtab.errors import InputError
from trimtab.keyed_state import DEADLINE, KEY, KEYS


@signed("over/1")
@dataclass(frozen=True, slots=True)
class OverQuery(Description):
    """Calls over the same partition and order; the output is the `keep` columns, one per call, and `TIME_US`.

    Rows leave by the order columns and then arrival. The first order column is the event time, if
    there is a watermark; it ascends and is never null.
    """

    partition: tuple[str, ...]
    order: tuple[OrderKey, ...]
    calls: tuple[OverCall, ...]
    keep: tuple[str, ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the output, given that of the rows."""
        return OverColumns(self.order, self.calls, self.keep, schema).output

    @property
    def state_tables(self) -> tuple[StateTable, ...]:
        """Per key: totals so far, rows in reach of frames, and rows that have not left."""
        last = tuple(last_column(place) for place in range(len(self.order)))
        return StateTable(KEYS, (DEADLINE, SEEN, *last)), StateTable(FRAME, (KEY,)), StateTable(WAITING, (KEY,))

    def split_obstacle(self) -> Obstacle:
        """Frames reach over all rows of a key."""
        hint = "leave out split, or aggregate by GROUP BY with window(...)"
        return Obstacle("with OVER the result of a row needs the rows before it in one place", hint)

    def _operator(self) -> Operator:
        return Slider(self)


@dataclass(frozen=True)
class Slider(Operator):
    """Runs an `OverQuery`."""

    query: OverQuery

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Take rows in, and give those that are decided with their values."""
        query = self.query
        over = OverColumns(query.order, query.calls, query.keep, rows.schema)
        numbers, keys = encode_keys(state.get(KEYS), rows, query.partition, moment.memo)
        memory = Memory.of_state(over, state, keys.count)
        batch = _sort(over, rows, numbers, memory, moment)
        if moment.watermark_us is None:
            _refuse_disorder(over, batch, memory, keys)
        layout = lay_out(memory.frame_keys, batch.keys, batch.by_time, batch.ranks, keys.count)
        source = {name: pa.concat_arrays([plain(memory.frame[name]), batch.rows[name]]) for name in over.retained}
        position: Int64Array | FloatArray = np.zeros(len(layout.order), np.int64)
        if over.range_back is not None:
            position = np.concatenate([over.positions(plain(memory.frame[over.time])), batch.positions])[layout.order]
        laid_out = _LaidOut(over, batch, memory, layout, position, source)
        out, parts = laid_out.compute()
        return out, {} if moment.closing else laid_out.remember(parts, moment).to_state(over, keys, moment)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows that leave now, and those that keep waiting.

    `by_time` sorts them by the order columns and arrival. `ranks` are the order columns as numbers,
    `last_ranks` the same for the last row of every key that has left before, if there is no watermark.
    """

    rows: dict[str, pa.Array]
    keys: Int64Array
    by_time: Int64Array
    positions: Int64Array | FloatArray
    ranks: list[Int64Array]
    last_ranks: list[Int64Array]
    waiting: pa.Table
    waiting_keys: Int64Array


def _sort(over: OverColumns, rows: pa.Table, numbers: Int64Array, memory: Memory, moment: Moment) -> _Batch:
    """Sort the rows that have waited and the new `rows`, with their key `numbers`."""
    arrays = {n: pa.concat_arrays([plain(memory.waiting[n]), plain(rows[n])]) for n in over.columns}
    keys = np.concatenate([memory.waiting_keys, numbers])
    positions = over.positions(arrays[over.time])
    ready, last_ranks = np.ones(len(keys), np.bool_), list[Int64Array]()
    if moment.watermark_us is None:
        ranks, last_ranks, by_time = _sort_all(over, arrays, memory)
        if over.peers and not moment.closing:
            ready = ~_last_peers(keys, by_time, ranks, len(memory.rows_before))
            by_time = by_time[ready[by_time]]
    else:
        if not moment.closing:
            times = floor_us(positions.astype(np.int64, copy=False), over.type_of(over.time))
            ready = times < moment.watermark_us
        by_time, ranks = joint_order(moment.memo or Memo(), memory.waiting, rows, over.order, ARRIVAL, ready)
    table = pa.table(arrays)
    if ready.all():
        return _Batch(arrays, keys, by_time, positions, ranks, last_ranks, table.slice(0, 0), keys[:0])
    renumbered = np.cumsum(ready) - 1
    return _Batch(
        rows={name: array.filter(pa.array(ready)) for name, array in arrays.items()},
        keys=keys[ready],
        by_time=renumbered[by_time],
        positions=positions[ready],
        ranks=[rank[ready] for rank in ranks],
        last_ranks=last_ranks,
        waiting=table.filter(pa.array(~ready)),
        waiting_keys=keys[~ready],
    )


def _sort_all(
    over: OverColumns, arrays: dict[str, pa.Array], memory: Memory
) -> tuple[list[Int64Array], list[Int64Array], Int64Array]:
    """The ranks of all rows, those of the last rows that have left, which these can be compared with, and the order."""
    ordered = [pa.concat_arrays([last, arrays[k.column]]) for k, last in zip(over.order, memory.last, strict=True)]
    levels, known = sort_levels(ordered, over.order), len(memory.rows_before)
    last_ranks, ranks = [level[:known] for level in levels], [level[known:] for level in levels]
    return ranks, last_ranks, arrival_order(ranks, int64s(arrays[ARRIVAL]))


def _last_peers(keys: Int64Array, by_time: Int64Array, ranks: Sequence[Int64Array], count: int) -> BoolArray:
    """The rows that are last in the order of their key, with all their equals."""
    last = np.full(count, -1, np.int64)
    last[keys[by_time]] = by_time  # of several writes to a key the last one wins
    peers = np.ones(len(keys), np.bool_)
    for rank in ranks:
        peers &= rank == rank[last[keys]]
    return peers


def _refuse_disorder(over: OverColumns, batch: _Batch, memory: Memory, keys: Keys) -> None:
    """Raise `input.out-of-order` if a row belongs before one that has left already."""
    first = np.full(keys.count, -1, np.int64)
    backwards = batch.by_time[::-1]
    first[batch.keys[backwards]] = backwards
    touched = np.flatnonzero((first >= 0) & (memory.rows_before > 0))
    undecided, before = np.ones(len(touched), np.bool_), np.zeros(len(touched), np.bool_)
    for rank, last in zip(batch.ranks, batch.last_ranks, strict=True):
        new, old = rank[first[touched]], last[touched]
        before |= undecided & (new < old)
        undecided &= new == old
    if before.any():
        key = int(touched[np.flatnonzero(before)[0]])
        late = batch.rows[over.time][int(first[key])].as_py()
        whose = "".join(f", for {n} = {c[key].as_py()}" for n, c in keys.columns.items() if not is_internal(n))
        left = memory.last[0][key].as_py()
        message = f"a row with {over.time} = {late} comes in a later batch than one with {left}{whose}"
        hint = f"sort the input by {over.time}, or declare it as the event time with a delay"
        raise InputError("input.out-of-order", message, hint)


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """A batch laid out. `position`: by place, for frames that measure distances. `source`: columns of all its rows."""

    over: OverColumns
    batch: _Batch
    memory: Memory
    layout: Layout
    position: Int64Array | FloatArray
    source: dict[str, pa.Array]

    def compute(self) -> tuple[pa.Table, list[list[pa.Array]]]:
        """The output, and the partial results to keep."""
        over, batch, memory, layout, source = self.over, self.batch, self.memory, self.layout, self.source
        padding = len(memory.frame_keys)
        leaving, here = pa.array(batch.by_time), np.arange(len(layout.order))
        columns = [batch.rows[name].take(leaving) for name in over.keep]
        parts: list[list[pa.Array]] = []
        spans: dict[Frame, tuple[Int64Array, Int64Array]] = {}
        for call, running, old in zip(over.calls, over.running, memory.parts, strict=True):
            if call.frame not in spans:
                spans[call.frame] = bounds(call.frame, layout, self.position, over.scale)
            first, ends = spans[call.frame]
            if not call.bounded:  # the rows kept for other calls are in the partial results already
                first = np.minimum(np.maximum(first, layout.fresh[layout.keys]), here)
            for arg in call.args:
                if arg not in source:  # this call reads only new rows, so the kept ones may be blank
                    blank = pa.nulls(padding, batch.rows[arg].type)
                    source[arg] = pa.concat_arrays([blank, batch.rows[arg]])
            args = tuple(source[arg] for arg in call.args)
            frames = Frames(layout, first, ends, memory.rows_before, args, call.bounded)
            column, new = running.run(frames, old)
            columns.append(column)
            parts.append(new)
        columns.append(over.dates(batch.positions[batch.by_time]))
        return pa.table(columns, schema=over.output), parts

    def remember(self, parts: list[list[pa.Array]], moment: Moment) -> Memory:
        """What the next batch needs: the rows still in reach, the counts and the last order."""
        over, batch, memory, layout = self.over, self.batch, self.memory, self.layout
        stops = layout.starts[1:]
        places = _in_reach(over, layout, self.position, moment)
        rows = pa.array(layout.order[places])
        frame = pa.table([self.source[n].take(rows) for n in over.retained], names=list(over.retained))
        fresh = stops > layout.fresh
        final = np.append(layout.order, 0)[stops - 1] - len(memory.frame_keys)
        final_rows, changed = pa.array(final, mask=~fresh), pa.array(fresh)
        last = [
            pc.if_else(changed, batch.rows[key.column].take(final_rows), old)
            for key, old in zip(over.order, memory.last, strict=True)
        ]
        rows_before = memory.rows_before + stops - layout.fresh
        return Memory(rows_before, last, parts, frame, layout.keys[places], batch.waiting, batch.waiting_keys)


def _in_reach(over: OverColumns, layout: Layout, position: Int64Array | FloatArray, moment: Moment) -> Int64Array:
    """The places of rows that may be in the frame of a row to come."""
    places = np.arange(len(layout.order))
    if not over.rows_back and over.range_back is None:
        return places[:0]
    stops = layout.starts[1:]
    first = stops - over.rows_back
    if over.range_back is not None:
        reach = over.range_back * over.scale
        near = position >= further_back(np.append(position, 0)[stops - 1][layout.keys], reach)
        if moment.watermark_us is not None:
            # No row before the watermark comes any more, so no frame reaches further back.
            near &= position >= moment.watermark_us * over.scale - reach
        # Places are in order, so those in reach are the last ones of their key.
        counts = np.bincount(layout.keys, weights=near, minlength=len(stops)).astype(np.int64)
        first = np.minimum(first, stops - counts)
    return places[places >= first[layout.keys]]
