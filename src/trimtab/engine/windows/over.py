"""`agg(x) OVER (PARTITION BY k ORDER BY ts ...)`: a row out per row in, with values of its frame.

A row is put out (it leaves) when no row can come any more that belongs before it or among its
peers: when the watermark has passed its time. Without a watermark rows must come in order, and
leave at once; only the last peers wait, if a frame includes them. The state is bounded by the frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array, plain
from trimtab.engine.columns.keys import encode_keys
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.operator import Description, Moment, Obstacle, Operator, State, StateTable
from trimtab.engine.signature import signed
from trimtab.engine.windows.layout import Frame, Layout, bounds, lay_out
from trimtab.engine.windows.over_batch import Batch, refuse_disorder, sort_batch
from trimtab.engine.windows.over_call import OverCall
from trimtab.engine.windows.over_memory import FRAME, SEEN, WAITING, Memory, last_column
from trimtab.engine.windows.over_plan import Plan
from trimtab.engine.windows.running import Frames
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
        return Plan(self.order, self.calls, self.keep, schema).output

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
        plan = Plan(query.order, query.calls, query.keep, rows.schema)
        numbers, keys = encode_keys(state.get(KEYS), rows, query.partition)
        memory = Memory.of_state(plan, state, keys.count)
        batch = sort_batch(plan, rows, numbers, memory, moment)
        if moment.watermark_us is None:
            refuse_disorder(plan, batch, memory, keys)
        layout = lay_out(memory.frame_keys, batch.keys, batch.by_time, batch.ranks, keys.count)
        source = {name: pa.concat_arrays([plain(memory.frame[name]), batch.rows[name]]) for name in plan.retained}
        laid_out = _LaidOut(plan, batch, memory, layout, _by_place(plan, batch, memory, layout), source)
        out, parts = laid_out.compute()
        return out, {} if moment.closing else laid_out.remember(parts, moment).to_state(plan, keys, moment)


def _by_place(plan: Plan, batch: Batch, memory: Memory, layout: Layout) -> Int64Array | FloatArray:
    """The positions in the order by place, where a frame measures distances."""
    if plan.range_back is None:
        return np.zeros(len(layout.order), np.int64)
    kept = plan.positions(plain(memory.frame[plan.time]))
    together: Int64Array | FloatArray = np.concatenate([kept, batch.positions])[layout.order]
    return together


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """A batch laid out: `position` as in `_by_place`, and `source` has columns of kept and new rows."""

    plan: Plan
    batch: Batch
    memory: Memory
    layout: Layout
    position: Int64Array | FloatArray
    source: dict[str, pa.Array]

    def compute(self) -> tuple[pa.Table, list[list[pa.Array]]]:
        """The output, and the partial results to keep."""
        plan, batch, memory, layout, source = self.plan, self.batch, self.memory, self.layout, self.source
        padding = len(memory.frame_keys)
        leaving, here = pa.array(batch.by_time), np.arange(len(layout.order))
        columns = [batch.rows[name].take(leaving) for name in plan.keep]
        parts: list[list[pa.Array]] = []
        spans: dict[Frame, tuple[Int64Array, Int64Array]] = {}
        for call, running, old in zip(plan.calls, plan.running, memory.parts, strict=True):
            if call.frame not in spans:
                spans[call.frame] = bounds(call.frame, layout, self.position, plan.scale)
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
        columns.append(plan.dates(batch.positions[batch.by_time]))
        return pa.table(columns, schema=plan.output), parts

    def remember(self, parts: list[list[pa.Array]], moment: Moment) -> Memory:
        """What the next batch needs: the rows still in reach, the counts and the last order."""
        plan, batch, memory, layout = self.plan, self.batch, self.memory, self.layout
        stops = layout.starts[1:]
        places = _in_reach(plan, layout, self.position, moment)
        rows = pa.array(layout.order[places])
        frame = pa.table([self.source[n].take(rows) for n in plan.retained], names=list(plan.retained))
        fresh = stops > layout.fresh
        final = np.append(layout.order, 0)[stops - 1] - len(memory.frame_keys)
        final_rows, changed = pa.array(final, mask=~fresh), pa.array(fresh)
        last = [
            pc.if_else(changed, batch.rows[key.column].take(final_rows), old)
            for key, old in zip(plan.order, memory.last, strict=True)
        ]
        rows_before = memory.rows_before + stops - layout.fresh
        return Memory(rows_before, last, parts, frame, layout.keys[places], batch.waiting, batch.waiting_keys)


def _in_reach(plan: Plan, layout: Layout, position: Int64Array | FloatArray, moment: Moment) -> Int64Array:
    """The places of rows that may be in the frame of a row to come."""
    places = np.arange(len(layout.order))
    if not plan.rows_back and plan.range_back is None:
        return places[:0]
    stops = layout.starts[1:]
    first = stops - plan.rows_back
    if plan.range_back is not None:
        reach = plan.range_back * plan.scale
        near = _near(position, np.append(position, 0)[stops - 1][layout.keys], reach)
        if moment.watermark_us is not None:
            # No row before the watermark comes any more, so no frame reaches further back.
            near &= position >= moment.watermark_us * plan.scale - reach
        # Places are in order, so those in reach are the last ones of their key.
        counts = np.bincount(layout.keys, weights=near, minlength=len(stops)).astype(np.int64)
        first = np.minimum(first, stops - counts)
    return places[places >= first[layout.keys]]


def _near(position: Int64Array | FloatArray, end: Int64Array | FloatArray, reach: int | float) -> BoolArray:
    """Whether a position is at most `reach` before the end."""
    if position.dtype == np.int64:
        # Unsigned, because the distance of two int64 may not fit into one.
        apart = end.astype(np.uint64) - position.astype(np.uint64)
        return np.asarray(apart <= np.uint64(int(reach)))
    return np.asarray(position >= end - reach)
