"""The exact sum of doubles, so that the answer doesn't depend on the order in which rows are added.

Adding doubles rounds at every step, so a sum would depend on how its rows were cut into batches, and
taking a row out of a sliding frame would leave its rounding error in the sum. Here a sum is a whole
number: doubles are multiples of 2**-1074, and a long row of 32-bit digits holds any sum of them
without rounding. Rows go in and out in any order; only reading rounds, once, to the nearest double
(as `math.fsum` does). Reference: Neal (2015), Fast exact summation using small and large
superaccumulators, arXiv:1505.05571.
"""

from __future__ import annotations

import math

import numpy as np

from trimtab.engine.columns.arrays import Int64Array
from trimtab.machine_code.kernel import kernel

DIGITS = 68  # 2046 binary places of a double, 53 bits of mantissa and room for carries, 32 bits each
MASK = 0xFFFFFFFF
NAN, PLUS, MINUS = 1, 2, 4  # what a sum remembers of values that are not finite


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
