"""Tier 1 over Arrow columns, in a worker: from rows of the stream to the rows of each engine, without the JVM.

The columns are those of `spark/tier_one.py`, with the same names, types, hashes and slots, so that an engine can't tell
who computed them. What can't be promised to be the same takes the JVM's way: see `obstacle_to_columns`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import single
from trimtab.rowwise.columnar import obstacle
from trimtab.rowwise.types import plain
from trimtab.worker.column_splitter import arrivals_mixed, engines_of, head_of
from trimtab.worker.computing import Columns, as_sent, computed_columns
from trimtab.worker.hashes import Hashes
from trimtab.worker.intake import (
    ORIGINAL,
    PARTITION,
    POSITION,
    ROUTE,
    SLOT,
    SOURCE_PARTITION,
    SOURCE_POSITION,
    Intake,
    Reading,
)
from trimtab.worker.left_out import left_to_engines
from trimtab.worker.orders import BoolArray, Head, Int64Array, Orders
from trimtab.worker.row_hash import has_columnar_hash
from trimtab.worker.set_aside import placed


def obstacle_to_columns(intake: Intake, schema: pa.Schema) -> str | None:
    """Why tier 1 can't be the same over columns as in Spark, and so takes the JVM's way; None: it can."""
    for column in intake.columns:
        if column.source is None and (reason := obstacle(column.text, schema)) is not None:
            return f"{column.text}: {reason}"
        kind = column.type if column.source is None else schema.field(column.source).type
        if kind is not None and not has_columnar_hash(kind):
            return f"{column.source or column.text} is {kind}, which only Spark can hash"
    by = intake.partition
    if by not in (None, SOURCE_PARTITION) and not _has_name_text(kind := schema.field(by).type):
        return f"{intake.partition} is {kind}, which only Spark can use as the name of a partition"
    return None


@dataclass(frozen=True, slots=True)
class _Made:
    """Rows of tier 1 before they are split. `slots`: of each row, by route."""

    columns: Columns
    slots: list[Int64Array]


@dataclass(frozen=True)
class ColumnTierOne:
    """Tier 1 of one stream, whose rows have the columns of `schema`. There is no `obstacle_to_columns`."""

    intake: Intake
    schema: pa.Schema
    key_groups: int
    _: KW_ONLY
    keep_original: bool

    @cached_property
    def event_time(self) -> str:
        """The stream's column with the time of each row."""
        return str(next(column.source for column in self.intake.columns if column.name == self.intake.time))

    @property
    def has_places(self) -> bool:
        """Whether rows come and go with their places in the source, as an engine may put them into quarantine."""
        return self.keep_original and self.intake.is_of_source

    def sent_schema(self) -> pa.Schema:
        """The columns of the rows as they are sent."""
        rows = self.schema.empty_table()
        return self.sent(placed(rows, "", None) if self.has_places else rows).schema

    def sent(self, rows: pa.Table) -> pa.Table:
        """What is sent to the engines: a row for each route of every row that a query wants."""
        columns = self._kept(self._computed(rows))
        made = self._made(columns)
        count, routes = len(columns[self.intake.time]), len(self.intake.routes)
        numbers = np.tile(np.arange(routes), count)
        return self._table(made, np.repeat(np.arange(count), routes), numbers)

    def split(
        self, rows: pa.Table, orders: Orders, partitions: Sequence[tuple[str, int]] = (), *, is_complete: bool = True
    ) -> tuple[Head, list[pa.Table]]:
        """The head of these rows, and what is sent to each engine.

        partitions   of the source's partitions, one after another: the name, and how many of the rows it has; none if
                     a column of the stream names a row's partition
        is_complete  False: without what engines can make themselves
        """
        later = frozenset[str]() if is_complete else self._left_to_engines
        columns = self._computed(rows, later)
        # Of rows of trimtab's own sources, those that are too far ahead were set aside when they were read.
        latest_us = None if self.intake.is_of_source else orders.time.latest_us
        head = _head_of(columns[self.intake.time], columns.get(PARTITION), latest_us, partitions)
        columns = self._kept(columns)
        left_out = frozenset[str]() if is_complete else self.hashes.left_out(columns)
        made = self._made(columns, frozenset() if len(orders.spread) else left_out)
        count = len(made.columns[self.intake.time])
        mixed = arrivals_mixed(self.intake, made.columns, count) if len(orders.spread) else None
        engines = np.concatenate(
            [engines_of(r, s, mixed, orders) for r, s in zip(self.intake.routes, made.slots, strict=True)]
        )
        order = np.argsort(engines.astype(np.int16), kind="stable")  # a radix sort, as there are at most 32,768 engines
        ends = np.searchsorted(engines[order], np.arange(orders.engines + 1))
        numbers, places = np.divmod(order, max(count, 1))
        table = self._table(made, places, numbers, left_out)
        return head, [table.slice(start, end - start) for start, end in itertools.pairwise(ends.tolist())]

    # Columns -----------------------------------------------------------------------------------

    def _computed(self, rows: pa.Table, later: frozenset[str] = frozenset()) -> Columns:
        """The columns of tier 1 but for the hashes, also of rows that no query wants; without those computed later."""
        intake = self.intake
        columns = {c.name: as_sent(rows.column(c.source)) for c in intake.columns if c.source is not None}
        columns |= computed_columns(intake, rows, {c.name for c in intake.columns} - later)
        if self.keep_original:
            originals = [as_sent(rows.column(name)) for name in self.schema.names]
            fields = [pa.field(n, each.type) for n, each in zip(self.schema.names, originals, strict=True)]
            columns[ORIGINAL] = pa.StructArray.from_arrays(originals, fields=fields)
        if self.has_places:
            columns[PARTITION] = as_sent(rows.column(SOURCE_PARTITION))
            columns[POSITION] = as_sent(rows.column(SOURCE_POSITION))
        if intake.partition not in (None, SOURCE_PARTITION):
            columns[PARTITION] = single(rows.column(intake.partition)).cast(pa.string())
        return columns

    def _kept(self, columns: Columns) -> Columns:
        """The columns, only of rows that some query wants or that have failed for one."""
        if not self.intake.is_filtered:
            return columns

        def holds(reading: Reading) -> BoolArray:
            wanted: BoolArray = _true(columns[str(reading.wanted)])
            return wanted if reading.failed is None else wanted | _true(columns[reading.failed])

        kept = np.logical_or.reduce([holds(reading) for reading in self.intake.readings])
        if kept.all():
            return columns
        mask = pa.array(kept)
        return {name: column.filter(mask) for name, column in columns.items()}

    def _made(self, columns: Columns, left_out: frozenset[str] = frozenset()) -> _Made:
        """The columns that are sent, in their order, with the hashes that break ties; and the slots."""
        count = len(columns[self.intake.time])
        sent = {name: columns[name] for name in self.hashes.names if name in columns}
        sent |= self.hashes.arrivals(columns, count, {*self.hashes.arrival_names} - left_out)
        sent |= {name: columns[name] for name in (ORIGINAL, PARTITION, POSITION) if name in columns}
        return _Made(sent, [self.hashes.slots(route, columns, count) for route in self.intake.routes])

    def _table(
        self, made: _Made, places: Int64Array, numbers: Int64Array, left_out: frozenset[str] = frozenset()
    ) -> pa.Table:
        """The rows at these places, each on the route with that number."""
        taken = pa.array(places)
        columns = {name: column.take(taken) for name, column in made.columns.items() if name not in left_out}
        if len(made.slots) > 1:
            columns[ROUTE] = pa.array(numbers.astype(np.int32))
        if SLOT in left_out:
            return pa.table(columns)
        slots = np.stack(made.slots)[numbers, places]
        return pa.table(columns | {SLOT: pa.array(slots)})

    @cached_property
    def _left_to_engines(self) -> frozenset[str]:
        return left_to_engines(self.hashes, self.schema)

    @cached_property
    def hashes(self) -> Hashes:
        """The hashes of the rows."""
        return Hashes(self.intake, self.key_groups, self.keep_original)


def _head_of(
    times: pa.Array, names: pa.Array | None, latest_us: int | None, partitions: Sequence[tuple[str, int]]
) -> Head:
    if not partitions:
        return head_of(times, names, latest_us)
    newest_us, start = dict[str, int](), 0
    for name, count in partitions:
        for at_us in head_of(times.slice(start, count), None, latest_us).newest_us.values():
            newest_us[name] = max(at_us, newest_us.get(name, at_us))
        start += count
    return Head(len(times), newest_us)


def _has_name_text(kind: pa.DataType) -> bool:
    """Whether Arrow's text of a value is Spark's."""
    kind = plain(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind))


def _true(column: pa.Array) -> BoolArray:
    return np.asarray(column.fill_null(False))
