"""GROUP BY a window: one row per key and window, once the watermark has passed its end.

Rows are added to the partial results as they come, so the state is bounded by the windows that are
open, not by their rows. Partial results can be added up in any order (see `accumulator.py`), so rows
within the delay may come in any order and batches may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, int64s, plain, plain_type
from trimtab.engine.columns.keys import Keys, distinct_numbers, encode_keys, joint_codes
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import sorted_by, stable_order
from trimtab.engine.columns.times import floor_us, tick_type, ticks, ticks_per_us
from trimtab.engine.made_up import made_up
from trimtab.engine.operator import ARRIVAL, TIME_US, Description, Moment, Obstacle, Operator, State, StateTable
from trimtab.engine.signature import signed
from trimtab.engine.windows.accumulator import Accumulator, Inputs, Slots
from trimtab.engine.windows.aggregates import APPROXIMATE_ORDER, accumulator
from trimtab.engine.windows.assign import ClockWindow, SessionWindow, join_spans
from trimtab.keyed_state import DEADLINE, KEY, KEYS

WINDOWS = "windows"
START, LAST = "start", "last"


@signed("group-call")
@dataclass(frozen=True, slots=True)
class GroupCall:
    """An aggregate: a function of columns, and the name of its output column."""

    function: str
    args: tuple[str, ...]
    name: str
    parameters: tuple[float, ...] = ()


@signed("group/1")
@dataclass(frozen=True, slots=True)
class GroupQuery(Description):
    """`SELECT keys, window, calls GROUP BY keys, window`.

    The output has the `partition` columns, the columns `start_name` and `end_name`, one per call,
    and `TIME_US`. Times are put out in microseconds (in nanoseconds, if the column has them).
    """

    partition: tuple[str, ...]
    time_column: str
    window: ClockWindow | SessionWindow
    calls: tuple[GroupCall, ...]
    start_name: str = "window_start"
    end_name: str = "window_end"

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the output, given that of the rows."""
        time = tick_type(schema.field(self.time_column).type)
        fields = [pa.field(n, plain_type(schema.field(n).type)) for n in self.partition]
        fields += [pa.field(self.start_name, time), pa.field(self.end_name, time)]
        fields += [pa.field(call.name, a.result) for call, a in self.accumulators(schema)]
        return pa.schema([*fields, pa.field(TIME_US, pa.int64())])

    order = ()  # partial results can be added up in any order

    @property
    def state_tables(self) -> tuple[StateTable, ...]:
        """Open windows, each with the partial results of every call."""
        return StateTable(KEYS, (DEADLINE,)), StateTable(WINDOWS, (KEY, START, LAST))

    def split_obstacle(self) -> Obstacle | None:
        """Only sketches are an obstacle: which values they keep depends on the order of the values."""
        if not any(call.function in APPROXIMATE_ORDER for call in self.calls):
            return None
        hint = "leave out split, or move it to a query of its own that isn't split"
        return Obstacle("percentile_approx of parts, merged, may be another value than that of the whole", hint)

    def _operator(self) -> Operator:
        return Grouper(self)

    def accumulators(self, schema: pa.Schema) -> list[tuple[GroupCall, Accumulator]]:
        """How each call is computed, given the schema of the rows."""
        types = {field.name: plain_type(field.type) for field in schema}
        return [(c, accumulator(c.function, [types[arg] for arg in c.args], c.parameters)) for c in self.calls]

    def scale(self, schema: pa.Schema) -> int:
        """How many ticks of the time column are a microsecond."""
        return ticks_per_us(plain_type(schema.field(self.time_column).type))


@dataclass(frozen=True)
class Grouper(Operator):
    """Runs a `GroupQuery`."""

    query: GroupQuery

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Add rows to their windows, and put out the windows that are complete."""
        memo = moment.memo or Memo()
        rows = _by_arrival(rows, memo)  # sketches take rows in that order
        numbers, keys = encode_keys(state.get(KEYS), rows, self.query.partition, memo)
        before = _Open.of_state(state.get(WINDOWS), self.query.accumulators(rows.schema))
        now = self._with_rows(before, rows, numbers)
        ends, scale = self._ends(now, rows.schema), self.query.scale(rows.schema)
        due = np.full(len(ends), moment.closing)
        if moment.watermark_us is not None:
            due |= ends + self._held_us * scale <= moment.watermark_us * scale
        order = np.flatnonzero(due)
        order = order[stable_order([ends[order]], len(order))]
        out = self._emit(now.take(order), ends[order], keys, rows.schema)
        return out, self._keep(now.take(np.flatnonzero(~due)), ends[~due], keys, rows.schema)

    def merge(self, states: Sequence[State], schema: pa.Schema) -> State:
        """Merge windows of the same key and time."""
        states = [state for state in states if state]
        if len(states) < 2:
            return states[0] if states else {}
        numbers, keys = encode_keys(None, pa.concat_tables([state[KEYS] for state in states]), self.query.partition)
        windows = pa.concat_tables([state[WINDOWS] for state in states])
        before = _Open.of_state(windows, self.query.accumulators(schema))
        # A state's keys come after those of the states before it.
        first = np.cumsum([0, *(state[KEYS].num_rows for state in states[:-1])])
        first = np.repeat(first, [state[WINDOWS].num_rows for state in states])
        before = replace(before, keys=numbers[before.keys + first])
        now = self._with_rows(before, schema.empty_table(), np.empty(0, np.int64))
        return self._keep(now, self._ends(now, schema), keys, schema)

    def warm(self, schema: pa.Schema) -> bool:
        """Warms merging as well: a job may begin to split its hot keys at any time."""
        state = self.partial(made_up(schema))
        self.merge([state, state], schema)
        return super().warm(schema)

    @property
    def _held_us(self) -> int:
        """How long a window stays open after its end: a row exactly at a session's end still joins it."""
        return 1 if isinstance(self.query.window, SessionWindow) else 0

    def _ends(self, now: _Open, schema: pa.Schema) -> Int64Array:
        window, scale = self.query.window, self.query.scale(schema)
        if isinstance(window, ClockWindow):
            return now.starts + window.size_us * scale
        return now.lasts + window.gap_us * scale

    def _with_rows(self, before: _Open, rows: pa.Table, keys: Int64Array) -> _Open:
        """The windows with rows added to them; `keys` are the key numbers of the rows."""
        times = ticks(plain(rows[self.query.time_column]), self.query.time_column)
        arrivals = int64s(plain(rows[ARRIVAL]))
        row, now, slots, row_slots = self._place(before, keys, times, self.query.scale(rows.schema))
        is_each_once = len(row) == rows.num_rows and bool((row[1:] > row[:-1]).all())
        if not is_each_once:
            rows, times, arrivals = rows.take(pa.array(row)), times[row], arrivals[row]
        parts = [
            a.gather(old, slots, Inputs(tuple(plain(rows[arg]) for arg in call.args), times, arrivals), row_slots)
            for (call, a), old in zip(self.query.accumulators(rows.schema), before.parts, strict=True)
        ]
        return replace(now, parts=parts)

    def _place(
        self, before: _Open, keys: Int64Array, times: Int64Array, scale: int
    ) -> tuple[Int64Array, _Open, Slots, Slots]:
        """Put rows into windows.

        Returns the row of each (row, window) pair, the windows there are now without their partial
        results, and the slots of the windows before and of those pairs.
        """
        known = len(before.keys)
        if isinstance(self.query.window, ClockWindow):
            row, starts = self.query.window.starts(times, scale)
            all_keys = np.concatenate([before.keys, keys[row]])
            all_starts = np.concatenate([before.starts, starts])
            all_lasts = all_starts
            # Starts are whole numbers of slides apart, so they are counted in slides: small numbers.
            least = all_starts.min(initial=np.iinfo(np.int64).max)
            codes, span = distinct_numbers((all_starts - least) // (self.query.window.slide_us * scale))
            ids, count = joint_codes([(all_keys, 0), (codes, span)])
        else:
            row = np.arange(len(times))
            all_keys = np.concatenate([before.keys, keys])
            all_starts = np.concatenate([before.starts, times])
            all_lasts = np.concatenate([before.lasts, times])
            order = stable_order([all_keys, all_starts], len(all_keys))
            ids, count = join_spans(order, all_keys, all_starts, all_lasts, self.query.window.gap_us * scale)
        owners = np.zeros(count, np.int64)
        owners[ids] = all_keys
        first = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(first, ids, all_starts)
        last = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(last, ids, all_lasts)
        return row, _Open(owners, first, last, []), Slots(ids[:known], count), Slots(ids[known:], count)

    def _emit(self, done: _Open, ends: Int64Array, keys: Keys, schema: pa.Schema) -> pa.Table:
        """The output rows of complete windows."""
        target = self.query.output_schema(schema)
        time = target.field(self.query.start_name).type
        columns = [*keys.take(done.keys).columns.values()]
        columns += [pa.array(done.starts).cast(time), pa.array(ends).cast(time)]
        columns += [a.finish(parts) for (_, a), parts in zip(self.query.accumulators(schema), done.parts, strict=True)]
        columns.append(pa.array(floor_us(ends, time)))
        fields = zip(columns, target, strict=True)
        return pa.table([column.cast(field.type) for column, field in fields], schema=target)

    def _keep(self, rest: _Open, ends: Int64Array, keys: Keys, schema: pa.Schema) -> State:
        """The state of the windows that stay open; keys without one are forgotten."""
        used, numbers = np.unique(rest.keys, return_inverse=True)
        deadlines = np.full(len(used), np.iinfo(np.int64).max)
        np.minimum.at(deadlines, numbers, -(-ends // self.query.scale(schema)) + self._held_us)
        windows = {KEY: pa.array(numbers), START: pa.array(rest.starts), LAST: pa.array(rest.lasts)}
        for (call, a), parts in zip(self.query.accumulators(schema), rest.parts, strict=True):
            for field, part in zip(a.fields, parts, strict=True):
                windows[f"{call.name}.{field.name}"] = part
        kept = keys.take(used).columns | {DEADLINE: pa.array(deadlines)}
        return {KEYS: pa.table(kept), WINDOWS: pa.table(windows)}


def _by_arrival(rows: pa.Table, memo: Memo) -> pa.Table:
    """The rows in order of arrival; queries over the same rows share the order, and the columns in it."""
    order = memo.once(_arrival_order, [rows[ARRIVAL]])
    if order is None:
        return rows
    return pa.table([memo.once(_taken, [column, order]) for column in rows.columns], names=rows.column_names)


def _arrival_order(arrival: pa.Array) -> pa.Array | None:
    order = sorted_by([int64s(arrival)])
    return None if order is None else pa.array(order)


def _taken(column: pa.Array, order: pa.Array) -> pa.Array:
    return column.take(order)


@dataclass(frozen=True, slots=True)
class _Open:
    """Windows under way: key number, start, last row, and the columns of every call's results."""

    keys: Int64Array
    starts: Int64Array
    lasts: Int64Array
    parts: list[list[pa.Array]]

    @classmethod
    def of_state(cls, table: pa.Table | None, accumulators: list[tuple[GroupCall, Accumulator]]) -> _Open:
        """Read them from the state."""
        if table is None:
            nothing = np.empty(0, np.int64)
            return cls(nothing, nothing, nothing, [[pa.array([], f.type) for f in a.fields] for _, a in accumulators])
        parts = [[plain(table[f"{call.name}.{field.name}"]) for field in a.fields] for call, a in accumulators]
        keys, starts, lasts = (int64s(plain(table[name])) for name in (KEY, START, LAST))
        return cls(keys, starts, lasts, parts)

    def take(self, places: Int64Array) -> _Open:
        """The windows at these places."""
        if len(places) == len(self.keys) and bool((places[1:] > places[:-1]).all()):
            return self  # all of them, as they are
        chosen = pa.array(places)
        parts = [[column.take(chosen) for column in columns] for columns in self.parts]
        return _Open(self.keys[places], self.starts[places], self.lasts[places], parts)
