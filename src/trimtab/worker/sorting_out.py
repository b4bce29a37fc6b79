"""Sorts out an engine's rows: those that can be taken, those that are late, and those that go to quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import is_late
from trimtab.worker.accounts import Accounts
from trimtab.worker.intake import ORIGINAL, ROUTE, SLOT, Reading
from trimtab.worker.orders import LATE, QUARANTINE, REASON, BoolArray, EnginePlan, Int64Array


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that can be taken, with their times and slots as arrays."""

    table: pa.Table
    times: Int64Array
    slots: Int64Array

    def only(self, chosen: BoolArray) -> Rows:
        """Some of the rows."""
        return Rows(self.table.filter(pa.array(chosen)), self.times[chosen], self.slots[chosen])


class SortingOut:
    """The rows of one engine's batch. Rows older than `watermark_us` are late for keyed queries.

    events      how many rows there were
    newest_us   the newest time of those that have a key and a time; None: no row has both
    asides      the rows that were set aside, by output; empty if no sink takes them
    """

    def __init__(self, plan: EnginePlan, watermark_us: int | None, accounts: Accounts) -> None:
        self._plan, self._watermark_us, self._accounts = plan, watermark_us, accounts
        keyed = [number for number, route in enumerate(plan.intake.routes) if route.is_keyed]
        self._first_keyed = keyed[0] if keyed else None
        self.late = self.quarantined = self.events = 0
        self.newest_us: int | None = None
        self.asides: dict[str, list[pa.Table]] = {LATE: [], QUARANTINE: []}

    def routes(self, batches: Sequence[pa.RecordBatch]) -> list[Rows]:
        """The rows of each route that can be taken."""
        table, routes = self._table(batches), self._plan.intake.routes
        if len(routes) == 1:
            return [self._taken(table, 0)]
        numbers = table.column(ROUTE)
        return [self._taken(table.filter(pc.equal(numbers, i)), i) for i in range(len(routes))]

    def wanted(self, reading: Reading, rows: Rows) -> Rows:
        """The rows that the query's WHERE lets through; those whose columns can't be computed are set aside."""
        table = rows.table
        if reading.failed is not None:
            failed = np.asarray(table.column(reading.failed).combine_chunks())
            if failed.any():
                reason = f"query {reading.query} can't compute its columns of this row"
                self._set_aside(QUARANTINE, table, failed, reason)
                rows = rows.only(~failed)
                table = rows.table
        if reading.wanted is not None and reading.wanted in table.column_names:
            wanted = np.asarray(table.column(reading.wanted).combine_chunks().fill_null(False))
            if not wanted.all():
                rows = rows.only(wanted)
        return rows

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        schema = self._plan.schema
        if not batches:
            return schema.empty_table()
        table = pa.Table.from_batches(batches).combine_chunks()
        # Spark sends times in the session's time zone: the numbers are the same, only the type differs.
        return table if table.schema == schema else table.cast(schema)

    def _taken(self, table: pa.Table, number: int) -> Rows:
        """The rows of a route that can be taken. A row comes once for each route, but is set aside only once."""
        route = self._plan.intake.routes[number]
        times, no_time = times_us(table.column(self._plan.intake.time))
        slots = table.column(SLOT).to_numpy()
        self.events += table.num_rows if number == 0 else 0
        self._accounts.count(slots, is_split=route.split)
        good: BoolArray | None = None  # None: all of them
        if no_time is not None and no_time.any():
            if number == 0:
                self._set_aside(QUARANTINE, table, no_time, f"{self._plan.event_time} is null")
            good = ~no_time
        for key in route.keys:
            column = table.column(key)
            if column.null_count:
                missing = np.asarray(column.is_null().combine_chunks())
                fresh = missing if good is None else missing & good
                name = next(each.source or each.text for each in self._plan.intake.columns if each.name == key)
                self._set_aside(QUARANTINE, table, fresh, f"{name} is null, and rows are keyed by it")
                good = ~missing if good is None else good & ~missing
        in_time = times if good is None else times[good]
        if len(in_time):
            newest = int(in_time.max())
            self.newest_us = newest if self.newest_us is None else max(self.newest_us, newest)
        # No row is late for a row-wise query.
        watermark_us = self._watermark_us if route.is_keyed else None
        if watermark_us is not None and len(in_time) and int(in_time.min()) < watermark_us:
            late = is_late(times, watermark_us) if good is None else is_late(times, watermark_us) & good
            if number == self._first_keyed:
                self._set_aside(LATE, table, late, "")
            good = ~late if good is None else good & ~late
        if good is None:
            return Rows(table, times, slots)
        return Rows(table.filter(pa.array(good)), times[good], slots[good])

    def _set_aside(self, name: str, table: pa.Table, chosen: BoolArray, reason: str) -> None:
        count = int(chosen.sum())
        if not count:
            return
        if name == LATE:
            self.late += count
        else:
            self.quarantined += count
        if not self._plan.keep_original:
            return
        original = table.column(ORIGINAL).filter(pa.array(chosen)).combine_chunks()
        fields = original.type
        columns = [original.field(i) for i in range(fields.num_fields)]
        names = [fields.field(i).name for i in range(fields.num_fields)]
        if name == QUARANTINE:
            columns.append(pa.array([reason] * count, pa.string()))
            names.append(REASON)
        self.asides[name].append(pa.table(columns, names=names))
