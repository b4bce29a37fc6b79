"""Functions of OVER that add up: count, sum, avg, variance and standard deviation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, FloatArray, Int64Array, float64s, int64s, valid_mask
from trimtab.engine.windows.exact_columns import NO_BITS, ExactSums
from trimtab.engine.windows.moments import exact_product
from trimtab.engine.windows.running import Frames, OfAccumulator, Parts, prefix_sums
from trimtab.engine.windows.sliding import slide_sums
from trimtab.engine.windows.totals import Count, FloatSum, Variance, WideSum
from trimtab.engine.windows.wide_sum import WIDTH, WideSums, digits_of, small_values, split_whole


def _counts(frames: Frames, valid: BoolArray, parts: Parts) -> tuple[Int64Array, Int64Array]:
    """How many valid rows a frame has, by place, and how many each key has had."""
    total = prefix_sums(valid.astype(np.int64))
    counts = total[frames.ends] - total[frames.first]
    if frames.bounded:
        return counts, np.empty(0, np.int64)
    known, layout = int64s(parts[0]), frames.layout
    return counts + known[layout.keys], known + total[layout.starts[1:]] - total[layout.fresh]


@dataclass(frozen=True, slots=True)
class RunningCount(OfAccumulator[Count]):
    """`count`."""

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Differences of running counts."""
        valid = np.ones(len(frames.layout.order), np.bool_)
        for arg in frames.args:
            valid &= valid_mask(arg)[frames.layout.order]
        counts, kept = _counts(frames, valid, parts)
        return pa.array(counts[frames.layout.places]), [] if frames.bounded else [pa.array(kept)]


@dataclass(frozen=True, slots=True)
class RunningWideSum(OfAccumulator[WideSum]):
    """`sum` and `avg` of whole numbers: differences of running sums, which are exact."""

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
            before = WideSums.of_arrow(parts[1]).digits.reshape(-1, WIDTH)
            sums += before[layout.keys[places]]
            state = [pa.array(kept), WideSums.carried(before + added).to_arrow()]
        return self.inner.value(counts[places], WideSums.carried(sums)), state


@dataclass(frozen=True, slots=True)
class RunningFloatSum(OfAccumulator[FloatSum]):
    """`sum` and `avg` of doubles, each frame's exact sum rounded once."""

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Slide over the rows."""
        places = frames.layout.places
        values, valid, counts, kept = _doubles(frames, parts)
        (sums, _), state = _slide(frames, values, None, valid, parts[1:], twice=False)
        result = self.inner.value(counts[places], sums[places])
        return result, [] if frames.bounded else [pa.array(kept), *state]


@dataclass(frozen=True, slots=True)
class RunningVariance(OfAccumulator[Variance]):
    """Variances and standard deviations, from the exact sums of each frame."""

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Slide over the rows, twice."""
        places = frames.layout.places
        values, valid, counts, kept = _doubles(frames, parts)
        square, error = exact_product(values, values)
        sums, state = _slide(frames, values, None, valid, parts[1:3], twice=True)
        squares, more = _slide(frames, square, error, valid, parts[3:], twice=True)
        result = self.inner.value(
            counts[places], (sums[0][places], sums[1][places]), (squares[0][places], squares[1][places])
        )
        return result, [] if frames.bounded else [pa.array(kept), *state, *more]


def _doubles(frames: Frames, parts: Parts) -> tuple[FloatArray, BoolArray, Int64Array, Int64Array]:
    """The doubles by place, which of them are valid, and `_counts` of those."""
    (arg,) = frames.args
    valid = valid_mask(arg)[frames.layout.order]
    return float64s(arg)[frames.layout.order], valid, *_counts(frames, valid, parts)


def _slide(
    frames: Frames, values: FloatArray, extra: FloatArray | None, valid: BoolArray, parts: Parts, *, twice: bool
) -> tuple[tuple[FloatArray, FloatArray], list[pa.Array]]:
    """Exact sums by place, and the sums to keep."""
    starts, fresh = frames.layout.starts, frames.layout.fresh
    before = ExactSums.zeros(len(fresh)) if frames.bounded else ExactSums.of_arrow(*parts)
    bits, more = values.view(np.int64), NO_BITS if extra is None else extra.view(np.int64)
    high, low, *after = slide_sums(bits, more, valid, frames.first, frames.ends, starts, fresh, *before, twice)
    return (high, low), [] if frames.bounded else list(ExactSums(*after).to_arrow())
