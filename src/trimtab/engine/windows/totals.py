"""Accumulators that add up: count, sum, avg, variance and standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import FloatArray, Int64Array, float64s, int64s, valid_mask
from trimtab.engine.windows.accumulator import Inputs, Slots
from trimtab.engine.windows.exact_columns import NO_BITS, ExactSums
from trimtab.engine.windows.moments import exact_product, spread
from trimtab.engine.windows.wide_sum import DIGITS_TYPE, WideSums

COUNT = pa.field("count", pa.int64())
FLOAT_FIELDS = (pa.field("digits", pa.list_(pa.int64())), pa.field("flags", pa.int8()))


def count_by_slot(parts: pa.Array, slots: Slots, rows: Slots) -> Int64Array:
    """Counts of partial results and rows, added up by slot."""
    # Doubles hold the counts exactly below 2**53.
    before = np.bincount(slots.ids, weights=int64s(parts), minlength=slots.count)
    return before.astype(np.int64) + np.bincount(rows.ids, minlength=slots.count)


def sum_type(kind: pa.DataType) -> pa.DataType:
    """The type of a sum: bigint, double, or a decimal with ten more digits (as in Spark)."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_decimal128(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return kind if pa.types.is_duration(kind) else pa.float64()


@dataclass(frozen=True, slots=True)
class Count:
    """`count(x)`: the rows where the argument is not null; without an argument, all rows."""

    result: pa.DataType = pa.int64()
    fields: tuple[pa.Field, ...] = (COUNT,)

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Add the counts up."""
        for arg in rows.args:
            row_slots = row_slots.where(valid_mask(arg))
        return [pa.array(count_by_slot(parts[0], slots, row_slots))]

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The counts."""
        return parts[0]


@dataclass(frozen=True, slots=True)
class WideSum:
    """`sum` and `avg` of whole numbers, decimals and durations, exactly."""

    kind: pa.DataType
    average: bool = False

    @property
    def result(self) -> pa.DataType:
        """The type of a sum of these numbers; an average is a double."""
        return pa.float64() if self.average else sum_type(self.kind)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """How many, and their sum."""
        return (COUNT, pa.field("digits", DIGITS_TYPE))

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Add the sums up; a null adds zero."""
        (arg,) = rows.args
        known = row_slots.where(valid_mask(arg))
        sums = WideSums.of_arrow(parts[1]).gather(slots, arg, row_slots)
        return [pa.array(count_by_slot(parts[0], slots, known)), sums.to_arrow()]

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The sum or average; null without values."""
        return self.value(int64s(parts[0]), WideSums.of_arrow(parts[1]))

    def value(self, counts: Int64Array, sums: WideSums) -> pa.Array:
        """The final values of counts and sums."""
        filled = counts > 0
        if not self.average:
            return sums.as_type(self.result, filled)
        scale = self.kind.scale if pa.types.is_decimal(self.kind) else 0
        return pa.array(sums.as_floats(scale) / np.maximum(counts, 1), mask=~filled)


@dataclass(frozen=True, slots=True)
class FloatSum:
    """`sum` and `avg` of doubles: exact until it is read, so the order of rows doesn't matter."""

    average: bool = False
    result: pa.DataType = pa.float64()
    fields: tuple[pa.Field, ...] = (COUNT, *FLOAT_FIELDS)

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Add the sums up."""
        valid = valid_mask(rows.args[0])
        values, known = float64s(rows.args[0])[valid], row_slots.where(valid)
        sums = ExactSums.of_arrow(*parts[1:]).gather(slots, values.view(np.int64), NO_BITS, known)
        return [pa.array(count_by_slot(parts[0], slots, known)), *sums.to_arrow()]

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The sum or average; null without values."""
        return self.value(int64s(parts[0]), ExactSums.of_arrow(*parts[1:]).read()[0])

    def value(self, counts: Int64Array, sums: FloatArray) -> pa.Array:
        """The final values of counts and rounded sums."""
        if self.average:
            sums = sums / np.maximum(counts, 1)
        return pa.array(sums, mask=counts == 0)


@dataclass(frozen=True, slots=True)
class Variance:
    """`var_pop`, `var_samp` and their roots, from exact sums of values and of squares."""

    sample: bool
    root: bool
    result: pa.DataType = pa.float64()

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """How many, their sum and the sum of their squares."""
        squares = (field.with_name(f"square_{field.name}") for field in FLOAT_FIELDS)
        return (COUNT, *FLOAT_FIELDS, *squares)

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Add both sums up. A square is two doubles: rounded, and its rounding error."""
        valid = valid_mask(rows.args[0])
        values, known = float64s(rows.args[0])[valid], row_slots.where(valid)
        square, error = exact_product(values, values)
        sums = ExactSums.of_arrow(*parts[1:3]).gather(slots, values.view(np.int64), NO_BITS, known)
        squares = ExactSums.of_arrow(*parts[3:]).gather(slots, square.view(np.int64), error.view(np.int64), known)
        counts = pa.array(count_by_slot(parts[0], slots, known))
        return [counts, *sums.to_arrow(), *squares.to_arrow()]

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The variance or its root; null if there are too few values."""
        sums, squares = ExactSums.of_arrow(*parts[1:3]), ExactSums.of_arrow(*parts[3:])
        return self.value(int64s(parts[0]), sums.read(twice=True), squares.read(twice=True))

    def value(
        self, counts: Int64Array, sums: tuple[FloatArray, FloatArray], squares: tuple[FloatArray, FloatArray]
    ) -> pa.Array:
        """The final values of counts and sums, each sum as two doubles."""
        least = 2 if self.sample else 1
        result = spread(counts, sums, squares) / np.maximum(counts - (least - 1), 1)
        return pa.array(np.sqrt(result) if self.root else result, mask=counts < least)
