"""Sorts out an engine's rows: those that can be taken, those that are late, and those that go to quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import BatchTime, is_late
from trimtab.sources.source import UNDECODED
from trimtab.worker.accounts import Accounts
from trimtab.worker.intake import ORIGINAL, PARTITION, POSITION, ROUTE, SLOT, SOURCE_UNDECODED, Reading
from trimtab.worker.orders import LATE, QUARANTINE, QUERY, REASON, BoolArray, EnginePlan, Int64Array

Column: TypeAlias = pa.Array | pa.ChunkedArray
_PLACES = (("partition", PARTITION), ("position", POSITION))
"""What quarantine says of where a row was, and the columns of tier 1 that say it."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that can be taken, with their times and slots as arrays, and with what queries share that read them all.

    `table` has others, too, if `chosen` has the numbers of these in it: what a WHERE lets through is copied column by
    column, as queries read them, and not with the columns of all others.
    """

    table: pa.Table
    times: Int64Array
    slots: Int64Array
    chosen: Int64Array | None = None
    memo: Memo = field(default_factory=Memo)
    _columns: dict[str, Column] = field(default_factory=dict)
    _parts: dict[bytes, Rows] = field(default_factory=dict)  # by which of the rows they are

    @cached_property
    def distinct(self) -> Int64Array:
        """The slots, sorted and each once."""
        return distinct(self.slots)

    @property
    def column_names(self) -> list[str]:
        """The columns that there are."""
        return list(self.table.column_names)

    def column(self, name: str) -> Column:
        """A column of these rows: the same memory for all who read it."""
        if name not in self._columns:
            whole = self.table.column(name)
            # Measured: up to five times as quick as to filter.
            self._columns[name] = whole if self.chosen is None else whole.take(pa.array(self.chosen))
        return self._columns[name]

    def only(self, chosen: BoolArray) -> Rows:
        """Some of the rows."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        of_table = rows if self.chosen is None else self.chosen[rows]
        return Rows(self.table, self.times[rows], self.slots[rows], of_table)

    def only_once(self, chosen: BoolArray) -> Rows:
        """Some of the rows, the same object for all queries that choose the same ones."""
        if chosen.all():
            return self
        key = np.packbits(chosen).tobytes()
        if key not in self._parts:
            self._parts[key] = self.only(chosen)
        return self._parts[key]


class _Verdict(NamedTuple):
    """Rows that are set aside, and why; `is_first`: no other route has put them out already."""

    output: str
    reason: str
    rows: BoolArray
    is_first: bool
    query: str | None = None  # None: no query can take them


class SortingOut:
    """The rows of one engine's batch, sorted out by what the batch's plan says about `time`.

    events      how many rows there were
    asides      the rows that were set aside, by output; empty if no sink takes them
    """

    def __init__(self, plan: EnginePlan, time: BatchTime, accounts: Accounts) -> None:
        self._plan, self._time, self._accounts = plan, time, accounts
        keyed = [number for number, route in enumerate(plan.intake.routes) if route.is_keyed]
        self._first_keyed = keyed[0] if keyed else None
        self.late = self.quarantined = self.events = 0
        self.asides: dict[str, list[pa.Table]] = {LATE: [], QUARANTINE: []}

    def routes(self, batches: Sequence[pa.RecordBatch]) -> list[Rows]:
        """The rows of each route that can be taken."""
        table, routes = self._taken_when_read(self._table(batches)), self._plan.intake.routes
        if len(routes) == 1:
            return [self._taken(table, 0)]
        numbers = table.column(ROUTE)
        return [self._taken(table.filter(pc.equal(numbers, i)), i) for i in range(len(routes))]

    def set_aside_when_read(self, given: pa.Table) -> None:
        """Put rows into quarantine that were set aside when they were read, as `taken_and_aside` gives them."""
        count = given.num_rows
        where = given.select(range(given.num_columns - len(UNDECODED), given.num_columns))
        self.quarantined += count
        self.events += count
        if self._plan.keep_original:
            rows = given.select(range(given.num_columns - len(UNDECODED)))
            for name, column in self._of_source(count, dict(zip(where.column_names, where.columns, strict=True))):
                rows = _with_column(rows, name, column)
            rows = _with_column(rows, QUERY, pa.nulls(count, pa.string()))
            self.asides[QUARANTINE].append(_with_column(rows, REASON, where.column("reason")))

    def _of_source(self, count: int, known: Mapping[str, Column]) -> Iterator[tuple[str, Column]]:
        """Where rows of trimtab's own source came from, as far as known, and the values that couldn't be decoded."""
        for name in UNDECODED.names[:-1] if self._plan.intake.is_of_source else ():
            yield f"source_{name}", known[name] if name in known else pa.nulls(count, UNDECODED.field(name).type)

    def wanted(self, reading: Reading, rows: Rows) -> Rows:
        """The rows that the query's WHERE lets through; those whose columns can't be computed are set aside."""
        if reading.failed is not None:
            failures = rows.column(reading.failed)
            if pc.any(failures, min_count=0).as_py():
                failed = np.asarray(failures.combine_chunks())
                reason = f"query {reading.query} can't compute its columns of this row"
                self._set_aside(QUARANTINE, rows, failed, reason, reading.query)
                rows = rows.only_once(~failed)
        if reading.wanted is not None and reading.wanted in rows.column_names:
            rows = rows.only_once(np.asarray(rows.column(reading.wanted).combine_chunks().fill_null(False)))
        return rows

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        schema = self._plan.schema
        if not batches:
            return pa.Table.from_batches([], schema)  # ten times as quick as an empty table, whose columns have chunks
        table = pa.Table.from_batches(batches).combine_chunks()
        # Spark sends times in the session's time zone: the numbers are the same, only the type differs.
        return table if table.schema == schema else table.cast(schema)

    def _taken_when_read(self, table: pa.Table) -> pa.Table:
        """The rows without those that were set aside when they were read: through the JVM they come with the others."""
        if SOURCE_UNDECODED not in table.column_names:
            return table
        is_taken = table.column(SOURCE_UNDECODED).is_null()
        if not pc.all(is_taken, min_count=0).as_py():
            others = table.filter(pc.invert(is_taken))
            if ROUTE in others.column_names:
                others = others.filter(pc.equal(others.column(ROUTE), 0))
            where = [others.column(PARTITION), *others.column(SOURCE_UNDECODED).combine_chunks().flatten()]
            original, fields = list[pa.Array](), list[pa.Field]()
            if self._plan.keep_original:
                whole = others.column(ORIGINAL).combine_chunks()
                original, fields = whole.flatten(), list(whole.type)
            self.set_aside_when_read(pa.Table.from_arrays([*original, *where], schema=pa.schema([*fields, *UNDECODED])))
            table = table.filter(is_taken)
        return table.drop_columns([SOURCE_UNDECODED])

    def _taken(self, table: pa.Table, number: int) -> Rows:
        """The rows of a route that can be taken."""
        route = self._plan.intake.routes[number]
        times, no_time = times_us(table.column(self._plan.intake.time))
        slots = table.column(SLOT).to_numpy()
        self.events += table.num_rows if number == 0 else 0
        self._accounts.count(slots, is_split=route.split)
        good: BoolArray | None = None  # None: all of them
        for verdict in self._verdicts(table, number, times, no_time):
            fresh = verdict.rows if good is None else verdict.rows & good
            if fresh.any():
                if verdict.is_first:
                    self._set_aside(verdict.output, table, fresh, verdict.reason, verdict.query)
                good = ~fresh if good is None else good & ~fresh
        if good is None:
            return Rows(table, times, slots)
        return Rows(table.filter(pa.array(good)), times[good], slots[good])

    def _verdicts(
        self, table: pa.Table, number: int, times: Int64Array, no_time: BoolArray | None
    ) -> Iterator[_Verdict]:
        """Which rows of a route are set aside, in this order. A row comes once for each route, but is put out once."""
        route, event_time, is_first = self._plan.intake.routes[number], self._plan.event_time, number == 0
        watermark_us = self._time.before.watermark_us
        # Of rows of trimtab's own sources, the task that reads them knows which are too far ahead.
        latest_us = None if self._plan.intake.is_of_source else self._time.latest_us
        if no_time is not None:
            yield _Verdict(QUARANTINE, f"{event_time} is null", no_time, is_first)
        if latest_us is not None and len(times) and int(times.max()) > latest_us:
            yield _Verdict(QUARANTINE, f"{event_time} is too far ahead of the clock", times > latest_us, is_first)
        if PARTITION in table.column_names and (missing := _nulls(table, PARTITION)) is not None:
            reason = f"{self._plan.intake.partition} is null, and it names the partition"
            yield _Verdict(QUARANTINE, reason, missing, is_first)
        # No row is late for a row-wise query. For the others it is decided before the keys are looked at: a late row
        # whose key is null on one route only would otherwise be dropped by the others without being put out.
        if route.is_keyed and watermark_us is not None and len(times) and int(times.min()) < watermark_us:
            yield _Verdict(LATE, "", is_late(times, watermark_us), number == self._first_keyed)
        for key in route.keys:
            if (missing := _nulls(table, key)) is not None:
                name = next(each.source or each.text for each in self._plan.intake.columns if each.name == key)
                queries = ", ".join(each.query for each in self._plan.intake.readings if each.route == number)
                yield _Verdict(QUARANTINE, f"{name} is null, and rows are keyed by it", missing, True, queries)

    def _set_aside(self, name: str, table: Rows | pa.Table, chosen: BoolArray, reason: str, query: str | None) -> None:
        count = int(chosen.sum())
        if not count:
            return
        if name == LATE:
            self.late += count
        else:
            self.quarantined += count
        if not self._plan.keep_original:
            return
        mask = pa.array(chosen)
        original = table.column(ORIGINAL).filter(mask).combine_chunks()
        names = [field.name for field in original.type]
        rows = pa.table([original.field(number) for number in range(len(names))], names=names)
        if name == QUARANTINE:
            known = {of: table.column(sent).filter(mask) for of, sent in _PLACES if sent in table.column_names}
            for column, values in self._of_source(count, known):
                rows = _with_column(rows, column, values)
            for column, value in ((QUERY, query), (REASON, reason)):
                rows = _with_column(rows, column, pa.array([value] * count, pa.string()))
        self.asides[name].append(rows)


def distinct(slots: Int64Array) -> Int64Array:
    """Sorted, each once: hashed first, which is far cheaper than sorting if many rows share few keys."""
    return np.sort(pc.unique(pa.array(slots)).to_numpy())


def _with_column(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows with a further column, whose name is changed if the rows have it already."""
    while name.lower() in {known.lower() for known in rows.column_names}:
        name += "_"
    return rows.append_column(name, values)


def _nulls(table: pa.Table, name: str) -> BoolArray | None:
    """Which rows have no value in a column; None: all have one."""
    column = table.column(name)
    return np.asarray(column.is_null().combine_chunks()) if column.null_count else None
