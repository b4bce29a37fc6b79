"""Approximate quantiles: KLL sketches in columns, answered by Apache DataSketches.

The library's own updates flip a coin that can't be seeded: the same rows give another answer in
every process, and a repeated batch would contradict itself. So rows are taken in here, by the same
algorithm with a coin that is a hash of the row count, over all slots at once; the sketches are laid
out as the library's serialised form needs, and it answers from there. Rows must come in order of
arrival. Up to k values are kept as they are, and then the answer is exact. Merging is only exact up
to there: past it the answer of merged sketches is as good, but may be another one.
Reference: Karnin, Lang, Liberty (2016), Optimal quantile approximation in streams, arXiv:1603.05346.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import datasketches
import numpy as np
import pyarrow as pa
from numba import njit

from trimtab.engine.windows.accumulator import Inputs
from trimtab.engine.windows.columns import (
    BoolArray,
    FloatArray,
    Int64Array,
    float64s,
    int64s,
    valid_mask,
)
from trimtab.engine.windows.slots import Slots

LEAST = 8  # the smallest room a level has (the library's M)
LEVELS = 40  # enough for 2**40 values
DEFAULT_K = 200
LARGEST_K = 4096


def k_for(accuracy: float) -> int:
    """The k whose rank error is about 1/accuracy (the library's fit), within bounds."""
    return int(min(LARGEST_K, max(LEAST, round((2.296 * accuracy) ** (1 / 0.9021)))))


@dataclass(frozen=True, slots=True)
class Quantiles:
    """`percentile_approx(x, p)`, or with `many`, a list for several p. NaN is ignored.

    With k = 200 a rank is off by 1.33% or less, 99 times of 100.
    """

    kind: pa.DataType
    ranks: tuple[float, ...]
    many: bool = False
    k: int = DEFAULT_K

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """One value that is a number or a time."""
        return (self.kind,)

    @property
    def result(self) -> pa.DataType:
        """Values are among those seen, so they have their type."""
        return pa.list_(self.kind) if self.many else self.kind

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The values kept, how many on each level, how many were seen, the smallest and largest."""
        return (
            pa.field("items", pa.list_(pa.float64())),
            pa.field("levels", pa.list_(pa.int64())),
            pa.field("count", pa.int64()),
            pa.field("least", pa.float64()),
            pa.field("most", pa.float64()),
        )

    def gather(
        self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots
    ) -> list[pa.Array]:
        """Merge the sketches and take the rows in, in their order."""
        values = self._doubles(rows.args[0])
        valid = valid_mask(rows.args[0]) & ~np.isnan(values)
        row_slots = row_slots.where(valid)
        items, item_offsets, levels, level_offsets, counts, least, most = _gather(
            parts[0].values.to_numpy(),
            parts[0].offsets.to_numpy().astype(np.int64),
            parts[1].values.to_numpy(),
            parts[1].offsets.to_numpy().astype(np.int64),
            int64s(parts[2]),
            float64s(parts[3]),
            float64s(parts[4]),
            *slots.ordered,
            values[valid],
            *row_slots.ordered,
            self.k,
        )
        return [
            pa.ListArray.from_arrays(pa.array(item_offsets, pa.int32()), pa.array(items)),
            pa.ListArray.from_arrays(pa.array(level_offsets, pa.int32()), pa.array(levels)),
            pa.array(counts),
            pa.array(least),
            pa.array(most),
        ]

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """Ask the library, sketch by sketch; null of no values."""
        items, starts = parts[0].values.to_numpy(), parts[0].offsets.to_numpy()
        levels, level_starts = parts[1].values.to_numpy(), parts[1].offsets.to_numpy()
        counts, least, most = int64s(parts[2]), float64s(parts[3]), float64s(parts[4])
        # A sketch that never was full is just a list of values: no need to ask anyone.
        answers = _exact(items, starts.astype(np.int64), counts, np.array(self.ranks))
        for i in np.flatnonzero(counts > np.diff(starts)):
            sketch = datasketches.kll_doubles_sketch.deserialize(
                serialised(
                    self.k,
                    int(counts[i]),
                    levels[level_starts[i] : level_starts[i + 1]],
                    items[starts[i] : starts[i + 1]],
                    least[i],
                    most[i],
                )
            )
            answers[i] = sketch.get_quantiles(list(self.ranks), True)
        return self._typed(answers, counts == 0)

    def _doubles(self, array: pa.Array) -> FloatArray:
        if pa.types.is_temporal(array.type):
            return int64s(array).astype(np.float64)
        return float64s(array)

    def _typed(self, answers: FloatArray, empty: BoolArray) -> pa.Array:
        width = len(self.ranks)
        flat = pa.array(answers.reshape(-1), mask=np.repeat(empty, width))
        if pa.types.is_temporal(self.kind):
            units = pa.int64() if self.kind.bit_width == 64 else pa.int32()
            flat = flat.cast(units).cast(self.kind)
        elif pa.types.is_decimal(self.kind):
            flat = flat.cast(pa.decimal128(38, self.kind.scale)).cast(self.kind)
        else:
            flat = flat.cast(self.kind)
        if not self.many:
            return flat
        ends = np.arange(len(answers) + 1) * width
        return pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), flat, mask=pa.array(empty)
        )


def serialised(
    k: int, count: int, levels: Int64Array, items: FloatArray, least: float, most: float
) -> bytes:
    """A sketch of two or more values in the serial form that any Apache DataSketches reads.

    `items` are those of level 0, then level 1 ...; `levels` says how many each has.
    """
    ends = np.cumsum(levels)
    sorted_items = np.concatenate(
        [np.sort(part) for part in np.split(items, ends[:-1])]
    )  # levels above the lowest are sorted in the library's form
    room = capacity(k, len(levels))
    starts = (room - ends[-1] + ends - levels).astype("<u4")
    head = struct.pack("<BBBBHBBQHBB", 5, 1, 15, 2, k, LEAST, 0, count, k, len(levels), 0)
    return head + starts.tobytes() + struct.pack("<dd", least, most) + sorted_items.tobytes()


@njit(cache=True, nogil=True)
def _exact(
    items: FloatArray, starts: Int64Array, counts: Int64Array, ranks: FloatArray
) -> FloatArray:
    """The smallest value that at least a share of `rank` of the values don't exceed.

    (slots, ranks); zero for sketches that have dropped values.
    """
    out = np.zeros((counts.size, ranks.size))
    for i in range(counts.size):
        size = starts[i + 1] - starts[i]
        if size == counts[i] and size > 0:
            values = np.sort(items[starts[i] : starts[i + 1]])
            for j in range(ranks.size):
                out[i, j] = values[max(0, math.ceil(ranks[j] * size) - 1)]
    return out


@njit(cache=True, nogil=True)
def room_of(k: int, levels: int, level: int) -> int:
    """How many values a level has room for: k at the top, two thirds of it below, and so on."""
    depth = levels - level - 1
    if depth > 30:
        return LEAST
    power = 1
    for _ in range(depth):
        power *= 3
    return max(LEAST, (((2 * k) << depth) // power + 1) >> 1)


@njit(cache=True, nogil=True)
def capacity(k: int, levels: int) -> int:
    """How many values all levels have room for."""
    total = 0
    for level in range(levels):
        total += room_of(k, levels, level)
    return total


@njit(cache=True, nogil=True)
def _coin(count: int, level: int) -> int:
    """A bit that looks random: splitmix64 of the row count and level."""
    z = np.uint64(count * 64 + level) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) & np.uint64(1))


@njit(cache=True, nogil=True)
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
        odd = size & 1  # one stays behind
        kept = odd + _coin(count, level)
        for i in range(kept, size, 2):
            box[level + 1, sizes[level + 1]] = items[i]
            sizes[level + 1] += 1
        box[level, 0] = items[0]
        sizes[level] = odd
    return levels


@njit(cache=True, nogil=True)
def _gather(
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
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, FloatArray, FloatArray]:
    """Merge sketches and take in values by slot; see `Quantiles.fields` for the columns."""
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
            at = offsets[part]
            count += counts[part]
            low, high = min(low, least[part]), max(high, most[part])
            base = level_offsets[part]
            height = max(height, level_offsets[part + 1] - base)
            for level in range(level_offsets[part + 1] - base):
                for _ in range(levels[base + level]):
                    box[level, sizes[level]] = items[at]
                    sizes[level] += 1
                    at += 1
            height = _compress(box, sizes, height, count, k)
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
        while used + held > out.size:
            larger = np.empty(2 * out.size)
            larger[:used] = out[:used]
            out = larger
        while level_used + height > out_levels.size:
            taller = np.empty(2 * out_levels.size, np.int64)
            taller[:level_used] = out_levels[:level_used]
            out_levels = taller
        for level in range(height):
            out[used : used + sizes[level]] = box[level, : sizes[level]]
            used += sizes[level]
            out_levels[level_used] = sizes[level]
            level_used += 1
        out_offsets[slot + 1], out_level_offsets[slot + 1] = used, level_used
        out_counts[slot] = count
        if count:
            out_least[slot], out_most[slot] = low, high
    return (
        out[:used].copy(),
        out_offsets,
        out_levels[:level_used].copy(),
        out_level_offsets,
        out_counts,
        out_least,
        out_most,
    )
