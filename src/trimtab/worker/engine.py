"""One CEP engine in one batch: it takes the rows of its key groups and returns a report.

It loads the state of the keys that have rows or are due, lets the operators advance, writes the new state of exactly
those keys as one segment, and returns the matches. It changes nothing else: until the driver commits, the work can be
repeated, here or elsewhere.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from trimtab.engine.columns.watermark import BEGINNING_US
from trimtab.errors import InputError, TrimtabError, noted_as, noting
from trimtab.machine_code.missing import Missing, if_missing, take_notes
from trimtab.state.checkpoint import segment_name
from trimtab.state.manifest import SegmentFile
from trimtab.state.segment import PartSize, write_segment
from trimtab.worker.accounts import Accounts
from trimtab.worker.free_memory import free_memory_lately
from trimtab.worker.measures import least
from trimtab.worker.orders import EngineReport, Orders
from trimtab.worker.ready import ReadyPlan, unpacked, warm_engines
from trimtab.worker.sorting_out import SortingOut
from trimtab.worker.turns import Turns
from trimtab.worker.whereabouts import this_executor


def run_engine(
    orders: Orders, number: int, batches: Iterator[pa.RecordBatch], aside: Sequence[pa.Table] = ()
) -> Iterator[pa.RecordBatch]:
    """Run one engine for one batch: rows as the splitter sent them in, one report out.

    aside   rows that were set aside when they were read, and that this engine puts into quarantine
    """
    began = time.perf_counter()
    orders.machine_code.accept()
    plan = unpacked(orders)
    rows = [batch for batch in batches if batch.num_rows]
    arrived, free = time.perf_counter(), free_memory_lately()
    engine = Engine(orders, plan, number)
    engine.accounts.stages_ms["receive"] = (arrived - began) * 1e3
    try:
        with if_missing(Missing.PLAIN):  # compiling takes seconds, and a batch must not wait for it
            report = engine.run(rows, aside)
    except TrimtabError as error:  # a fault in the data or the query: running the task again won't help
        report = engine.failed(error)
    except (OverflowError, pa.ArrowInvalid) as error:
        message = f"batch {orders.batch}: a value doesn't fit its type: {error}"
        wide = InputError("input.value", message, "cast it to a wider type in the query")
        report = engine.failed(noted_as(wide, error))
    busy_ms = (time.perf_counter() - began) * 1e3
    free = least(free, free_memory_lately())  # its answers and its new state are still in memory
    report = replace(_with_machine_code(report, orders), busy_ms=busy_ms, free_memory_share=free)
    yield pa.record_batch({"report": pa.array([pickle.dumps(report, protocol=5)], pa.binary())})


def _with_machine_code(report: EngineReport, orders: Orders) -> EngineReport:
    """The report with the machine code that was missing; a host of another kind than the driver's compiles its own."""
    missed = take_notes()
    if not orders.machine_code.is_foreign:
        return replace(report, missed=missed)
    from trimtab.worker.foreign_host import foreign_host

    host = foreign_host()
    if host is None:
        return report
    host.ask(warm_engines, orders.plan)
    host.ask_noted(missed)
    return replace(report, made=host.made())


class Engine:
    """One engine's part of one batch."""

    def __init__(self, orders: Orders, ready: ReadyPlan, number: int) -> None:
        self._orders, self._plan, self._number = orders, ready.plan, number
        self._owned = orders.owner == number
        self.accounts = Accounts(ready.plan.key_groups, orders.spread)
        self._rows = SortingOut(ready.plan, orders.time, self.accounts)
        watermark_us = orders.time.after(orders.head.newest_us).watermark_us
        known_us = BEGINNING_US if watermark_us is None else watermark_us
        self._turns = Turns(orders, ready, number, self._owned, self._rows, self.accounts, known_us)

    def run(self, batches: Sequence[pa.RecordBatch], aside: Sequence[pa.Table] = ()) -> EngineReport:
        """Take the rows, advance every query, write the state."""
        with self.accounts.timed("sort_out"):
            routes = self._rows.routes(batches)
            for rows in aside:
                self._rows.set_aside_when_read(rows)
        for reading in self._plan.intake.readings:
            with noting(f"query {reading.query}"):
                self._turns.take(reading, routes[reading.route])
        self._turns.keep()
        for name, tables in self._rows.asides.items():
            if tables:
                self._turns.put_out(name, pa.concat_tables(tables))
        segment: SegmentFile | None = None
        sizes: dict[str, PartSize] = {}
        if self._turns.parts:
            with self.accounts.timed("write"):
                orders = self._orders
                name = segment_name(orders.batch, f"e{self._number}", orders.incarnation, orders.epoch)
                segment, sizes = write_segment(orders.folder, name, self._turns.parts)
        return self._report(segment, sizes)

    def failed(self, error: TrimtabError) -> EngineReport:
        """The report of an engine that could not do its work."""
        return replace(self._report(None, {}), error=error, outputs={})

    def _report(self, segment: SegmentFile | None, sizes: dict[str, PartSize]) -> EngineReport:
        loads, hot = self.accounts.loads(self._owned, self._turns.parts, sizes)
        return EngineReport(
            engine=self._number,
            events=self._rows.events,
            next_due_us=self._turns.next_due_us,
            late=self._rows.late,
            quarantined=self._rows.quarantined,
            stages_ms=self.accounts.stages_ms,
            loads=loads,
            executor=this_executor(),
            outputs=self._turns.outputs,
            segment=segment,
            parts=sizes,
            hot=hot,
            partials=self._turns.partials,
        )
