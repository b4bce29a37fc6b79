"""`agg(x) OVER (PARTITION BY k ORDER BY ts ...)`: a row out per row in, each with values of its frame.

A row leaves once no row can come any more that belongs before it (or among its peers): when the
watermark has passed its time. Without a watermark rows must come in order, and leave at once; only
the last peers wait, if a frame includes them. What stays is bounded by the frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.operator import ARRIVAL, Moment, State
from trimtab.engine.query import OrderKey
from trimtab.engine.windows.aggregates import CHOICES, accumulator
from trimtab.engine.windows.choices import Choice
from trimtab.engine.windows.columns import (
    BoolArray,
    FloatArray,
    Int64Array,
    float64s,
    int64s,
    plain,
    sort_columns,
    stable_order,
)
from trimtab.engine.windows.keys import Keys, encode_keys
from trimtab.engine.windows.layout import Frame, Layout, Unit, bounds, lay_out
from trimtab.engine.windows.running import Frames, Running
from trimtab.engine.windows.running_places import Lag, Number, RunningChoice
from trimtab.engine.windows.running_totals import (
    RunningCount,
    RunningFloatSum,
    RunningVariance,
    RunningWideSum,
)
from trimtab.engine.windows.times import floor_us, is_time, refuse_nulls, ticks, ticks_per_us
from trimtab.engine.windows.totals import Count, FloatSum, Variance, WideSum
from trimtab.errors import InputError

NUMBERS = ("row_number", "rank", "dense_rank")
RUNNING = ("count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", *CHOICES)
FUNCTIONS = (*RUNNING, *NUMBERS, "lag")


@dataclass(frozen=True, slots=True)
class OverCall:
    """A function of columns over a frame, and the name of its output column.

    `lag` has the value and perhaps a default as arguments, and looks `offset` rows back.
    """

    function: str
    args: tuple[str, ...]
    frame: Frame
    name: str
    offset: int = 1

    @property
    def rows_back(self) -> int:
        """How many rows before the current one it needs, by number."""
        if self.function == "lag":
            return self.offset
        counted = self.function not in NUMBERS and self.frame.unit is Unit.ROWS
        return int(self.frame.preceding or 0) if counted else 0

    @property
    def range_back(self) -> int | float | None:
        """How far before the current row it needs rows, by distance."""
        if self.function in (*NUMBERS, "lag") or self.frame.unit is Unit.ROWS:
            return None
        return self.frame.preceding

    @property
    def bounded(self) -> bool:
        """Whether it needs rows of its frame only, and nothing of all before."""
        return self.function == "lag" or (
            self.function not in NUMBERS and self.frame.preceding is not None
        )

    @property
    def peers(self) -> bool:
        """Whether it needs to see all rows that are equal in the order."""
        if self.function in NUMBERS:
            return self.function != "row_number"
        return self.function != "lag" and self.frame.unit is Unit.RANGE

    def running(self, schema: pa.Schema) -> Running:
        """How it is computed for the types of its arguments."""
        types = [_plain_type(schema.field(arg).type) for arg in self.args]
        if self.function in NUMBERS:
            return Number(self.function)
        if self.function == "lag":
            return Lag(types[0], self.offset)
        match accumulator(self.function, types):
            case Count() as inner:
                return RunningCount(inner)
            case WideSum() as inner:
                return RunningWideSum(inner)
            case FloatSum() as inner:
                return RunningFloatSum(inner)
            case Variance() as inner:
                return RunningVariance(inner)
            case Choice() as inner:
                return RunningChoice(inner)
            case _:
                raise InputError("input.type", f"{self.function} can't be used with OVER")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@dataclass(frozen=True)
class OverQuery:
    """Calls over the same partition and order; the output is the `keep` columns and one per call."""

    partition: tuple[str, ...]
    order: tuple[OrderKey, ...]
    calls: tuple[OverCall, ...]
    keep: tuple[str, ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the output, given that of the rows."""
        kept = [pa.field(name, _plain_type(schema.field(name).type)) for name in self.keep]
        return pa.schema(
            kept + [pa.field(call.name, call.running(schema).result) for call in self.calls]
        )

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Take rows in, and give those that are decided with their values."""
        numbers, keys = encode_keys(state.get("keys"), rows, self.partition)
        memory = _Memory.of_state(self, state, rows.schema, keys.count)
        held = memory.waiting_keys
        waiting = pa.table(
            [pa.concat_arrays([plain(memory.waiting[n]), plain(rows[n])]) for n in self._columns],
            names=list(self._columns),
        )
        batch = _Batch.sort(self, waiting, np.concatenate([held, numbers]), memory, moment)
        if moment.watermark_us is None:
            self._refuse_disorder(batch, memory, keys)
        out, memory = self._run(batch, memory, rows.schema, moment)
        if moment.closing:
            return out, {}
        return out, memory.to_state(self, keys, moment)

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        """The columns that a row needs until it leaves."""
        used = [*self.keep, *(arg for call in self.calls for arg in call.args)]
        return tuple(dict.fromkeys([*used, *(key.column for key in self.order), ARRIVAL]))

    @cached_property
    def _retained(self) -> tuple[str, ...]:
        """The columns that a row needs after it has left, as part of the frames of others."""
        used = [arg for c in self.calls if c.bounded for arg in c.args[: None if c.function != "lag" else 1]]
        ordered = [self.order[0].column] if self._range_back is not None else []
        return tuple(dict.fromkeys(used + ordered))

    @cached_property
    def _range_back(self) -> int | float | None:
        """The longest distance that a frame reaches back."""
        return max((c.range_back for c in self.calls if c.range_back is not None), default=None)

    @cached_property
    def _rows_back(self) -> int:
        """The most rows that a frame reaches back."""
        return max((call.rows_back for call in self.calls), default=0)

    @cached_property
    def _forgetful(self) -> bool:
        """Whether a key without rows in reach is the same as a key never seen."""
        return all(call.bounded and call.rows_back == 0 for call in self.calls)

    @cached_property
    def _peers(self) -> bool:
        return any(call.peers for call in self.calls)

    def _scale(self, kind: pa.DataType) -> int:
        return ticks_per_us(kind) if is_time(kind) else 1

    def _positions(self, array: pa.Array) -> Int64Array | FloatArray:
        """The first order column as numbers in which distances make sense."""
        name = self.order[0].column
        if is_time(array.type):
            return ticks(array, name)
        refuse_nulls(array, name)
        if pa.types.is_floating(array.type):
            return float64s(array)
        # Without a distance to measure only the order matters, which `sort_columns` knows.
        return int64s(array) if pa.types.is_integer(array.type) else np.zeros(len(array), np.int64)

    def _refuse_disorder(self, batch: _Batch, memory: _Memory, keys: Keys) -> None:
        """Raise if a row belongs before one that has left already."""
        fresh = np.full(keys.count, -1, np.int64)
        fresh[batch.keys[batch.by_time[::-1]]] = batch.by_time[::-1]
        touched = np.flatnonzero((fresh >= 0) & (memory.seen > 0))
        undecided = np.ones(len(touched), np.bool_)
        before = np.zeros(len(touched), np.bool_)
        for rank, last in zip(batch.ranks, batch.last_ranks, strict=True):
            new, old = rank[fresh[touched]], last[touched]
            before |= undecided & (new < old)
            undecided &= new == old
        if before.any():
            key = touched[np.flatnonzero(before)[0]]
            name = self.order[0].column
            late = batch.rows[name][int(fresh[key])].as_py()
            done = memory.last[0][int(key)].as_py()
            whose = ", ".join(f"{n} = {c[int(key)].as_py()}" for n, c in keys.columns.items())
            raise InputError(
                "input.out-of-order",
                f"a row with {name} = {late} comes in a later batch than one with {done}"
                + (f", for {whose}" if whose else ""),
                f"sort the input by {name}, or declare it as the event time with a delay",
            )

    def _run(
        self, batch: _Batch, memory: _Memory, schema: pa.Schema, moment: Moment
    ) -> tuple[pa.Table, _Memory]:
        """Compute all calls for the rows of a batch."""
        count = len(memory.seen)
        ranks = [rank for rank in batch.ranks]
        layout = lay_out(memory.frame_keys, batch.keys, batch.by_time, ranks, count)
        order_type = _plain_type(schema.field(self.order[0].column).type)
        position = np.zeros(len(layout.order), np.int64)
        if self._range_back is not None:
            kept = self._positions(plain(memory.frame[self.order[0].column]))
            position = np.concatenate([kept, batch.positions])[layout.order]
        source = {
            name: pa.concat_arrays([plain(memory.frame[name]), batch.rows[name]])
            for name in self._retained
        }
        padding = len(memory.frame_keys)
        columns: list[pa.Array] = [
            batch.rows[name].take(pa.array(batch.by_time)) for name in self.keep
        ]
        parts: list[list[pa.Array]] = []
        spans: dict[Frame, tuple[Int64Array, Int64Array]] = {}
        for call, old in zip(self.calls, memory.parts, strict=True):
            if call.frame not in spans:
                spans[call.frame] = bounds(call.frame, layout, position, self._scale(order_type))
            args = tuple(
                source[arg]
                if arg in source
                # Only looked at where the row is a new one.
                else pa.concat_arrays([pa.nulls(padding, batch.rows[arg].type), batch.rows[arg]])
                for arg in call.args
            )
            first, behind = spans[call.frame]
            if not call.bounded:
                first = np.maximum(first, layout.fresh[layout.keys])
            frames = Frames(layout, first, behind, memory.seen, args, call.bounded)
            column, new = call.running(schema).run(frames, old)
            columns.append(column)
            parts.append(new)
        out = pa.table(columns, schema=self.output_schema(schema))
        return out, self._remember(batch, memory, layout, source, parts, position, moment, order_type)

    def _remember(
        self,
        batch: _Batch,
        memory: _Memory,
        layout: Layout,
        source: dict[str, pa.Array],
        parts: list[list[pa.Array]],
        position: Int64Array | FloatArray,
        moment: Moment,
        order_type: pa.DataType,
    ) -> _Memory:
        """What the next batch needs: the rows still in reach, the counts and the last order."""
        stops = layout.starts[1:]
        first = stops - self._rows_back
        if self._range_back is not None:
            scale = self._scale(order_type)
            reach = self._range_back * scale
            here = np.append(position, 0)[np.maximum(stops - 1, 0)]
            floor = here - reach
            if moment.watermark_us is not None:
                # No row before the watermark comes any more, so no frame reaches further back.
                floor = np.maximum(floor, moment.watermark_us * scale - reach)
            # Places are in order, so those in reach are the last ones of their key.
            near = position >= floor[layout.keys]
            counts = np.bincount(layout.keys, weights=near, minlength=len(stops)).astype(np.int64)
            first = np.minimum(first, stops - counts)
        places = np.arange(len(layout.order))
        kept = places[places >= first[layout.keys]] if self._retained else places[:0]
        rows = pa.array(layout.order[kept])
        frame = pa.table([source[n].take(rows) for n in self._retained], names=list(self._retained))
        fresh = stops > layout.fresh
        last = [
            pc.if_else(
                pa.array(fresh),
                batch.rows[key.column].take(
                    pa.array(
                        np.append(layout.order, -1)[stops - 1] - len(memory.frame_keys), mask=~fresh
                    )
                ),
                old,
            )
            for key, old in zip(self.order, memory.last, strict=True)
        ]
        return _Memory(
            seen=memory.seen + stops - layout.fresh,
            last=last,
            parts=parts,
            frame=frame,
            frame_keys=layout.keys[kept],
            waiting=batch.waiting,
            waiting_keys=batch.waiting_keys,
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows that leave now, with their keys and order, and those that wait on."""

    rows: dict[str, pa.Array]
    keys: Int64Array
    by_time: Int64Array
    positions: Int64Array | FloatArray
    ranks: list[Int64Array]
    last_ranks: list[Int64Array]
    waiting: pa.Table
    waiting_keys: Int64Array

    @classmethod
    def sort(
        cls, query: OverQuery, rows: pa.Table, keys: Int64Array, memory: _Memory, moment: Moment
    ) -> _Batch:
        """Sort rows by the order columns and arrival, and decide which may leave."""
        time = plain(rows[query.order[0].column])
        positions = query._positions(time)
        ready = np.ones(len(keys), np.bool_)
        if not moment.closing and moment.watermark_us is not None:
            ready = floor_us(positions.astype(np.int64), time.type) < moment.watermark_us
        ranks: list[Int64Array] = []
        last_ranks: list[Int64Array] = []
        for key, last in zip(query.order, memory.last, strict=True):
            both = pa.concat_arrays([last, plain(rows[key.column])])
            for codes in sort_columns(
                both, descending=key.descending, nulls_first=key.nulls_first
            ):
                last_ranks.append(codes[: len(last)])
                ranks.append(codes[len(last) :])
        by_time = stable_order([*ranks, int64s(plain(rows[ARRIVAL]))], len(keys))
        if not moment.closing and moment.watermark_us is None and query._peers:
            ready = ~_last_peers(keys, by_time, ranks, len(memory.seen))
        if ready.all():
            arrays = {name: plain(rows[name]) for name in rows.column_names}
            waiting = rows.slice(0, 0)
            return cls(arrays, keys, by_time, positions, ranks, last_ranks, waiting, keys[:0])
        leave = pa.array(ready)
        arrays = {name: plain(rows[name]).filter(leave) for name in rows.column_names}
        renumber = np.cumsum(ready) - 1
        by_time = renumber[by_time[ready[by_time]]]
        return cls(
            arrays,
            keys[ready],
            by_time,
            positions[ready],
            [rank[ready] for rank in ranks],
            last_ranks,
            rows.filter(pa.array(~ready)),
            keys[~ready],
        )


def _last_peers(
    keys: Int64Array, by_time: Int64Array, ranks: Sequence[Int64Array], count: int
) -> BoolArray:
    """The rows that are last in the order of their key, with all their equals."""
    last = np.full(count, -1, np.int64)
    last[keys[by_time]] = by_time  # the last one written stays
    peers = np.ones(len(keys), np.bool_)
    for rank in ranks:
        peers &= rank == rank[last[keys]]
    return peers


@dataclass(frozen=True, slots=True)
class _Memory:
    """The state, unpacked: per key the rows seen, the last order and partial results, and rows."""

    seen: Int64Array
    last: list[pa.Array]
    parts: list[list[pa.Array]]
    frame: pa.Table
    frame_keys: Int64Array
    waiting: pa.Table
    waiting_keys: Int64Array

    @classmethod
    def of_state(
        cls, query: OverQuery, state: State, schema: pa.Schema, count: int
    ) -> _Memory:
        """Read the state; keys that are new have seen nothing."""
        keys = state.get("keys")

        def column(name: str, kind: pa.DataType) -> pa.Array:
            known = [] if keys is None else [plain(keys[name])]
            missing = count - sum(map(len, known))
            return pa.concat_arrays([*known, _blank(kind, missing)])

        def table(name: str, columns: Sequence[str]) -> tuple[pa.Table, Int64Array]:
            if name in state:
                return state[name].select(list(columns)), int64s(plain(state[name]["key"]))
            fields = [pa.field(c, _plain_type(schema.field(c).type)) for c in columns]
            return pa.schema(fields).empty_table(), np.empty(0, np.int64)

        parts = [
            [] if c.bounded else [column(f"{c.name}.{f.name}", f.type) for f in c.running(schema).fields]
            for c in query.calls
        ]
        last = [
            column(f"__last{i}", _plain_type(schema.field(key.column).type))
            for i, key in enumerate(query.order)
        ]
        seen = int64s(column("__seen", pa.int64()))
        return cls(seen, last, parts, *table("frame", query._retained), *table("waiting", query._columns))

    def to_state(self, query: OverQuery, keys: Keys, moment: Moment) -> State:
        """Pack the state; keys that nothing depends on are forgotten."""
        used = np.ones(keys.count, np.bool_)
        deadlines = np.full(keys.count, np.iinfo(np.int64).max)
        if moment.watermark_us is not None:
            name = query.order[0].column
            times = plain(self.waiting[name])
            due = floor_us(ticks(times, name), times.type) + 1
            if query._forgetful:
                used[:] = False
                used[self.waiting_keys] = used[self.frame_keys] = True
                past = plain(self.frame[name])
                reach = int(query._range_back or 0)
                gone = floor_us(ticks(past, name), past.type) + reach + 1
                # The last row in reach decides when a key can be forgotten.
                latest = np.full(keys.count, np.iinfo(np.int64).min)
                np.maximum.at(latest, self.frame_keys, gone)
                deadlines = np.where(latest > np.iinfo(np.int64).min, latest, deadlines)
            np.minimum.at(deadlines, self.waiting_keys, due)
        numbers = np.cumsum(used) - 1
        chosen = pa.array(used)
        columns = dict(keys.take(np.flatnonzero(used)).columns)
        never = deadlines == np.iinfo(np.int64).max
        columns["deadline_us"] = pa.array(deadlines, mask=never).filter(chosen)
        columns["__seen"] = pa.array(self.seen[used])
        for i, last in enumerate(self.last):
            columns[f"__last{i}"] = last.filter(chosen)
        for call, parts in zip(query.calls, self.parts, strict=True):
            for part, field in zip(parts, _fields(call, query, parts), strict=True):
                columns[f"{call.name}.{field}"] = part.filter(chosen)
        return {
            "keys": pa.table(columns),
            "frame": self.frame.append_column("key", pa.array(numbers[self.frame_keys])),
            "waiting": self.waiting.append_column("key", pa.array(numbers[self.waiting_keys])),
        }
