"""The splitter in plain Python: which engine each row goes to, and the head of the rows.

On Spark, expressions in the JVM do the same (`trimtab/spark/splitter.py`, `trimtab/spark/heads.py`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import ONLY
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.worker.intake import PARTITION, ROUTE, SLOT, Intake, Route
from trimtab.worker.orders import BoolArray, Head, Int32Array, Int64Array, Orders


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits the rows of one batch."""

    intake: Intake
    orders: Orders

    def split(self, table: pa.Table) -> tuple[Head, list[pa.Table]]:
        """The head of these rows, and the rows of each engine."""
        head, wanted = self.head(table), self._wanted(table)
        if wanted is not None:
            table = table.filter(pa.array(wanted))
        routes, kept = self.intake.routes, _beside_slots(table.schema, self.intake)
        copies = []
        engines = []
        for number, route in enumerate(routes):
            slots = table.column(slot_of(number))
            engines.append(self._engines(table, route, slots.to_numpy()))
            copy = table.select(kept).append_column(SLOT, slots)
            if len(routes) > 1:
                copy = copy.append_column(ROUTE, pa.array(np.full(table.num_rows, number, np.int32)))
            copies.append(copy)
        rows, owners = pa.concat_tables(copies).combine_chunks(), np.concatenate(engines)
        order = np.argsort(owners.astype(np.int16), kind="stable")  # a radix sort, as there are at most 32,768 engines
        ends = np.searchsorted(owners[order], np.arange(self.orders.engines + 1))
        rows = rows.take(pa.array(order))
        return head, [rows.slice(start, end - start) for start, end in itertools.pairwise(ends)]

    def head(self, table: pa.Table) -> Head:
        """The head of these rows, also of those that no query wants."""
        times, no_time = times_us(table.column(self.intake.time))
        counts = np.ones(len(times), np.bool_) if no_time is None else ~no_time
        if (latest_us := self.orders.time.latest_us) is not None:
            counts &= times <= latest_us
        if PARTITION not in table.column_names:
            newest_us = {ONLY: int(times[counts].max())} if counts.any() else {}
            return Head(table.num_rows, newest_us)
        names = table.column(PARTITION)
        counts &= np.asarray(names.is_valid())
        counted = pa.table({"name": names.filter(pa.array(counts)), "time": pa.array(times[counts])})
        found = counted.group_by("name").aggregate([("time", "max")])
        newest_us = dict(zip(found.column("name").to_pylist(), found.column("time_max").to_pylist(), strict=True))
        return Head(table.num_rows, newest_us)

    def _wanted(self, table: pa.Table) -> BoolArray | None:
        """Which rows some query wants; None: all of them."""
        if not self.intake.is_filtered:
            return None
        wanted = np.zeros(table.num_rows, np.bool_)
        for reading in self.intake.readings:
            wanted |= _true(table, str(reading.wanted))
            if reading.failed is not None:
                wanted |= _true(table, reading.failed)
        return wanted

    def _engines(self, table: pa.Table, route: Route, slots: Int64Array) -> Int32Array:
        """The engine of each row: that of its key group, or of its share if its key is spread."""
        engines: Int32Array = self.orders.owner[slots >> GROUP_SHIFT]
        if route.split and len(self.orders.spread):
            arrivals = sorted({reading.arrival for reading in self.intake.split_readings})
            mixed = sum(table.column(name).to_numpy() * (2 * n + 1) for n, name in enumerate(arrivals))
            shares = np.mod(mixed, self.orders.shares.shape[1])
            for slot, owners in zip(self.orders.spread, self.orders.shares, strict=True):
                engines = np.where(slots == slot, owners[shares], engines)
        return engines


def _true(table: pa.Table, name: str) -> BoolArray:
    return np.asarray(pc.fill_null(table.column(name), False).combine_chunks())


def slot_of(route: int) -> str:
    """The column with the slot of each row on a route."""
    return f"{SLOT}{route}"


def arriving_schema(schema: pa.Schema, intake: Intake) -> pa.Schema:
    """The columns of rows at their engines, made from rows with this schema."""
    fields = [*(schema.field(name) for name in _beside_slots(schema, intake)), pa.field(SLOT, pa.int64())]
    return pa.schema([*fields, pa.field(ROUTE, pa.int32())] if len(intake.routes) > 1 else fields)


def _beside_slots(schema: pa.Schema, intake: Intake) -> list[str]:
    slots = {slot_of(number) for number in range(len(intake.routes))}
    return [name for name in schema.names if name not in slots]
