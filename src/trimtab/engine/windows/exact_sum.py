"""The exact sum of doubles, so that the answer doesn't depend on the order in which rows are added.

Adding doubles rounds at every step, so a sum would depend on how its rows were cut into batches, and taking a row out
of a sliding frame would leave its rounding error in the sum. Here a sum is a whole number: doubles are multiples of
2**-1074, and a long row of 32-bit digits holds any sum of them without rounding. Rows go in and out in any order; only
reading rounds, once, to the nearest double (as `math.fsum` does). Reference: Neal (2015), Fast exact summation using
small and large superaccumulators, arXiv:1505.05571.

In a column, a sum is a short list `[first, digit, digit ...]`: `first` is the place of the lowest digit plus one, with
the sign of the sum; the digits are 32 bits each, neither end zero. Zero is the empty list. So equal sums are equal
lists, whatever was added in whatever order. Values that are not finite only set a flag, because no finite number
changes their sum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array, int64s
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.windows.accumulator import Slots
from trimtab.engine.windows.lists import put_together, taken_apart, with_room
from trimtab.machine_code.kernel import kernel

DIGITS = 68  # 2046 binary places of a double, 53 bits of mantissa and room for carries, 32 bits each
MASK = 0xFFFFFFFF
NAN, PLUS, MINUS = 1, 2, 4  # what a sum remembers of values that are not finite
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
def add(digits: Int64Array, bits: int, sign: int) -> int:
    """Add a finite double, given as its bits, `sign` times; return the lowest digit touched.

    Three digits from there on change, each by less than 2**33: a digit has room for 2**30 of those
    between two calls of `carry`.
    """
    place = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if place > 0:
        mantissa |= 0x10000000000000
        place -= 1
    if bits < 0:
        sign = -sign
    first, shift = place >> 5, place & 31
    low, high = (mantissa & MASK) << shift, (mantissa >> 32) << shift
    digits[first] += sign * (low & MASK)
    digits[first + 1] += sign * ((low >> 32) + (high & MASK))
    digits[first + 2] += sign * (high >> 32)
    return first


@kernel
def carry(digits: Int64Array, low: int, high: int) -> None:
    """Bring the digits `low` to `high` into [0, 2**32); the digit above gets the rest, signed."""
    rest = 0
    for i in range(low, high + 1):
        rest += digits[i]
        digits[i] = rest & MASK
        rest >>= 32
    digits[high + 1] += rest


@kernel
def magnitude(digits: Int64Array, low: int, top: int, out: Int64Array) -> int:
    """Write the absolute value of carried digits to `out`; return the sign.

    `digits[top]` is the signed digit that `carry` leaves.
    """
    if digits[top] >= 0:
        for i in range(low, top + 1):
            out[i] = digits[i]
        return 1
    rest = 1
    for i in range(low, top):
        rest += digits[i] ^ MASK
        out[i] = rest & MASK
        rest >>= 32
    out[top] = ~digits[top] + rest
    return -1


@kernel
def nearest(size: Int64Array, low: int, top: int, place: int) -> float:
    """The double nearest to the whole number in digits `low` to `top`, ties to even.

    `place` is the place of the digit `size[0]`.
    """
    first = top
    while first >= low and size[first] == 0:
        first -= 1
    if first < low:
        return 0.0
    head = size[first]
    middle = size[first - 1] if first - 1 >= low else 0
    tail = size[first - 2] if first - 2 >= low else 0
    # 64 bits with the highest set; of what is below them it only matters whether it is zero.
    room = 32 - math.frexp(float(head))[1]
    word = (np.uint64(head) << np.uint64(32)) | np.uint64(middle)
    word = (word << np.uint64(room)) | (np.uint64(tail) >> np.uint64(32 - room))
    below = (tail & ((1 << (32 - room)) - 1)) != 0
    i = first - 3
    while not below and i >= low:
        below = size[i] != 0
        i -= 1
    if below:
        word |= np.uint64(1)
    return float(np.ldexp(float(word), 32 * (place + first - 1) - room - 1074))


@kernel
def special(counts_nan: int, counts_plus: int, counts_minus: int) -> float:
    """The sum of values that are not finite, or 0 if there are none."""
    if counts_nan > 0 or (counts_plus > 0 and counts_minus > 0):
        return math.nan
    if counts_plus > 0:
        return math.inf
    return -math.inf if counts_minus > 0 else 0.0


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


@kernel
def _move(
    digits: Int64Array,
    odd: Int64Array,
    bits: Int64Array,
    extra: Int64Array,
    valid: BoolArray,
    row: int,
    sign: int,
    low: int,
    high: int,
) -> tuple[int, int]:
    """Take a row into the sum or out of it; return the lowest and highest digit touched so far."""
    if not valid[row]:
        return low, high
    wrong = flag_of(bits[row])
    if wrong:
        odd[wrong] += sign
        return low, high
    place = add(digits, bits[row], sign)
    low, high = min(low, place), max(high, place + 2)
    if extra.size:
        place = add(digits, extra[row], sign)
        low, high = min(low, place), max(high, place + 2)
    return low, high


@column_kernel
def slide_sums(
    bits: Int64Array,
    extra: Int64Array,
    valid: BoolArray,
    first: Int64Array,
    ends: Int64Array,
    starts: Int64Array,
    fresh: Int64Array,
    lists: Int64Array,
    offsets: Int64Array,
    flags: Int64Array,
    twice: bool,
) -> tuple[FloatArray, FloatArray, Int64Array, Int64Array, Int64Array]:
    """The exact sum of every new row's frame, rounded, and the sum of each key after its last row.

    bits, extra, valid      (m,)   the doubles by place; extra may be empty
    first, ends             (m,)   the frames, ends exclusive
    starts, fresh           (k,)   as in `Layout`
    lists, offsets, flags          the sums from before, which are part of every frame of their key
    twice                          whether to return the rounding error as well
    """
    count = fresh.size
    high_out, low_out = np.zeros(bits.size), np.zeros(bits.size if twice else 0)
    out = np.empty(6 * count + DIGITS + 2, np.int64)
    out_offsets, out_flags = np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
    digits, size = np.zeros(DIGITS + 4, np.int64), np.zeros(DIGITS + 4, np.int64)
    odd = np.zeros(8, np.int64)  # how many values of each flag are in the frame
    spare = np.zeros(DIGITS + 4, np.int64)
    used = 0
    for key in range(count):
        low, high = load(lists, offsets[key], offsets[key + 1], digits)
        odd[NAN], odd[PLUS], odd[MINUS] = flags[key] & NAN, flags[key] & PLUS, flags[key] & MINUS
        stop = starts[key + 1]
        left = right = first[fresh[key]] if fresh[key] < stop else stop
        for i in range(fresh[key], stop):
            while right < ends[i]:
                low, high = _move(digits, odd, bits, extra, valid, right, 1, low, high)
                right += 1
            while left < first[i]:
                low, high = _move(digits, odd, bits, extra, valid, left, -1, low, high)
                left += 1
            if odd[NAN] + odd[PLUS] + odd[MINUS] > 0:
                high_out[i] = special(odd[NAN], odd[PLUS], odd[MINUS])
            elif high >= low:
                carry(digits, low, high)
                if twice:
                    high_out[i], low_out[i] = round_twice(digits, low, high + 1, size, spare)
                else:
                    sign = magnitude(digits, low, high + 1, size)
                    high_out[i] = sign * nearest(size, low, high + 1, 0)
        out = with_room(out, used, DIGITS + 2)
        used = store(digits, low, high, out, used, size)
        out_offsets[key + 1] = used
        out_flags[key] = NAN * (odd[NAN] > 0) | PLUS * (odd[PLUS] > 0) | MINUS * (odd[MINUS] > 0)
    return high_out, low_out, out[:used].copy(), out_offsets, out_flags
