"""Slots of ONE ROW PER MATCH from the registers of reported matches, a column at a time."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array
from trimtab.engine.match.aggregates import mean
from trimtab.engine.match.compile.registers import Bank, Register, RowLabel, RowRef, folds
from trimtab.engine.match.ir.expression import Aggregate, Const, MatchNumber, RowValue, Side
from trimtab.engine.match.ir.query import Slot
from trimtab.engine.match.kernels.interface import Matches
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.run.binding import decimals
from trimtab.engine.match.run.rowset import Rowset


@dataclass(frozen=True)
class Records:
    """Reported matches: the integers and the floats of each; see `plan.report_fields`."""

    ints: Int64Array
    floats: FloatArray
    fields: tuple[str | Register, ...]
    float_fields: tuple[Register, ...]

    @classmethod
    def of(cls, generated: Generated, matches: Matches) -> Records:
        """The matches that a kernel has reported."""
        count, fields, float_fields = matches.match_count, len(generated.fields), len(generated.float_fields)
        return cls(
            np.asarray(matches.match_ints[: count * fields], np.int64).reshape(count, fields),
            np.asarray(matches.match_floats[: count * float_fields], np.float64).reshape(count, float_fields),
            generated.fields,
            generated.float_fields,
        )

    def field(self, name: str) -> Int64Array:
        """An integer of every match by its name."""
        return self.ints[:, self.fields.index(name)]

    def register(self, register: Register) -> npt.NDArray[Any]:
        """A register's value in every match."""
        if register.bank is Bank.FLOAT:
            return self.floats[:, self.float_fields.index(register)]
        return self.ints[:, self.fields.index(register)]

    @property
    def last(self) -> Int64Array:
        """The last row of each match; for an empty one, the row where the attempt started."""
        return np.where(self.field("end") < 0, self.field("start"), self.field("end"))

    def copied(self) -> Records:
        """The same matches in memory of their own."""
        return Records(self.ints.copy(), self.floats.copy(), self.fields, self.float_fields)

    def reordered(self, order: Int64Array) -> Records:
        """The same matches in another order."""
        return Records(self.ints[order], self.floats[order], self.fields, self.float_fields)


def slot_column(slot: Slot, records: Records, rowset: Rowset) -> pa.Array:
    """One slot of every match."""
    match slot:
        case MatchNumber():
            return pa.array(records.field("number"), pa.int64())
        case RowValue():
            labels = _labels(slot, records) if len(slot.sources) > 1 else None
            return rowset.values(slot, _rows(slot, records), labels)
        case Aggregate():
            return _aggregate(slot, records, rowset)


def _rows(slot: RowValue, records: Records) -> Int64Array:
    place = slot.place
    if place.labels is None and place.offset == 0 and place.shift == 0:
        end = records.field("end")
        return end if place.side is Side.LAST else np.where(end < 0, -1, records.field("start"))
    return records.register(RowRef.at(place)).astype(np.int64, copy=False)


def _labels(slot: RowValue, records: Records) -> Int64Array:
    register = RowLabel.at(slot.place)
    if register is None:
        return np.full(len(records.ints), -1)
    return records.register(register).astype(np.int64, copy=False)


def _aggregate(slot: Aggregate, records: Records, rowset: Rowset) -> pa.Array:
    parts = [records.register(fold) for fold in folds(slot)]
    match slot.function:
        case "count":
            return pa.array(parts[0], pa.int64())
        case "sum":
            return _sum(parts[1], parts[0] == 0, slot.type)
        case "avg":
            return _average(parts[1], parts[0], slot)
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
            # An aggregate over no rows is null, whatever the default of its argument is.
            value = replace(value, default=Const(None, value.type))
            found = rowset.values(value, parts[0].astype(np.int64, copy=False), None)
            return found if found.type == slot.type else found.cast(slot.type)


def _sum(sums: npt.NDArray[Any], none: BoolArray, type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):
        return decimals(sums.astype(np.int64), none if none.any() else None, type_)
    return pa.array(sums, mask=none).cast(type_)


def _average(sums: npt.NDArray[Any], counts: npt.NDArray[Any], slot: Aggregate) -> pa.Array:
    """Sums over counts: floats, intervals, or decimals rounded half up to the type's scale."""
    totals: list[Any]
    if pa.types.is_duration(slot.type):
        totals = [datetime.timedelta(microseconds=each) for each in sums.tolist()]
    elif pa.types.is_decimal(slot.type):
        scale = slot.args[0].type.scale
        totals = [Decimal(each).scaleb(-scale) for each in sums.tolist()]
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sums.astype(np.float64) / counts.astype(np.float64)
        return pa.array(means, mask=np.asarray(counts == 0))
    pairs = zip(totals, counts.tolist(), strict=True)
    return pa.array([mean(total, count, slot.type) for total, count in pairs], slot.type)
