"""Slots of ONE ROW PER MATCH from the registers of ended threads, a column at a time."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.engine.match.compile.registers import Bank, Register, RowLabel, RowRef, bank, folds, label_place
from trimtab.engine.match.ir.expression import Aggregate, Const, MatchNumber, RowValue, Side
from trimtab.engine.match.ir.query import Slot
from trimtab.engine.match.kernels.emit_numeric import fold_kind
from trimtab.engine.match.run.binding import decimals
from trimtab.engine.match.run.reading import RowReader

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Records:
    """Reported matches: a row of integers and one of floats for each; see `plan.report_fields`."""

    ints: Int64Array
    floats: FloatArray
    fields: tuple[str | Register, ...]
    float_fields: tuple[Register, ...]

    def field(self, name: str) -> Int64Array:
        """An integer of every match by its name."""
        return self.ints[:, self.fields.index(name)]

    def register(self, register: Register) -> npt.NDArray[Any]:
        """A register's value in every match."""
        if bank(register) is Bank.FLOAT:
            return self.floats[:, self.float_fields.index(register)]
        return self.ints[:, self.fields.index(register)]

    @property
    def number(self) -> Int64Array:
        """The match numbers."""
        return self.field("number")

    @property
    def start(self) -> Int64Array:
        """The row where each match starts (for an empty one: where it was looked for)."""
        return self.field("start")

    @property
    def end(self) -> Int64Array:
        """The last row of each match, -1 if it is empty."""
        return self.field("end")

    @property
    def last(self) -> Int64Array:
        """The row at which each match was complete; for an empty one, the row where it was looked for."""
        return np.where(self.end < 0, self.start, self.end)

    def copied(self) -> Records:
        """The same matches in memory of their own."""
        return Records(self.ints.copy(), self.floats.copy(), self.fields, self.float_fields)

    def reordered(self, order: Int64Array) -> Records:
        """The same matches in another order."""
        return Records(self.ints[order], self.floats[order], self.fields, self.float_fields)


def slot_column(slot: Slot, records: Records, reader: RowReader) -> pa.Array:
    """One slot of every match."""
    match slot:
        case MatchNumber():
            return pa.array(records.number, pa.int64())
        case RowValue():
            labels = None
            if len(slot.sources) > 1:
                labels = _labels(slot, records)
            return reader.values(slot, _rows(slot, records), labels)
        case Aggregate():
            return _aggregate(slot, records, reader)


def _rows(slot: RowValue, records: Records) -> Int64Array:
    place = slot.place
    if place.labels is None and place.offset == 0 and place.shift == 0:
        if place.side is Side.LAST:
            return records.end
        return np.where(records.end < 0, -1, records.start)
    ref = RowRef(place.labels, place.side, place.offset, place.shift)
    return records.register(ref).astype(np.int64, copy=False)


def _labels(slot: RowValue, records: Records) -> Int64Array:
    place = label_place(slot.place)
    if place is None:
        return np.full(len(records.ints), -1)
    register = RowLabel(place.labels, place.side, place.offset, place.shift)
    return records.register(register).astype(np.int64, copy=False)


def _aggregate(slot: Aggregate, records: Records, reader: RowReader) -> pa.Array:
    kind = fold_kind(slot)
    parts = [records.register(f) for f in folds(slot, kind)]
    match slot.function:
        case "count":
            return pa.array(parts[0], pa.int64())
        case "sum":
            return _sum(parts[1], parts[0] == 0, slot.type)
        case "avg":
            return average(parts[1], parts[0], slot)
        case "stddev_samp" | "stddev_pop" | "var_samp" | "var_pop":
            fewer = 1 if slot.function.endswith("samp") else 0
            few = parts[0] <= fewer
            with np.errstate(divide="ignore", invalid="ignore"):
                spread = parts[2] / (parts[0] - fewer)
                found = np.sqrt(spread) if slot.function.startswith("stddev") else spread
            return pa.array(found, pa.float64(), mask=few)
        case "bool_and" | "bool_or":
            return pa.array(parts[0] == 1, pa.bool_(), mask=np.asarray(parts[0] < 0))
        case _:
            value = slot.args[0]
            assert isinstance(value, RowValue)
            # Of no row at all an aggregate is null, whatever its argument is there.
            value = replace(value, default=Const(None, value.type))
            found = reader.values(value, parts[0].astype(np.int64, copy=False), None)
            return found if found.type == slot.type else found.cast(slot.type)


def _sum(sums: npt.NDArray[Any], none: BoolArray, type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):
        return decimals(sums.astype(np.int64), none if none.any() else None, type_)
    return pa.array(sums, mask=none).cast(type_)


def average(sums: npt.NDArray[Any], counts: npt.NDArray[Any], slot: Aggregate) -> pa.Array:
    """Sums over counts: floats, intervals, or decimals rounded half up to the type's scale."""
    none = np.asarray(counts == 0)
    if pa.types.is_duration(slot.type):
        spans = [
            None if n == 0 else datetime.timedelta(microseconds=s) / n
            for s, n in zip(sums.tolist(), counts.tolist(), strict=True)
        ]
        return pa.array(spans, slot.type)
    if not pa.types.is_decimal(slot.type):
        with np.errstate(divide="ignore", invalid="ignore"):
            return pa.array(sums.astype(np.float64) / counts.astype(np.float64), mask=none)
    scale = slot.args[0].type.scale
    unit = Decimal(1).scaleb(-slot.type.scale)
    with localcontext(prec=76, rounding=ROUND_HALF_UP):
        means = [
            None if n == 0 else (Decimal(int(s)).scaleb(-scale) / int(n)).quantize(unit)
            for s, n in zip(sums.tolist(), counts.tolist(), strict=True)
        ]
    return pa.array(means, slot.type)
