"""KLL sketches over columns: quantiles of many values from a few hundred of them.

A sketch has levels; a value on level n stands for 2**n values. When the levels are full, the lowest
full one is sorted and every other value moves up. Which half moves is decided by a coin, here a hash
of the row count, so that the same rows give the same sketch. The layout is that of Apache
DataSketches. Reference: Karnin, Lang, Liberty (2016), arXiv:1603.05346.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from trimtab.engine.columns.arrays import FloatArray, Int64Array
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.windows.lists import with_room
from trimtab.machine_code.kernel import kernel

LEAST = 8  # the smallest room a level has (the library's M)
LEVELS = 40  # enough for 2**40 values


def serialised(k: int, count: int, levels: Int64Array, items: FloatArray, least: float, most: float) -> bytes:
    """A sketch of two or more values in the serial form of Apache DataSketches.

    `items` are those of level 0, then level 1 ...; `levels` is how many each level has.
    """
    ends = np.cumsum(levels)
    # Levels above the lowest are sorted in the library's form.
    sorted_items = np.concatenate([np.sort(part) for part in np.split(items, ends[:-1])])
    room = capacity(k, len(levels))
    starts = (room - ends[-1] + ends - levels).astype("<u4")
    head = struct.pack("<BBBBHBBQHBB", 5, 1, 15, 2, k, LEAST, 0, count, k, len(levels), 0)
    return b"".join([head, starts.tobytes(), struct.pack("<dd", least, most), sorted_items.tobytes()])


@column_kernel
def exact_quantiles(items: FloatArray, starts: Int64Array, counts: Int64Array, ranks: FloatArray) -> FloatArray:
    """For each rank, the smallest value that at least this share of the values don't exceed.

    Shape (slots, ranks); zero for sketches that have dropped values.
    """
    out = np.zeros((counts.size, ranks.size))
    for i in range(counts.size):
        size = starts[i + 1] - starts[i]
        if size == counts[i] and size > 0:
            values = np.sort(items[starts[i] : starts[i + 1]])
            for j in range(ranks.size):
                out[i, j] = values[max(0, math.ceil(ranks[j] * size) - 1)]
    return out


@kernel
def room_of(k: int, levels: int, level: int) -> int:
    """How many values a level has room for: k at the top, two thirds of it below, and so on."""
    depth = levels - level - 1
    if depth > 30:
        return LEAST
    power = 1
    for _ in range(depth):
        power *= 3
    return max(LEAST, (((2 * k) << depth) // power + 1) >> 1)


@kernel
def capacity(k: int, levels: int) -> int:
    """How many values all levels have room for."""
    total = 0
    for level in range(levels):
        total += room_of(k, levels, level)
    return total


@kernel
def _coin(count: int, level: int) -> int:
    """A bit that looks random: splitmix64 of the row count and level."""
    return int(mixed(np.uint64(count * 64 + level) * np.uint64(0x9E3779B97F4A7C15)) & np.uint64(1))


@kernel
def mixed(z: np.uint64) -> np.uint64:
    """splitmix64's finaliser."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _compress(box: FloatArray, sizes: Int64Array, levels: int, count: int, k: int) -> int:
    """Halve the lowest full level into the one above until all fit; return how many levels."""
    while sizes[:levels].sum() >= capacity(k, levels):
        level = 0
        while sizes[level] < room_of(k, levels, level):
            level += 1
        if level == levels - 1:
            levels += 1
        size = sizes[level]
        items = np.sort(box[level, :size])
        odd = size & 1  # of an odd number, one value stays on its level
        kept = odd + _coin(count, level)
        for i in range(kept, size, 2):
            box[level + 1, sizes[level + 1]] = items[i]
            sizes[level + 1] += 1
        box[level, 0] = items[0]
        sizes[level] = odd
    return levels


@kernel
def _pour(box: FloatArray, sizes: Int64Array, items: FloatArray, levels: Int64Array) -> None:
    """Add a sketch's values to the box, level by level."""
    at = 0
    for level in range(levels.size):
        for _ in range(levels[level]):
            box[level, sizes[level]] = items[at]
            sizes[level] += 1
            at += 1


@column_kernel
def gather_sketches(
    items: FloatArray,
    offsets: Int64Array,
    levels: Int64Array,
    level_offsets: Int64Array,
    counts: Int64Array,
    least: FloatArray,
    most: FloatArray,
    order: Int64Array,
    starts: Int64Array,
    values: FloatArray,
    row_order: Int64Array,
    row_starts: Int64Array,
    k: int,
) -> tuple[FloatArray, Int64Array, Int64Array, Int64Array, Int64Array, FloatArray, FloatArray]:
    """Merge sketches and add values by slot; see `Quantiles.fields` for the columns."""
    total = starts.size - 1
    out, out_offsets = np.empty(1024, np.float64), np.zeros(total + 1, np.int64)
    out_levels = np.empty(total + LEVELS, np.int64)
    out_level_offsets = np.zeros(total + 1, np.int64)
    out_counts = np.zeros(total, np.int64)
    out_least, out_most = np.zeros(total), np.zeros(total)
    limit = capacity(k, LEVELS)
    box, sizes = np.empty((LEVELS, 2 * limit + 8)), np.zeros(LEVELS, np.int64)
    used = level_used = 0
    for slot in range(total):
        sizes[:] = 0
        height, count = 1, 0
        low, high = np.inf, -np.inf
        for place in range(starts[slot], starts[slot + 1]):
            part = order[place]
            if counts[part] == 0:
                continue
            count += counts[part]
            low, high = min(low, least[part]), max(high, most[part])
            own = levels[level_offsets[part] : level_offsets[part + 1]]
            _pour(box, sizes, items[offsets[part] : offsets[part + 1]], own)
            height = _compress(box, sizes, max(height, own.size), count, k)
        held = sizes[:height].sum()
        room = capacity(k, height)
        for place in range(row_starts[slot], row_starts[slot + 1]):
            value = values[row_order[place]]
            low, high = min(low, value), max(high, value)
            box[0, sizes[0]] = value
            sizes[0] += 1
            count += 1
            held += 1
            if held >= room:
                height = _compress(box, sizes, height, count, k)
                held, room = sizes[:height].sum(), capacity(k, height)
        out = with_room(out, used, held)
        out_levels = with_room(out_levels, level_used, height)
        for level in range(height):
            for i in range(sizes[level]):
                out[used + i] = box[level, i]
            used += sizes[level]
            out_levels[level_used] = sizes[level]
            level_used += 1
        out_offsets[slot + 1], out_level_offsets[slot + 1] = used, level_used
        out_counts[slot] = count
        if count:
            out_least[slot], out_most[slot] = low, high
    out, out_levels = out[:used].copy(), out_levels[:level_used].copy()
    return out, out_offsets, out_levels, out_level_offsets, out_counts, out_least, out_most
