"""Frames that move forward over rows: exact sums and the smallest value, each in amortised O(1)."""

from __future__ import annotations

import numpy as np

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.windows.exact_columns import flag_of, load, round_twice, store
from trimtab.engine.windows.exact_sum import DIGITS, MINUS, NAN, PLUS, add, carry, magnitude, nearest, special
from trimtab.engine.windows.lists import with_room
from trimtab.machine_code.kernel import kernel


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


@column_kernel
def slide_best(
    codes: Int64Array,
    eligible: BoolArray,
    first: Int64Array,
    ends: Int64Array,
    starts: Int64Array,
    fresh: Int64Array,
    held: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """The place of the smallest code in every new row's frame, the earliest of equals, or -1.

    `held[key]` is the place of a value from before that is part of every frame of its key, or -1.
    Returns the chosen place for every place, and for each key the one after its last row.

    Codes that can never win again leave the queue at its tail, so each enters and leaves once.
    """
    best = np.full(first.size, -1, np.int64)
    last = held.copy()
    queue = np.empty(first.size, np.int64)
    for key in range(fresh.size):
        stop = starts[key + 1]
        if fresh[key] == stop:
            continue
        head = tail = 0
        right = first[fresh[key]]
        winner = -1
        for i in range(fresh[key], stop):
            while right < ends[i]:
                if eligible[right]:
                    while tail > head and codes[right] < codes[queue[tail - 1]]:
                        tail -= 1
                    queue[tail] = right
                    tail += 1
                right += 1
            while head < tail and queue[head] < first[i]:
                head += 1
            winner = queue[head] if head < tail else -1
            before = held[key]
            if before >= 0 and (winner < 0 or codes[before] <= codes[winner]):
                winner = before
            best[i] = winner
        last[key] = winner
    return best, last
