"""One CEP engine in one batch: a Spark task that takes the rows of its key groups and answers with a report.

It loads the state of the keys that the rows touch or whose time has come, lets the operators advance, writes the new
state of exactly those keys as one segment, and hands back matches. It changes nothing else: until the driver commits,
all of it can happen again, here or elsewhere.
"""

from __future__ import annotations

import dataclasses
import pickle
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import is_late, raised
from trimtab.engine.metering import Meter
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, Operator, State
from trimtab.errors import InputError, TrimtabError
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.language.compiled import Query
from trimtab.language.running import operator_of
from trimtab.machine_code import wanted
from trimtab.machine_code.policy import Missing, if_missing
from trimtab.rowwise.local import Finish
from trimtab.state.bundle import Bundle, to_bundle
from trimtab.state.checkpoint import segment_name
from trimtab.state.manifest import SegmentFile
from trimtab.state.runs import Reader
from trimtab.state.segment import PartSize, segment_of, write_segment
from trimtab.worker.hot_rows import HotRows
from trimtab.worker.intake_plan import ORIGINAL, ROUTE, SLOT, Reading
from trimtab.worker.orders import (
    LATE,
    QUARANTINE,
    REASON,
    EnginePlan,
    EngineReport,
    GroupLoads,
    Orders,
    Output,
    PackedState,
)
from trimtab.worker.whereabouts import this_executor

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

INLINE_BYTES = 2 << 20
"""Outputs up to this size travel in the report; larger ones are left in a file, if the query's sinks can take files:
engines write side by side, where the driver would write for all of them."""
READY_PLANS = 16
"""How many plans a worker keeps: one a stream of a job, and workers outlive jobs."""
CLOSING_SLOTS = 200_000
"""How many keys are closed at once at the end of the input."""


def run_engine(orders: Orders, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What every engine does in a batch: rows in, one report out."""
    began = time.perf_counter()
    orders.machine_code.take_up()
    plan = _unpacked(orders)
    rows = [batch for batch in batches if batch.num_rows]
    arrived = time.perf_counter()
    engine = Engine(orders, plan, number)
    engine.stages_ms["receive"] = (arrived - began) * 1e3
    try:
        with if_missing(Missing.PLAIN):  # compiling takes seconds, and a batch must not wait for it
            report = engine.run(rows)
    except TrimtabError as error:  # a mistake in the data or the query: running the task again won't help
        report = engine.failed(error)
    except (OverflowError, pa.ArrowInvalid) as error:
        message = f"batch {orders.batch}: a value doesn't fit its type: {error}"
        report = engine.failed(InputError("input.value", message, "cast it to a wider type in the query"))
    busy_ms = (time.perf_counter() - began) * 1e3
    report = dataclasses.replace(_with_machine_code(report, orders), busy_ms=busy_ms)
    yield pa.record_batch({"report": pa.array([pickle.dumps(report, protocol=5)], pa.binary())})


def _with_machine_code(report: EngineReport, orders: Orders) -> EngineReport:
    """The report with what was missing; a host of another kind than the driver's has it made by itself."""
    missed = wanted.take()
    if not orders.machine_code.is_foreign:
        return dataclasses.replace(report, missed=missed)
    from trimtab.worker.foreign_host import foreign_host

    host = foreign_host()
    if host is None:
        return report
    host.ask(orders.plan_id, orders.plan, missed)
    return dataclasses.replace(report, made=host.made())


@dataclasses.dataclass(frozen=True)
class ReadyQuery:
    """A query with its operator built: kernels that were loaded for it stay loaded."""

    query: Query
    operator: Operator
    finish: Finish


@dataclasses.dataclass(frozen=True)
class ReadyPlan:
    """An `EnginePlan` unpacked in this process."""

    plan: EnginePlan
    queries: dict[str, ReadyQuery]


_READY: dict[str, ReadyPlan] = {}  # by plan_id; Spark reuses its workers, so this pays from the second batch on


def _unpacked(orders: Orders) -> ReadyPlan:
    if orders.plan_id not in _READY:
        plan: EnginePlan = pickle.loads(orders.plan)
        if len(_READY) >= READY_PLANS:
            _READY.clear()
        _READY[orders.plan_id] = ready_plan(plan)
    return _READY[orders.plan_id]


def ready_plan(plan: EnginePlan) -> ReadyPlan:
    """The plan with every operator built."""
    return ReadyPlan(plan, {name: ready_query(query, plan.max_threads) for name, query in plan.queries.items()})


def ready_query(query: Query, max_threads: int) -> ReadyQuery:
    """The query with its operator built."""
    columns = (*query.finish.columns, (TIME_US, TIME_US))
    types = (*query.finish.types, pa.int64()) if query.finish.types else ()
    finish = dataclasses.replace(query.finish, columns=columns, types=types)
    by_slot = dataclasses.replace(query, operator=query.operator.by_slot())
    return ReadyQuery(query, operator_of(by_slot, max_threads=max_threads), finish)


def operands(reading: Reading, table: pa.Table) -> pa.Table:
    """The rows as the query's operator knows them."""
    names = [*(known for known, _ in reading.columns), ARRIVAL, SLOT]
    sources = [*(name for _, name in reading.columns), reading.arrival, SLOT]
    return pa.table([table.column(name) for name in sources], names=names)


def open_reader(orders: Orders, key_groups: int, query: str) -> Reader:
    """The state of a query before the batch."""
    opened = [
        (run, segment_of(orders.folder, orders.segments[run.segment]).part(run.part))
        for run in orders.runs.get(query, ())
    ]
    return Reader(opened, key_groups)


def packed(table: pa.Table) -> bytes:
    """A table as Arrow IPC bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


class Engine:
    """One engine's turn."""

    def __init__(self, orders: Orders, ready: ReadyPlan, number: int) -> None:
        self.orders, self.ready, self.plan, self.number = orders, ready, ready.plan, number
        self.owned = np.asarray(np.frombuffer(orders.owner, np.int32) == number)
        self.outputs: dict[str, Output] = {}
        self.parts: dict[str, Bundle] = {}
        self.stages_ms: dict[str, float] = {}
        self.asides: dict[str, list[pa.Table]] = {LATE: [], QUARANTINE: []}
        self.late = self.quarantined = self.events = 0
        self.newest_us: int | None = None
        self.by_group = np.zeros(self.plan.key_groups, np.int32)
        self.busy_ns = np.zeros(self.plan.key_groups)
        self.hot = HotRows(orders.spread_slots())
        self.partials: dict[str, PackedState] = {}

    def run(self, batches: Sequence[pa.RecordBatch]) -> EngineReport:
        """Take the rows, advance every query, write the state."""
        with self._timed("sort_out"):
            table = self._table(batches)
            routes = self._routes(table)
        for reading in self.plan.intake.readings:
            self._take_turn(reading, routes[reading.route])
        for name, tables in self.asides.items():
            if tables:
                self._put_out(name, pa.concat_tables(tables))
        segment: SegmentFile | None = None
        sizes: dict[str, PartSize] = {}
        if self.parts:
            with self._timed("write"):
                segment, sizes = self._write()
        return self._report(segment, sizes)

    def failed(self, error: TrimtabError) -> EngineReport:
        """The report of an engine that could not do its work."""
        return dataclasses.replace(self._report(None, {}), error=error, outputs={})

    # Rows --------------------------------------------------------------------------------------

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        schema = self.plan.schema
        if not batches:
            return schema.empty_table()
        table = pa.Table.from_batches(batches).combine_chunks()
        # Spark sends times in the session's zone: the same numbers under another name.
        return table if table.schema == schema else table.cast(schema)

    def _routes(self, table: pa.Table) -> list[Rows]:
        """The rows of each route, those that can't be taken set aside and counted."""
        routes = self.plan.intake.routes
        if len(routes) == 1:
            return [self._sorted_out(table, 0)]
        numbers = table.column(ROUTE)
        return [self._sorted_out(table.filter(pc.equal(numbers, i)), i) for i in range(len(routes))]

    def _sorted_out(self, table: pa.Table, route: int) -> Rows:
        times, no_time = times_us(table.column(self.plan.intake.time))
        slots = table.column(SLOT).to_numpy()
        self.events += table.num_rows if route == 0 else 0
        parts = self.hot.count(slots) if self.plan.intake.routes[route].split else None
        whole = slots if parts is None else slots[~parts]
        self.by_group += np.bincount(whole >> GROUP_SHIFT, minlength=self.plan.key_groups).astype(np.int32)
        good: BoolArray | None = None
        if no_time is not None and no_time.any():
            if route == 0:
                self._set_aside(QUARANTINE, table, no_time, f"{self.plan.event_time} is null")
            good = ~no_time
        for key in self.plan.intake.routes[route].keys:
            column = table.column(key)
            if column.null_count:
                missing = np.asarray(column.is_null().combine_chunks())
                fresh = missing if good is None else missing & good
                self._set_aside(QUARANTINE, table, fresh, f"{self._known_as(key)} is null, and rows are keyed by it")
                good = ~missing if good is None else good & ~missing
        on_time = times if good is None else times[good]
        if len(on_time):
            newest = int(on_time.max())
            self.newest_us = newest if self.newest_us is None else max(self.newest_us, newest)
        watermark = self.orders.watermark_us
        routes = self.plan.intake.routes
        # To a query that takes rows one by one, no row is late.
        if watermark is not None and routes[route].is_keyed and len(on_time) and int(on_time.min()) < watermark:
            late = is_late(times, watermark) if good is None else is_late(times, watermark) & good
            if route == next(number for number, each in enumerate(routes) if each.is_keyed):
                self._set_aside(LATE, table, late, "")
            good = ~late if good is None else good & ~late
        if good is None:
            return Rows(table, times, slots)
        return Rows(table.filter(pa.array(good)), times[good], slots[good])

    def _known_as(self, key: str) -> str:
        computed = next(c for c in self.plan.intake.columns if c.name == key)
        return computed.source or computed.text

    def _set_aside(self, name: str, table: pa.Table, chosen: BoolArray, reason: str) -> None:
        count = int(chosen.sum())
        if not count:
            return
        if name == LATE:
            self.late += count
        else:
            self.quarantined += count
        if not self.plan.keep_original:
            return
        original = table.column(ORIGINAL).filter(pa.array(chosen)).combine_chunks()
        fields = original.type
        columns = [original.field(i) for i in range(fields.num_fields)]
        names = [fields.field(i).name for i in range(fields.num_fields)]
        if name == QUARANTINE:
            columns.append(pa.array([reason] * count, pa.string()))
            names.append(REASON)
        self.asides[name].append(pa.table(columns, names=names))

    # Queries -----------------------------------------------------------------------------------

    def _take_turn(self, reading: Reading, rows: Rows) -> None:
        """Advance a query, and charge the time to the key groups that it was spent on."""
        if self._has_spread(reading):
            rows = self._take_parts(reading, rows)
        began_ns, meter = time.perf_counter_ns(), Meter()
        self._advance(reading, rows, meter)
        groups = self.plan.key_groups
        told = np.bincount(meter.slots >> GROUP_SHIFT, weights=meter.spent_ns, minlength=groups)
        rest_ns = time.perf_counter_ns() - began_ns - told.sum()
        self.busy_ns += told + rest_ns * _shares(np.bincount(rows.slots >> GROUP_SHIFT, minlength=groups))

    def _has_spread(self, reading: Reading) -> bool:
        return len(self.hot.spread) > 0 and self.plan.intake.routes[reading.route].split

    def _take_parts(self, reading: Reading, rows: Rows) -> Rows:
        """What comes of the rows of spread keys, for the driver to merge; the other rows.

        There is no watermark here: what is decided, and when, only shows when all parts are together.
        """
        began_ns, chosen = time.perf_counter_ns(), self.hot.is_spread(rows.slots)
        if not chosen.any():
            return rows
        with self._timed("partials"):
            own, ready = self._wanted(reading, rows.only(chosen)), self.ready.queries[reading.query]
            if len(own.slots):
                state = ready.operator.partial(operands(reading, own.table))
                self.partials[reading.query] = {name: packed(table) for name, table in state.items()}
            rest = rows.only(~chosen)
        self.hot.charge(rows.slots[chosen], time.perf_counter_ns() - began_ns)
        return rest

    def _advance(self, reading: Reading, rows: Rows, meter: Meter) -> None:
        ready = self.ready.queries[reading.query]
        rows = self._wanted(reading, rows)
        if not ready.query.operator.is_keyed:
            if len(rows.slots):
                with self._timed("advance"):
                    table = operands(reading, rows.table).append_column(TIME_US, pa.array(rows.times))
                    output, _ = ready.operator.advance(table, {}, Moment())
                    self._put_out(reading.query, ready.finish.run(output))
            return
        watermark = self._watermark_us
        if watermark is None and not len(rows.slots):
            return
        with self._timed("open"):
            reader = self._reader(reading.query)
        if self.orders.closing:
            self._close(reading, rows, reader)
            return
        with self._timed("load"):
            touched = distinct(rows.slots)
            if watermark is not None:
                due = self._own(reading, reader.due(self.orders.previous_watermark_us, watermark, self.owned))
                touched = np.union1d(touched, due) if len(due) else touched
            if not len(touched):
                return
            state = reader.load(touched)
        with self._timed("advance"):
            output, after = ready.operator.advance(
                operands(reading, rows.table), state, Moment(watermark_us=watermark, meter=meter)
            )
        if output.num_rows:
            with self._timed("finish"):
                self._put_out(reading.query, ready.finish.run(output))
        with self._timed("bundle"):
            self.parts[reading.query] = to_bundle(after, touched)

    def _close(self, reading: Reading, rows: Rows, reader: Reader) -> None:
        """The end of the input: every key there is, some at a time."""
        ready = self.ready.queries[reading.query]
        slots = np.union1d(self._own(reading, reader.slots(self.owned)), distinct(rows.slots))
        outputs = []
        for start in range(0, len(slots), CLOSING_SLOTS):
            chosen = slots[start : start + CLOSING_SLOTS]
            own = rows.only(np.isin(rows.slots, chosen))
            state: State = reader.load(chosen)
            moment = Moment(watermark_us=self._watermark_us, closing=True)
            output, _ = ready.operator.advance(operands(reading, own.table), state, moment)
            outputs.append(ready.finish.run(output))
        if outputs:
            self._put_out(reading.query, pa.concat_tables(outputs))

    def _own(self, reading: Reading, slots: Int64Array) -> Int64Array:
        """Slots without those that are spread: they are the driver's."""
        return np.setdiff1d(slots, self.hot.spread, assume_unique=True) if self._has_spread(reading) else slots

    @cached_property
    def _watermark_us(self) -> int | None:
        """No row older than this comes any more: by all committed batches, or by what this engine has seen itself."""
        return raised(self.orders.watermark_us, self.newest_us, self.plan.delay_us)

    def _wanted(self, reading: Reading, rows: Rows) -> Rows:
        """The rows that the query's WHERE lets through; those whose columns can't be computed set aside."""
        table = rows.table
        if reading.failed is not None:
            failed = np.asarray(table.column(reading.failed).combine_chunks())
            if failed.any():
                self._set_aside(
                    QUARANTINE, table, failed, f"query {reading.query} can't compute its columns of this row"
                )
                rows = rows.only(~failed)
                table = rows.table
        if reading.wanted is not None and reading.wanted in table.column_names:
            wanted = np.asarray(table.column(reading.wanted).combine_chunks().fill_null(False))
            if not wanted.all():
                rows = rows.only(wanted)
        return rows

    def _put_out(self, name: str, table: pa.Table) -> None:
        if not table.num_rows:
            return
        if name in self.plan.spills and table.nbytes > INLINE_BYTES:
            self.outputs[name] = self._spilled(table)
            return
        self.outputs[name] = Output(table.num_rows, inline=packed(table))

    def _spilled(self, table: pa.Table) -> Output:
        """The rows in event-time order in a file of the outbox."""
        if TIME_US in table.column_names:
            order = np.argsort(table.column(TIME_US).to_numpy(), kind="stable")
            table = table.take(pa.array(order)).drop_columns([TIME_US])
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        file = f"{self.orders.batch:012d}-e{self.number}-{uuid.uuid4().hex}.parquet"
        self.orders.outbox.write(file, sink.getvalue().to_pybytes())
        return Output(table.num_rows, file=file)

    # State -------------------------------------------------------------------------------------

    def _reader(self, query: str) -> Reader:
        return open_reader(self.orders, self.plan.key_groups, query)

    def _write(self) -> tuple[SegmentFile, dict[str, PartSize]]:
        name = segment_name(self.orders.batch, f"e{self.number}", self.orders.incarnation)
        return write_segment(self.orders.folder, name, self.parts)

    def _report(self, segment: SegmentFile | None, sizes: dict[str, PartSize]) -> EngineReport:
        row_ns = self._row_ns()
        busy_ns = np.rint(self.busy_ns + row_ns * self.by_group).astype(np.int64)
        return EngineReport(
            engine=self.number,
            events=self.events,
            newest_us=self.newest_us,
            late=self.late,
            quarantined=self.quarantined,
            busy_ms=0.0,
            stages_ms=self.stages_ms,
            loads=GroupLoads.of(self.owned, self.by_group, busy_ns, self._state_bytes(sizes)),
            host=this_executor(),
            outputs=self.outputs,
            segment=segment,
            parts=sizes,
            hot=self.hot.report(self.by_group, busy_ns, row_ns),
            partials=self.partials,
        )

    def _row_ns(self) -> float:
        """A row's part of what was spent on all rows alike; receiving them is for the driver to share out."""
        common_ms = sum(self.stages_ms.get(stage, 0.0) for stage in ("sort_out", "write"))
        return common_ms * 1e6 / max(1, int(self.by_group.sum()) + int(self.hot.spread_events.sum()))

    def _state_bytes(self, sizes: dict[str, PartSize]) -> Int64Array:
        """State written by key group: each part's bytes by the keys that it holds of a group."""
        total = np.zeros(self.plan.key_groups)
        for name, size in sizes.items():
            bundle = self.parts[name]
            held = np.bincount(
                bundle.slots >> GROUP_SHIFT, weights=np.diff(bundle.key_starts), minlength=self.plan.key_groups
            )
            total += size.size_bytes * _shares(held)
        return np.rint(total).astype(np.int64)

    def _timed(self, stage: str) -> _Stopwatch:
        return _Stopwatch(self.stages_ms, stage)


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Rows that can be taken, with their times and slots as arrays."""

    table: pa.Table
    times: Int64Array
    slots: Int64Array

    def only(self, chosen: BoolArray) -> Rows:
        """Some of the rows."""
        return Rows(self.table.filter(pa.array(chosen)), self.times[chosen], self.slots[chosen])


def _shares(amounts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Each one's part of the whole; nothing where there is nothing."""
    total = float(amounts.sum())
    return amounts / total if total else np.zeros(len(amounts))


def distinct(slots: Int64Array) -> Int64Array:
    """Sorted, each once: by hashing first, which is far cheaper than sorting where rows share few keys."""
    return np.sort(pc.unique(pa.array(slots)).to_numpy())


class _Stopwatch:
    """Adds the time of a `with` block to a stage."""

    def __init__(self, stages_ms: dict[str, float], stage: str) -> None:
        self._stages_ms, self._stage = stages_ms, stage

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = (time.perf_counter() - self._began) * 1e3
        self._stages_ms[self._stage] = self._stages_ms.get(self._stage, 0.0) + spent
