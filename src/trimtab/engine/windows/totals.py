"""Accumulators that add up, also over frames: count, sum, avg, variance and standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array, float64s, int64s, valid_mask
from trimtab.engine.windows.accumulator import Inputs, Slots
from trimtab.engine.windows.exact_sum import NO_BITS, ExactSums, slide_sums
from trimtab.engine.windows.running import Frames, Parts, prefix_sums
from trimtab.engine.windows.wide_sum import DIGITS_TYPE, WideSums, digits_of, small_values, split_whole

COUNT = pa.field("count", pa.int64())
VARIANCES = {  # what to take off the number of values, and whether to take the root
    "var_samp": (1, False),
    "var_pop": (0, False),
    "stddev_samp": (1, True),
    "stddev_pop": (0, True),
}
SPLIT = 134217729.0  # 2**27 + 1: halves a double's 53 bits (Dekker 1971)
FLOAT_FIELDS = (pa.field("digits", pa.list_(pa.int64())), pa.field("flags", pa.int8()))


def count_by_slot(parts: pa.Array, slots: Slots, rows: Slots) -> Int64Array:
    """Counts of partial results and rows, added up by slot."""
    # Doubles hold the counts exactly below 2**53.
    before = np.bincount(slots.ids, weights=int64s(parts), minlength=slots.count)
    return before.astype(np.int64) + np.bincount(rows.ids, minlength=slots.count)


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

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Differences of running counts."""
        valid = np.ones(len(frames.layout.order), np.bool_)
        for arg in frames.args:
            valid &= valid_mask(arg)[frames.layout.order]
        counts, kept = _counts(frames, valid, parts)
        return pa.array(counts[frames.layout.places]), [] if frames.bounded else [pa.array(kept)]


@dataclass(frozen=True, slots=True)
class WideSum:
    """`sum` and `avg` of whole numbers, decimals and durations, exactly."""

    kind: pa.DataType
    average: bool = False

    @property
    def result(self) -> pa.DataType:
        """A bigint, a decimal with ten more digits (as in Spark), or a duration; an average is a double."""
        if pa.types.is_decimal128(self.kind) and not self.average:
            return pa.decimal128(min(38, self.kind.precision + 10), self.kind.scale)
        if pa.types.is_duration(self.kind):
            return self.kind
        return pa.float64() if self.average else pa.int64()

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
        return self._value(int64s(parts[0]), WideSums.of_arrow(parts[1]))

    def _value(self, counts: Int64Array, sums: WideSums) -> pa.Array:
        """The final values of counts and sums."""
        filled = counts > 0
        if not self.average:
            return sums.as_type(self.result, filled)
        scale = self.kind.scale if pa.types.is_decimal(self.kind) else 0
        return pa.array(sums.as_floats(scale) / np.maximum(counts, 1), mask=~filled)

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Add up all digits; they have room for 2**31 rows, more than a batch has."""
        layout, places = frames.layout, frames.layout.places
        (arg,) = frames.args
        valid = valid_mask(arg)[layout.order]
        counts, kept = _counts(frames, valid, parts)
        small = small_values(arg)
        total = prefix_sums((digits_of(arg) if small is None else small)[layout.order])
        sums = total[frames.ends[places]] - total[frames.first[places]]
        added = total[layout.starts[1:]] - total[layout.fresh]
        if small is not None:
            sums, added = split_whole(sums), split_whole(added)
        state: list[pa.Array] = []
        if not frames.bounded:
            before = WideSums.of_arrow(parts[1]).digits
            sums += before[layout.keys[places]]
            state = [pa.array(kept), WideSums.carried(before + added).to_arrow()]
        return self._value(counts[places], WideSums.carried(sums)), state


@dataclass(frozen=True, slots=True)
class FloatTotal:
    """Sums, averages, variances and their roots of doubles: exact until read, so the order of rows doesn't matter.

    A variance needs the sum of the values and the sum of their squares, the others only the first.
    """

    function: str
    result: pa.DataType = pa.float64()

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """How many, their sum and perhaps the sum of their squares."""
        squares = tuple(field.with_name(f"square_{field.name}") for field in FLOAT_FIELDS)
        return (COUNT, *FLOAT_FIELDS, *(squares if self.function in VARIANCES else ()))

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Add the sums up."""
        valid = valid_mask(rows.args[0])
        known, terms = row_slots.where(valid), self._terms(float64s(rows.args[0])[valid])
        sums = [_sums(parts, i).gather(slots, *bits, known) for i, bits in enumerate(terms)]
        columns = [column for each in sums for column in each.to_arrow()]
        return [pa.array(count_by_slot(parts[0], slots, known)), *columns]

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The sum, average, variance or root; null if there are too few values."""
        is_variance = self.function in VARIANCES
        sums = [_sums(parts, i).read(twice=is_variance) for i in range(1 + is_variance)]
        return self._value(int64s(parts[0]), sums)

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Slide over the rows, once for each sum."""
        layout, places, twice = frames.layout, frames.layout.places, self.function in VARIANCES
        (arg,) = frames.args
        valid = valid_mask(arg)[layout.order]
        counts, kept = _counts(frames, valid, parts)
        sums: list[tuple[FloatArray, FloatArray]] = []
        state = [pa.array(kept)]
        for i, terms in enumerate(self._terms(float64s(arg)[layout.order])):
            before = ExactSums.zeros(len(layout.fresh)) if frames.bounded else _sums(parts, i)
            high, low, *after = slide_sums(
                *terms, valid, frames.first, frames.ends, layout.starts, layout.fresh, *before, twice
            )
            sums.append((high[places], low[places] if twice else low))
            state += ExactSums(*after).to_arrow()
        return self._value(counts[places], sums), [] if frames.bounded else state

    def _terms(self, values: FloatArray) -> list[tuple[Int64Array, Int64Array]]:
        """For each sum, the bits of what to add up. A square is two doubles: rounded, and its rounding error."""
        terms = [(values.view(np.int64), NO_BITS)]
        if self.function in VARIANCES:
            square, error = _exact_product(values, values)
            terms.append((square.view(np.int64), error.view(np.int64)))
        return terms

    def _value(self, counts: Int64Array, sums: list[tuple[FloatArray, FloatArray]]) -> pa.Array:
        """The final values of counts and sums, each sum as two doubles; the second one matters to variances only."""
        if self.function in VARIANCES:
            sample, root = VARIANCES[self.function]
            result = _spread(counts, *sums) / np.maximum(counts - sample, 1)
            return pa.array(np.sqrt(result) if root else result, mask=counts < 1 + sample)
        ((total, _),) = sums
        return pa.array(total / np.maximum(counts, 1) if self.function == "avg" else total, mask=counts == 0)


def _sums(parts: Parts, i: int) -> ExactSums:
    """The sum number `i` among the columns of `FloatTotal.fields`."""
    return ExactSums.of_arrow(*parts[2 * i + 1 : 2 * i + 3])


def _counts(frames: Frames, valid: BoolArray, parts: Parts) -> tuple[Int64Array, Int64Array]:
    """How many valid rows a frame has, by place, and how many each key has had."""
    total = prefix_sums(valid.astype(np.int64))
    counts = total[frames.ends] - total[frames.first]
    if frames.bounded:
        return counts, np.empty(0, np.int64)
    known, layout = int64s(parts[0]), frames.layout
    return counts + known[layout.keys], known + total[layout.starts[1:]] - total[layout.fresh]


def _exact_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The product rounded, and its exact rounding error (unless something over- or underflows)."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = a * b
        a_high = a * SPLIT - (a * SPLIT - a)
        b_high = b * SPLIT - (b * SPLIT - b)
        a_low, b_low = a - a_high, b - b_high
        error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.where(np.isfinite(product) & np.isfinite(error), error, 0.0)


def _exact_add(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sum rounded, and its rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _spread(
    counts: Int64Array, sums: tuple[FloatArray, FloatArray], squares: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """The sum of squared distances from the mean, from the sum and the sum of squares.

    Both come as two doubles, 106 bits: the difference below cancels, and with 53 bits a small
    spread around a large mean would be lost. NaN where a value was not finite.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        count = np.maximum(counts, 1).astype(np.float64)
        mean = sums[0] / count
        # The rounding error of the mean, so that mean + rest is the mean to 106 bits.
        product, error = _exact_product(mean, count)
        rest = ((sums[0] - product) - error + sums[1]) / count
        # sum * (mean + rest), in two doubles
        head, tail = _exact_product(sums[0], mean)
        tail = tail + sums[0] * rest + sums[1] * mean
        total, low = _exact_add(squares[0], -head)
        result = total + (low + (squares[1] - tail))
        # Rounding may give slightly less than zero. NaN stays: maximum keeps it.
        result = np.maximum(result, 0.0)
        return np.where(np.isfinite(sums[0]) & np.isfinite(squares[0]), result, np.nan)
