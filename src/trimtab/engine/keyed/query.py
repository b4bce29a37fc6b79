"""Runs a user's own operator over a stream: hands each key's rows to its logic, in order, and collects the output.

Rows are sorted once per batch and sliced per key; the logic is called for each key that has rows or is due to be woken.
Other keys cost nothing but the copy of their snapshots.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array, int64s, plain, plain_type, valid_mask
from trimtab.engine.columns.groups import counting_order
from trimtab.engine.columns.joint_order import joint_order
from trimtab.engine.columns.keys import Keys, encode_keys
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.columns.times import is_time, known_times_us
from trimtab.engine.keyed.description import KeyedOperator, Snapshot
from trimtab.engine.keyed.memory import NEVER, SNAPSHOT, SNAPSHOTS, WAITING, WAKE, Memory, state_type
from trimtab.engine.keyed.visit import Visit, snapshots_as_arrow
from trimtab.engine.operator import ARRIVAL, TIME_US, Description, Moment, Obstacle, Operator, State, StateTable
from trimtab.engine.signature import signed
from trimtab.errors import OperatorError
from trimtab.keyed_state import DEADLINE, KEY, KEYS


@signed("keyed/1")
@dataclass(frozen=True, slots=True)
class KeyedQuery(Description):
    """One operator over rows with its columns computed; the output is the partition columns, its own, and `TIME_US`.

    `columns`: pairs of a name that the logic uses and the column of the rows. With a watermark the first order column
    is the event time; it ascends and is never null. Rows at or after the watermark wait.
    """

    name: str
    description: KeyedOperator
    partition: tuple[str, ...]
    order: tuple[OrderKey, ...]
    columns: tuple[tuple[str, str], ...]

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the output, given that of the rows."""
        keys = [pa.field(name, plain_type(schema.field(name).type)) for name in self.partition]
        return pa.schema([*keys, *self.description.output, pa.field(TIME_US, pa.int64())])

    @property
    def state_tables(self) -> tuple[StateTable, ...]:
        """A snapshot per key, and the rows that have not been handed over."""
        return StateTable(KEYS, (DEADLINE,)), StateTable(SNAPSHOTS, (KEY, WAKE, SNAPSHOT)), StateTable(WAITING, (KEY,))

    def split_obstacle(self) -> Obstacle | None:
        """It can be split if its description has a `merge`."""
        if self.description.merges:
            return None
        hint = "add merge(left, right) to its description, or leave out split"
        return Obstacle(f"operator {self.name} doesn't say how two states of a key become one", hint)

    def _operator(self) -> Operator:
        return Visitor(self)


@dataclass(frozen=True)
class Visitor(Operator):
    """Runs a `KeyedQuery`: visits every key that has rows or is due to be woken."""

    query: KeyedQuery

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Hand over the rows older than the watermark, and wake the keys that are due."""
        numbers, keys = encode_keys(state.get(KEYS), rows, self.query.partition, moment.memo)
        before = self._memory(state, rows.schema)
        memory = self._with_rows(before, rows, numbers)
        ready = self._ready(memory.waiting, moment)
        by_time, _ = joint_order(moment.memo or Memo(), before.waiting, rows, self.query.order, ARRIVAL, ready)
        shown, starts = self._by_key(memory, by_time, keys.count)
        memory, leaving, leaving_keys = self._leaving(memory, ready)
        dates = self._latest(leaving, leaving_keys, keys.count)
        visits, memory = self._visit(keys, memory, shown, starts, dates, moment)
        output = self._output(visits, keys, rows.schema)
        return output, {} if moment.closing else memory.to_state(keys, self._time)

    def partial(self, rows: pa.Table) -> State:
        """Raises OperatorError `operator.merge` if the logic puts out rows before the parts are merged."""
        output, state = self.advance(rows, {}, Moment())
        if output.num_rows:
            message = "rows came out of a part of a key's rows, before the parts were merged"
            hint = "while a key is split, give rows in on_time and on_close only, or leave out split in the query"
            raise OperatorError("operator.merge", self.query.name, message, hint, "on_rows")
        return state

    def merge(self, states: Sequence[State], schema: pa.Schema) -> State:
        """Two at a time, as the description merges snapshots.

        Raises OperatorError `operator.merge` if the description has no `merge`.
        """
        if not self.query.description.merges:
            message = "its states can't be merged, so the rows of a key can't be divided over several engines"
            raise OperatorError("operator.merge", self.query.name, message, "add merge(left, right) to the description")
        return reduce(partial(self._merged, schema), states, {})

    def warm(self, schema: pa.Schema) -> bool:
        """Does nothing: a user's own code must not be called with made-up rows."""
        del schema
        return False

    def _merged(self, schema: pa.Schema, left: State, right: State) -> State:
        if not left or not right:
            return left or right
        others, keys = encode_keys(left[KEYS], right[KEYS], self.query.partition)
        one, other = self._memory(left, schema), self._memory(right, schema)
        # The right ones come second, so of a key in both states the first snapshot is the left one.
        snapshot_keys = np.concatenate([one.snapshot_keys, others[other.snapshot_keys]])
        order, starts = counting_order(snapshot_keys, keys.count)
        snapshots = pa.concat_arrays([one.snapshots, other.snapshots]).take(pa.array(order)).to_pylist()
        visits = [
            Visit(self.query.name, self.query.description, keys, n) for n in np.flatnonzero(np.diff(starts)).tolist()
        ]
        merged: list[Snapshot] = []
        for visit in visits:
            first, *more = snapshots[starts[visit.number] : starts[visit.number + 1]]
            merged.append(visit.merge(first, more[0]) if more else first)
        wakes = [visit.wake_us(visit.open(snapshot)) for visit, snapshot in zip(visits, merged, strict=True)]
        memory = Memory(
            snapshots=snapshots_as_arrow(visits, merged, state_type(self.query.description)),
            snapshot_keys=np.array([visit.number for visit in visits], np.int64),
            wakes_us=_wakes(wakes),
            waiting=pa.concat_tables([one.waiting, other.waiting]).combine_chunks(),
            waiting_keys=np.concatenate([one.waiting_keys, others[other.waiting_keys]]),
        )
        return memory.to_state(keys, self._time)

    @property
    def _time(self) -> str | None:
        return self.query.order[0].column if self.query.order else None

    @property
    def _needed(self) -> tuple[str, ...]:
        """The columns that a row needs until it is handed over."""
        used = [column for _, column in self.query.columns]
        return tuple(dict.fromkeys([*used, *(key.column for key in self.query.order), ARRIVAL]))

    def _memory(self, state: State, schema: pa.Schema) -> Memory:
        return Memory.of_state(self.query.description, self.query.name, self._needed, state, schema)

    def _with_rows(self, memory: Memory, rows: pa.Table, numbers: Int64Array) -> Memory:
        """The memory with the new rows added to the waiting ones."""
        table = pa.table({name: plain(rows[name]) for name in self._needed})
        if memory.waiting.num_rows:
            table = pa.concat_tables([memory.waiting, table]).combine_chunks()
        return replace(memory, waiting=table, waiting_keys=np.concatenate([memory.waiting_keys, numbers]))

    def _ready(self, rows: pa.Table, moment: Moment) -> BoolArray:
        """Which rows are to be handed over now: no row can come any more that belongs before them."""
        if moment.watermark_us is None:
            return np.ones(rows.num_rows, np.bool_)
        assert self._time is not None
        times = known_times_us(rows[self._time], self._time)
        return np.full(len(times), True) if moment.closing else times < moment.watermark_us

    def _leaving(self, memory: Memory, ready: BoolArray) -> tuple[Memory, pa.Table, Int64Array]:
        """The memory with the rows that keep waiting, and the rows to hand over with their keys."""
        table, numbers = memory.waiting, memory.waiting_keys
        if ready.all():
            return replace(memory, waiting=table.slice(0, 0), waiting_keys=numbers[:0]), table, numbers
        rest = replace(memory, waiting=table.filter(pa.array(~ready)), waiting_keys=numbers[~ready])
        return rest, table.filter(pa.array(ready)), numbers[ready]

    def _by_key(self, memory: Memory, by_time: Int64Array, count: int) -> tuple[pa.Table, Int64Array]:
        """The columns that the logic reads, of rows in order of time, sorted by key, and where each key starts."""
        order, starts = counting_order(memory.waiting_keys[by_time], count)
        places = pa.array(by_time[order])
        columns = [plain(memory.waiting[column]) for _, column in self.query.columns]
        names = [name for name, _ in self.query.columns]
        # One chunk per column: slicing several chunks would need a search.
        return pa.table([column.take(places) for column in columns], names=names), starts

    def _latest(self, rows: pa.Table, numbers: Int64Array, count: int) -> Int64Array:
        """The largest event time among the rows handed to each key; `NEVER` if there is none."""
        latest = np.full(count, -NEVER)
        if self._time is not None and is_time(rows.schema.field(self._time).type):
            known = valid_mask(plain(rows[self._time]))
            np.maximum.at(latest, numbers[known], known_times_us(rows[self._time].filter(pa.array(known)), self._time))
        return np.where(latest == -NEVER, NEVER, latest)

    def _visit(
        self, keys: Keys, memory: Memory, rows: pa.Table, starts: Int64Array, dates: Int64Array, moment: Moment
    ) -> tuple[list[Visit], Memory]:
        """Call the logic of every key that has rows or is due to be woken."""
        known = np.full(keys.count, -1, np.int64)
        known[memory.snapshot_keys] = np.arange(len(memory.snapshot_keys))
        called = np.diff(starts) > 0
        if moment.closing:
            called[memory.snapshot_keys] = True
        elif moment.watermark_us is not None:
            called[memory.snapshot_keys[memory.wakes_us <= moment.watermark_us]] = True
        numbers = np.flatnonzero(called)
        places = known[numbers]
        before = _taken(memory.snapshots, places).to_pylist()
        visits: list[Visit] = []
        kept: list[tuple[Visit, Snapshot, int | None]] = []
        marks_ns = [time.perf_counter_ns()]
        for number, snapshot in zip(numbers.tolist(), before, strict=True):
            date = int(dates[number])
            visit = Visit(self.query.name, self.query.description, keys, number, None if date == NEVER else date)
            visits.append(visit)
            start, stop = int(starts[number]), int(starts[number + 1])
            logic = visit.open(snapshot)
            if stop > start:
                visit.hand_over(logic, rows.slice(start, stop - start))
            if moment.watermark_us is not None:
                visit.wake(logic, moment.watermark_us)
            if moment.closing:
                visit.close(logic, moment.watermark_us)
            elif (after := visit.snapshot(logic)) is not None:
                kept.append((visit, after, visit.wake_us(logic)))
            marks_ns.append(time.perf_counter_ns())
        if moment.meter is not None:
            own = int64s(keys.columns[self.query.partition[0]].take(pa.array(numbers)))
            marks = np.array(marks_ns, np.int64)
            moment.meter.add(own, marks[1:] - marks[:-1])
        return visits, self._remember(memory, ~called[memory.snapshot_keys], kept)

    def _remember(
        self, memory: Memory, untouched: BoolArray, kept: Sequence[tuple[Visit, Snapshot, int | None]]
    ) -> Memory:
        """The memory with the snapshots of keys that were not called, and the new ones of those that were."""
        new = snapshots_as_arrow([v for v, _, _ in kept], [s for _, s, _ in kept], state_type(self.query.description))
        own = np.array([visit.number for visit, _, _ in kept], np.int64)
        if untouched.any():
            new = pa.concat_arrays([memory.snapshots.filter(pa.array(untouched)), new])
        return replace(
            memory,
            snapshots=new,
            snapshot_keys=np.concatenate([memory.snapshot_keys[untouched], own]),
            wakes_us=np.concatenate([memory.wakes_us[untouched], _wakes([wake for _, _, wake in kept])]),
        )

    def _output(self, visits: Sequence[Visit], keys: Keys, schema: pa.Schema) -> pa.Table:
        """The output rows, each with its key."""
        wanted = self.query.output_schema(schema)
        found = [(visit.number, table, date_us) for visit in visits for table, date_us in visit.outputs]
        if not found:
            return wanted.empty_table()
        own = pa.concat_tables([table for _, table, _ in found]).combine_chunks()
        lengths = [table.num_rows for _, table, _ in found]
        of_rows = pa.array(np.repeat([number for number, _, _ in found], lengths))
        columns = [keys.columns[name].take(of_rows) for name in self.query.partition]
        dates = pa.array([date_us for _, _, date_us in found], pa.int64())
        dates = dates.take(pa.array(np.repeat(np.arange(len(found)), lengths)))
        return pa.table([*columns, *own.columns, dates], schema=wanted)


def _taken(snapshots: pa.Array, places: Int64Array) -> pa.Array:
    """The snapshots at these places, null for a negative place; not copied if these are all of them in order."""
    if len(places) == len(snapshots) and np.array_equal(places, np.arange(len(places))):
        return snapshots
    return snapshots.take(pa.array(places, mask=places < 0))


def _wakes(wakes: Sequence[int | None]) -> Int64Array:
    return np.array([NEVER if wake is None else wake for wake in wakes], np.int64)
