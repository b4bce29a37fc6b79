"""Exact sums of whole numbers and decimals: four digits of 32 bits, checked only when read.

A sum may leave the range of its type and come back, depending on the order of the rows. An error must
not depend on that order, so only the final sum is checked.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array, int64s, valid_mask
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.windows.accumulator import Slots
from trimtab.errors import MatchError

WIDTH = 4
MASK = 0xFFFFFFFF
DIGITS_TYPE = pa.list_(pa.int64(), WIDTH)


def small_values(array: pa.Array) -> Int64Array | None:
    """The values, if no sum of them can leave int64, else None; nulls as zero."""
    if pa.types.is_decimal128(array.type):
        return None
    values = int64s(array)
    most = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return values if most * len(values) < 2**63 else None


def digits_of(array: pa.Array) -> Int64Array:
    """Every value as four digits, lowest first and the highest signed; nulls as zero."""
    if pa.types.is_decimal128(array.type):
        words = _words(array)
        low, high = words[:, 0], words[:, 1]
        if array.null_count:
            known = valid_mask(array)
            low, high = np.where(known, low, 0), np.where(known, high, 0)
        return _split(low, high)
    return split_whole(int64s(array))


def split_whole(values: Int64Array) -> Int64Array:
    """Whole numbers as four digits."""
    return _split(values, values >> 63)


def _split(low: Int64Array, high: Int64Array) -> Int64Array:
    """Pairs of words as four digits."""
    digits = np.empty((len(low), WIDTH), np.int64)
    digits[:, 0], digits[:, 1] = low & MASK, (low >> 32) & MASK
    digits[:, 2], digits[:, 3] = high & MASK, high >> 32
    return digits


def _words(array: pa.Array) -> Int64Array:
    """The 64-bit words of decimals, low and high."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros((len(array), 2), np.int64)
    words = np.frombuffer(data, np.int64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


@dataclass(frozen=True, slots=True)
class WideSums:
    """Many sums, a row of four digits each; all but the highest in [0, 2**32)."""

    digits: Int64Array

    @classmethod
    def carried(cls, digits: Int64Array) -> WideSums:
        """From digits that may have grown past 32 bits."""
        digits = digits.copy()
        for i in range(WIDTH - 1):
            digits[:, i + 1] += digits[:, i] >> 32
            digits[:, i] &= MASK
        return cls(digits)

    @classmethod
    def of_arrow(cls, column: pa.Array) -> WideSums:
        """Read them from their column."""
        return cls(column.flatten().to_numpy(zero_copy_only=False).reshape(-1, WIDTH))

    def to_arrow(self) -> pa.Array:
        """Their column."""
        flat = pa.array(np.ascontiguousarray(self.digits).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, WIDTH)

    def gather(self, slots: Slots, values: pa.Array, rows: Slots) -> WideSums:
        """Add up these sums, and the values of rows, by slot."""
        before = _add(self.digits, slots.ids, slots.count)
        small = small_values(values)
        if small is None:
            return WideSums.carried(before + _add(digits_of(values), rows.ids, slots.count))
        return WideSums.carried(before + split_whole(_add_small(small, rows.ids, slots.count)))

    def as_type(self, kind: pa.DataType, filled: BoolArray) -> pa.Array:
        """The sums as `kind`, null where not `filled`; raises MatchError `window.overflow` if one does not fit."""
        low = self.digits[:, 0] | (self.digits[:, 1] << 32)
        high = self.digits[:, 2] | (self.digits[:, 3] << 32)
        # The highest digit is signed and 32 bits wide, unless the sum is past 128 bits.
        fits = (self.digits[:, 3] >= -(2**31)) & (self.digits[:, 3] < 2**31)
        is_decimal = pa.types.is_decimal128(kind)
        if not is_decimal:
            fits &= high == low >> 63
        if bool(fits[filled].all()):
            with suppress(pa.ArrowInvalid):
                return _decimals(low, high, kind, filled) if is_decimal else pa.array(low, mask=~filled).cast(kind)
        hint = "add up doubles instead: sum(cast(x AS DOUBLE))"
        raise MatchError("window.overflow", f"a sum does not fit into {kind}", hint)

    def as_floats(self, scale: int = 0) -> FloatArray:
        """The sums as doubles, each divided by 10**scale."""
        total = np.zeros(len(self.digits))
        for i in reversed(range(WIDTH)):
            total = total * 2.0**32 + self.digits[:, i]
        return total / 10.0**scale


@column_kernel
def _add(values: Int64Array, ids: Int64Array, count: int) -> Int64Array:
    """Add up rows of digits by slot. A digit has room for 2**31 of them."""
    total = np.zeros((count, WIDTH), np.int64)
    for i in range(ids.size):
        for j in range(WIDTH):
            total[ids[i], j] += values[i, j]
    return total


@column_kernel
def _add_small(values: Int64Array, ids: Int64Array, count: int) -> Int64Array:
    """Add up whole numbers by slot."""
    total = np.zeros(count, np.int64)
    for i in range(ids.size):
        total[ids[i]] += values[i]
    return total


def _decimals(low: Int64Array, high: Int64Array, kind: pa.DataType, filled: BoolArray) -> pa.Array:
    """Decimals from their words; raises ArrowInvalid if one does not fit."""
    words = np.ascontiguousarray(np.stack([low, high], axis=1))
    words[~filled] = 0
    valid = pa.array(filled).buffers()[1]
    array = pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(low), [valid, pa.py_buffer(words)])
    array.validate(full=True)
    return array.cast(kind)
