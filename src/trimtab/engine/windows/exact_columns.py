"""Exact sums as columns: one sum per row, kept as a short list of digits.

A sum is a list `[first, digit, digit ...]`: `first` is the place of the lowest digit plus one, with
the sign of the sum; the digits are 32 bits each, neither end zero. Zero is the empty list. So equal
sums are equal lists, whatever was added in whatever order. Values that are not finite only set a
flag, because no finite number changes their sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import FloatArray, Int64Array, int64s
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.windows.accumulator import Slots
from trimtab.engine.windows.exact_sum import DIGITS, MINUS, NAN, PLUS, add, carry, magnitude, nearest, special
from trimtab.engine.windows.lists import put_together, taken_apart, with_room
from trimtab.machine_code.kernel import kernel

NO_BITS = np.empty(0, np.int64)


class ExactSums(NamedTuple):
    """Many exact sums: sum i is `lists[offsets[i]:offsets[i + 1]]` and `flags[i]`."""

    lists: Int64Array
    offsets: Int64Array
    flags: Int64Array

    @classmethod
    def zeros(cls, count: int) -> ExactSums:
        """`count` empty sums."""
        return cls(NO_BITS, np.zeros(count + 1, np.int64), np.zeros(count, np.int64))

    @classmethod
    def of_arrow(cls, lists: pa.Array, flags: pa.Array) -> ExactSums:
        """Read them from their two columns."""
        return cls(*taken_apart(lists), int64s(flags))

    def to_arrow(self) -> tuple[pa.Array, pa.Array]:
        """Their two columns: list<int64> and int8."""
        return put_together(self.lists, self.offsets), pa.array(self.flags, pa.int8())

    def gather(self, slots: Slots, bits: Int64Array, extra: Int64Array, rows: Slots) -> ExactSums:
        """Add up these sums, and rows given as the bits of doubles, by slot.

        `extra` is a second double per row, or empty.
        """
        return ExactSums(*_gather(*self, *slots.ordered, bits, extra, *rows.ordered))

    def read(self, *, twice: bool = False) -> tuple[FloatArray, FloatArray]:
        """Every sum rounded to a double; with `twice`, also the rest of it, rounded again (otherwise zero)."""
        return _read(*self, twice)


@kernel
def flag_of(bits: int) -> int:
    """The flag of a double's bits: 0 if it is finite."""
    if (bits >> 52) & 0x7FF != 0x7FF:
        return 0
    if bits & 0xFFFFFFFFFFFFF:
        return NAN
    return MINUS if bits < 0 else PLUS


@kernel
def load(lists: Int64Array, start: int, stop: int, digits: Int64Array) -> tuple[int, int]:
    """Add a list to `digits`; return its lowest and highest place (low > high for zero)."""
    if stop == start:
        return DIGITS, -1
    first = abs(lists[start]) - 1
    sign = 1 if lists[start] > 0 else -1
    for i in range(start + 1, stop):
        digits[first + i - start - 1] += sign * lists[i]
    return first, first + stop - start - 2


@kernel
def store(digits: Int64Array, low: int, high: int, out: Int64Array, at: int, size: Int64Array) -> int:
    """Write `digits` as a list to `out[at:]` and clear them; return where the list ends.

    `size` is scratch space. `out` has room for DIGITS more numbers.
    """
    if high < low:
        return at
    carry(digits, low, high)
    top = high + 1
    sign = magnitude(digits, low, top, size)
    for i in range(low, top + 1):
        digits[i] = 0
    while low <= top and size[low] == 0:
        low += 1
    while top >= low and size[top] == 0:
        top -= 1
    if top < low:
        return at
    out[at] = sign * (low + 1)
    for i in range(low, top + 1):
        out[at + 1 + i - low] = size[i]
    return at + 2 + top - low


@column_kernel
def _gather(
    lists: Int64Array,
    offsets: Int64Array,
    flags: Int64Array,
    order: Int64Array,
    starts: Int64Array,
    bits: Int64Array,
    extra: Int64Array,
    row_order: Int64Array,
    row_starts: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Add up lists and doubles by slot; `order` and `starts` are those of `counting_order`."""
    count = starts.size - 1
    out = np.empty(6 * count + DIGITS + 2, np.int64)
    out_offsets = np.zeros(count + 1, np.int64)
    out_flags = np.zeros(count, np.int64)
    digits, size = np.zeros(DIGITS + 1, np.int64), np.zeros(DIGITS + 1, np.int64)
    used = 0
    for slot in range(count):
        low, high, flag, adds = DIGITS, -1, 0, 0
        for place in range(starts[slot], starts[slot + 1]):
            part = order[place]
            first, last = load(lists, offsets[part], offsets[part + 1], digits)
            low, high = min(low, first), max(high, last)
            flag |= flags[part]
        for place in range(row_starts[slot], row_starts[slot + 1]):
            row = row_order[place]
            wrong = flag_of(bits[row])
            if wrong:
                flag |= wrong
                continue
            first = add(digits, bits[row], 1)
            low, high = min(low, first), max(high, first + 2)
            if extra.size:
                first = add(digits, extra[row], 1)
                low, high = min(low, first), max(high, first + 2)
            adds += 2
            if adds >= 1 << 28:  # long before a digit can overflow
                carry(digits, low, high)
                high, adds = high + 1, 0
        out = with_room(out, used, DIGITS + 2)
        used = store(digits, low, high, out, used, size)
        out_offsets[slot + 1] = used
        out_flags[slot] = flag
    return out[:used].copy(), out_offsets, out_flags


@kernel
def round_twice(digits: Int64Array, low: int, top: int, size: Int64Array, spare: Int64Array) -> tuple[float, float]:
    """Carried digits as the nearest double, and the rest as a second one.

    `size` and `spare` are scratch space; `spare` is zero before and after.
    """
    sign = magnitude(digits, low, top, size)
    value = sign * nearest(size, low, top, 0)
    if value == 0.0 or np.isinf(value):
        return value, 0.0
    for i in range(low, top + 1):
        spare[i] = digits[i]
    cell = np.empty(1)
    cell[0] = value
    first = add(spare, cell.view(np.int64)[0], -1)
    # The double's mantissa may reach below `low` with zeros, and rounding up may have reached above `top`.
    bottom, above = min(low, first), max(top, first + 2)
    carry(spare, bottom, above)
    sign = magnitude(spare, bottom, above + 1, size)
    left = sign * nearest(size, bottom, above + 1, 0)
    spare[bottom : above + 2] = 0
    return value, left


@column_kernel
def _read(lists: Int64Array, offsets: Int64Array, flags: Int64Array, twice: bool) -> tuple[FloatArray, FloatArray]:
    """Round every sum to a double, or to two."""
    high, low = np.zeros(flags.size), np.zeros(flags.size)
    digits, size = np.zeros(DIGITS + 4, np.int64), np.zeros(DIGITS + 4, np.int64)
    spare = np.zeros(DIGITS + 4, np.int64)
    for i in range(flags.size):
        start, stop = offsets[i], offsets[i + 1]
        if flags[i]:
            high[i] = special(flags[i] & NAN, flags[i] & PLUS, flags[i] & MINUS)
        elif stop > start and twice:
            first, last = load(lists, start, stop, digits)
            carry(digits, first, last)
            high[i], low[i] = round_twice(digits, first, last + 1, size, spare)
            digits[first : last + 2] = 0
        elif stop > start:
            value = nearest(lists[start + 1 : stop], 0, stop - start - 2, abs(lists[start]) - 1)
            high[i] = value if lists[start] > 0 else -value
    return high, low
