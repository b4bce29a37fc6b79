"""Approximate number of different values: HyperLogLog in columns.

A value's hash chooses one of 2**p registers, and the register keeps the longest run of zeros so far.
Only registers that are set are kept, as a sorted list, so a small window has a small state. Maxima don't depend on
order or repetition, so merging is exact. (The sketch of Apache DataSketches takes one value per call, and its estimate
depends on the order of the rows.) The estimator is Ertl's (2017), arXiv:1702.01284, which needs no tables and is
accurate from the first value on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import FloatArray, Int64Array, valid_mask
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.columns.order import order_codes
from trimtab.engine.windows.accumulator import Inputs, Slots
from trimtab.engine.windows.kll import mixed
from trimtab.engine.windows.lists import items_of, lists_by_slot, taken_apart

DEFAULT_P = 12
RUN = 6  # bits for the length of a run; the rest of an item is the register
_BYTES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)

UInt64Array = npt.NDArray[np.uint64]


def p_for(error: float) -> int:
    """The smallest p whose standard error is at most `error`, between 4 and 16."""
    return min(16, max(4, math.ceil(2 * math.log2(1.04 / error))))


@dataclass(frozen=True, slots=True)
class Cardinality:
    """`approx_count_distinct(x)`: standard error 1.04 / sqrt(2**p), which is 1.6% for p = 12."""

    p: int = DEFAULT_P
    result: pa.DataType = pa.int64()
    fields: tuple[pa.Field, ...] = (pa.field("registers", pa.list_(pa.int64())),)

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """The longest run of every register; nulls don't count."""
        valid = valid_mask(rows.args[0])
        known = row_slots.where(valid)
        items, owners = items_of(parts[0], slots)
        fresh = _coupons(hashes(rows.args[0].filter(pa.array(valid))), self.p)
        coupons = np.concatenate([items.to_numpy(zero_copy_only=False), fresh])
        owners = owners.then(known)
        # Sorted by slot, register and run: the last of each register is the longest.
        both = np.unique(owners.ids << (self.p + RUN) | coupons)
        last = np.append(both[1:] >> RUN != both[:-1] >> RUN, True)[: len(both)]
        both = both[last]
        ids, coupons = both >> (self.p + RUN), both & ((1 << (self.p + RUN)) - 1)
        return lists_by_slot([pa.array(coupons)], Slots(ids, owners.count))

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The estimates, to the nearest whole number."""
        return pa.array(np.rint(_estimate(*taken_apart(parts[0]), self.p)).astype(np.int64))


def hashes(array: pa.Array) -> UInt64Array:
    """A 64-bit hash of every value; the array has no nulls. Values that are equal in SQL have the same."""
    kind = array.type
    if any(test(kind) for test in _BYTES):
        array = array.cast(pa.large_binary())
        _, offsets, data = array.buffers()
        content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        return _hash_bytes(content, ends)
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if numeric or pa.types.is_temporal(kind):
        return _mix(order_codes(array).view(np.uint64))
    # The order codes of other types are ranks within a batch, so their text is hashed instead.
    return hashes(array.cast(pa.string()))


@column_kernel
def _mix(values: UInt64Array) -> UInt64Array:
    """Hash whole numbers."""
    out = np.empty(values.size, np.uint64)
    for i in range(values.size):
        out[i] = mixed(values[i] + np.uint64(0x9E3779B97F4A7C15))
    return out


@column_kernel
def _hash_bytes(content: npt.NDArray[np.uint8], ends: Int64Array) -> UInt64Array:
    """Hash texts: eight bytes at a time, mixed in between."""
    out = np.empty(ends.size - 1, np.uint64)
    for i in range(ends.size - 1):
        state = np.uint64(ends[i + 1] - ends[i]) + np.uint64(0x9E3779B97F4A7C15)
        word, shift = np.uint64(0), np.uint64(0)
        for at in range(ends[i], ends[i + 1]):
            word |= np.uint64(content[at]) << shift
            shift += np.uint64(8)
            if shift == np.uint64(64):
                state = mixed(state ^ word)
                word, shift = np.uint64(0), np.uint64(0)
        out[i] = mixed(state ^ word)
    return out


@column_kernel
def _coupons(values: UInt64Array, p: int) -> Int64Array:
    """Register and run of every hash, in one number."""
    out = np.empty(values.size, np.int64)
    for i in range(values.size):
        register = values[i] >> np.uint64(64 - p)
        rest = values[i] << np.uint64(p)
        run = 1
        while run <= 64 - p and not rest >> np.uint64(63):
            rest <<= np.uint64(1)
            run += 1
        out[i] = np.int64(register << np.uint64(RUN)) | run
    return out


@column_kernel
def _estimate(items: Int64Array, starts: Int64Array, p: int) -> FloatArray:
    """Ertl's improved raw estimator (algorithm 6), per list of registers."""
    size, longest = 1 << p, 64 - p
    out = np.zeros(max(starts.size - 1, 0))
    for i in range(out.size):
        counts = np.zeros(longest + 2)
        counts[0] = size - (starts[i + 1] - starts[i])
        for at in range(starts[i], starts[i + 1]):
            counts[items[at] & ((1 << RUN) - 1)] += 1
        if counts[0] == size:
            continue
        # tau
        x = 1.0 - counts[longest + 1] / size
        total = 0.0
        if 0.0 < x < 1.0:
            y, tau = 1.0, 1.0 - x
            while True:
                x = math.sqrt(x)
                before = tau
                y *= 0.5
                tau -= (1.0 - x) ** 2 * y
                if tau == before:
                    break
            total = size * tau / 3.0
        for run in range(longest, 0, -1):
            total = 0.5 * (total + counts[run])
        # sigma
        x = counts[0] / size
        y, sigma = 1.0, x
        while True:
            x *= x
            before = sigma
            sigma += x * y
            y += y
            if sigma == before:
                break
        total += size * sigma
        out[i] = size / (2.0 * math.log(2.0)) * size / total
    return out
