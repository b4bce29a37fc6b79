"""The queries' turns over an engine's rows: state in, rows through the operator, outputs and new state out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trimtab.engine.columns.watermark import BEGINNING_US
from trimtab.engine.metering import Meter
from trimtab.engine.operator import TIME_US, Moment, State
from trimtab.keyed_state import KEYS, SLOT
from trimtab.state.bundle import Bundle, to_bundle
from trimtab.state.checkpoint import own_name
from trimtab.state.runs import Reader, needed
from trimtab.state.segment import open_run
from trimtab.state.sharing import Shared
from trimtab.worker.accounts import Accounts
from trimtab.worker.intake import Reading
from trimtab.worker.orders import BoolArray, Int64Array, Orders, Output, PackedState, packed
from trimtab.worker.ready import ReadyPlan, operands
from trimtab.worker.sorting_out import Rows, SortingOut, distinct

WAIT_AT_MOST = 4
"""How many groups of queries, each of which works on the same rows, wait for more of their kind before what they keep
is made: those that wait hold memory, and new memory takes longer than memory that was just used."""
CLOSING_SLOTS = 200_000
"""How many keys are closed at once at the end of the input."""


class _Left(NamedTuple):
    """A query after its turn: its rows, the slots that it was given, and its state before and after."""

    query: str
    rows: Rows
    touched: Int64Array
    before: State
    after: State


class Turns:
    """One engine's queries in one batch; `owned` is the mask of its key groups, `watermark_us` that after the batch.

    outputs       output rows, by query
    parts         the state, after the batch, of the keys that were touched, by query
    next_due_us   the lowest watermark at which a key is due; None: no key has a deadline
    partials      the state of this engine's parts of spread keys, by query: the driver merges it
    """

    def __init__(
        self,
        orders: Orders,
        ready: ReadyPlan,
        number: int,
        owned: BoolArray,
        rows: SortingOut,
        accounts: Accounts,
        watermark_us: int,
    ) -> None:
        self._orders, self._ready, self._plan, self._number = orders, ready, ready.plan, number
        self._owned, self._rows, self._accounts, self._watermark_us = owned, rows, accounts, watermark_us
        self._touched: deque[Int64Array] = deque(maxlen=WAIT_AT_MOST)
        self._shared, self._left = Shared(), dict[int, list[_Left]]()  # by what states wait with, see `kept.py`
        self.next_due_us: int | None = None
        self.outputs: dict[str, Output] = {}
        self.parts: dict[str, Bundle] = {}
        self.partials: dict[str, PackedState] = {}

    def take(self, reading: Reading, rows: Rows) -> None:
        """Advance a query over its rows, and charge the time to their key groups."""
        if self._has_spread(reading):
            rows = self._take_parts(reading, rows)
        began_ns, meter = time.perf_counter_ns(), Meter()
        self._advance(reading, rows, meter)
        self._accounts.charge(rows.slots, meter, time.perf_counter_ns() - began_ns)

    def put_out(self, name: str, table: pa.Table) -> None:
        """Put rows out to the sinks of a query: in the report, or in a file if there are many."""
        if table.num_rows:
            is_large = table.nbytes > self._plan.inline_bytes
            self.outputs[name] = self._spilled(table) if is_large else Output(table.num_rows, packed(table))

    def _has_spread(self, reading: Reading) -> bool:
        return len(self._accounts.hot.spread) > 0 and self._plan.intake.routes[reading.route].split

    def _take_parts(self, reading: Reading, rows: Rows) -> Rows:
        """Take the rows of spread keys into `partials`, for the driver to merge; returns the other rows."""
        hot = self._accounts.hot
        began_ns, chosen = time.perf_counter_ns(), hot.is_spread(rows.slots)
        if not chosen.any():
            return rows
        with self._accounts.timed("partials"):
            own, ready = self._rows.wanted(reading, rows.only_once(chosen)), self._ready.queries[reading.query]
            if len(own.slots):
                state = ready.operator.partial(operands(reading, own))
                self.partials[reading.query] = {name: packed(table) for name, table in state.items()}
            rest = rows.only_once(~chosen)
        hot.charge(rows.slots[chosen], time.perf_counter_ns() - began_ns)
        return rest

    def _advance(self, reading: Reading, rows: Rows, meter: Meter) -> None:
        timed, ready = self._accounts.timed, self._ready.queries[reading.query]
        rows = self._rows.wanted(reading, rows)
        if not ready.query.operator.is_keyed:
            if len(rows.slots):
                with timed("advance"):
                    table = operands(reading, rows).append_column(TIME_US, pa.array(rows.times))
                    output, _ = ready.operator.advance(table, {}, Moment())
                    self.put_out(reading.query, ready.finish.run(output))
            return
        watermark_us = self._watermark_us
        if watermark_us == BEGINNING_US and not len(rows.slots):
            return
        with timed("open"):
            reader = open_reader(self._orders, self._plan.key_groups, reading.query, self._owned)
        if self._orders.closing:
            self._close(reading, rows, reader)
            return
        with timed("load"):
            self._will_be_due(reader.next_due_us(watermark_us))
            due = reader.due(self._orders.time.reported_us, watermark_us, self._owned)
            due = self._without_spread(reading, due)
            touched = self._as_before(united(rows.distinct, due))
            if not len(touched):
                return
            state = reader.load(touched, self._shared)
        with timed("advance"):
            moment = Moment(watermark_us=watermark_us, meter=meter, memo=rows.memo)
            output, after = ready.operator.advance(operands(reading, rows), state, moment)
        if output.num_rows:
            with timed("finish"):
                self.put_out(reading.query, ready.finish.run(output))
        left = _Left(reading.query, rows, touched, state, after)
        waits_with = id(getattr(after, "waits_with", left))
        self._left[waits_with] = [*self._left.pop(waits_with, ()), left]  # the latest one last
        if len(self._left) > WAIT_AT_MOST:
            self._keep(self._left.pop(next(iter(self._left))))

    def keep(self) -> None:
        """Make what is to be written of the queries' states: all of them have had their turn."""
        for left in self._left.values():
            self._keep(left)
        self._left.clear()

    def _keep(self, queries: Sequence[_Left]) -> None:
        for query, rows, touched, before, after in queries:
            began_ns = time.perf_counter_ns()
            with self._accounts.timed("bundle"):
                changed = with_state(touched, before, after)
                if len(changed):
                    self.parts[query] = to_bundle(after, changed, self._shared)
                    self._will_be_due(self.parts[query].first_due_us)
            self._accounts.charge(rows.slots, Meter(), time.perf_counter_ns() - began_ns)

    def _as_before(self, slots: Int64Array) -> Int64Array:
        """The same object for equal slots of the last queries, by which they are known to have the same keys."""
        for known in self._touched:
            if np.array_equal(known, slots):
                return known
        self._touched.append(slots)
        return slots

    def _will_be_due(self, at_us: int | None) -> None:
        if at_us is not None:
            self.next_due_us = at_us if self.next_due_us is None else min(at_us, self.next_due_us)

    def _close(self, reading: Reading, rows: Rows, reader: Reader) -> None:
        """Decide everything that is open at the end of the input: all keys of the state, `CLOSING_SLOTS` at a time."""
        ready = self._ready.queries[reading.query]
        slots = united(rows.distinct, self._without_spread(reading, reader.slots(self._owned)))
        outputs = []
        for start in range(0, len(slots), CLOSING_SLOTS):
            chosen = slots[start : start + CLOSING_SLOTS]
            own = rows.only(np.isin(rows.slots, chosen))
            state: State = reader.load(chosen)
            moment = Moment(watermark_us=self._watermark_us, closing=True)
            output, _ = ready.operator.advance(operands(reading, own), state, moment)
            if output.num_rows:
                outputs.append(ready.finish.run(output))
        if outputs:
            self.put_out(reading.query, pa.concat_tables(outputs))

    def _without_spread(self, reading: Reading, slots: Int64Array) -> Int64Array:
        """Slots without those of spread keys, which the driver advances."""
        if not self._has_spread(reading):
            return slots
        return np.setdiff1d(slots, self._accounts.hot.spread, assume_unique=True)

    def _spilled(self, table: pa.Table) -> Output:
        """The rows in event-time order in a file of the outbox."""
        if TIME_US in table.column_names:
            order = np.argsort(table.column(TIME_US).to_numpy(), kind="stable")
            table = table.take(pa.array(order)).drop_columns([TIME_US])
        sink = pa.BufferOutputStream()
        # Measured: dictionaries of numbers and times take 40 % of the time, and save 15 % of the bytes.
        repeated = [field.name for field in table.schema if not pa.types.is_primitive(field.type)]
        pq.write_table(table, sink, use_dictionary=repeated or False)
        file = f"{self._orders.batch:012d}-e{self._number}-{own_name(self._orders.epoch)}.parquet"
        self._orders.outbox.write(file, sink.getvalue().to_pybytes())
        return Output(table.num_rows, packed(table.slice(0, 0)), file)


def with_state(touched: Int64Array, before: State, after: State) -> Int64Array:
    """The touched slots that had state or have some now: about the others there is nothing to write.

    Most keys of most patterns have none, and what is written is read again, searched and merged.
    """
    having = [state[KEYS].column(SLOT).to_numpy() for state in (before, after) if KEYS in state]
    if sum(map(len, having)) >= len(touched) // 2:
        return touched  # to find the few others takes longer than to write them
    return distinct(np.concatenate(having)) if having else touched[:0]


def open_reader(orders: Orders, key_groups: int, query: str, owned: BoolArray) -> Reader:
    """The state of a query's owned key groups before the batch."""
    runs = needed(orders.runs.get(query, ()), owned)
    return Reader([(run, open_run(orders.folder, orders.segments, run)) for run in runs], key_groups)


def united(slots: Int64Array, others: Int64Array) -> Int64Array:
    """The slots of two arrays, sorted and each once, as in each of them.

    >>> united(np.array([1, 5]), np.array([2, 5])).tolist()
    [1, 2, 5]
    """
    if not len(others):
        return slots
    both = np.sort(np.concatenate([slots, others]), kind="stable")  # two sorted runs: merged in one pass
    found: Int64Array = both[np.append(True, both[1:] != both[:-1])]
    return found
