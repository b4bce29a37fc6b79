"""The functions of OVER: for every new row a value of its frame, and what to keep for later.

Over a bounded frame a function keeps nothing, because the operator keeps the frame's rows. Over all
rows so far it keeps a partial result per key, in the columns of the accumulators of GROUP BY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.windows.accumulator import Accumulator
from trimtab.engine.windows.layout import Layout

Inner = TypeVar("Inner", bound=Accumulator)


@dataclass(frozen=True, slots=True)
class Frames:
    """What a function gets: the layout, the frames by place (`ends` exclusive), and row counts.

    `rows_before`: how many rows each key has had. `args` are columns by row (not by place).
    `bounded`: there are no partial results, all rows of the frames are here.
    """

    layout: Layout
    first: Int64Array
    ends: Int64Array
    rows_before: Int64Array
    args: tuple[pa.Array, ...]
    bounded: bool


Parts = Sequence[pa.Array]
"""A partial result per key; empty columns for a bounded frame."""


class Running(Protocol):
    """A function of frames."""

    @property
    def result(self) -> pa.DataType:
        """The type of its values."""

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of what it keeps per key, over all rows so far."""

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """A value per new row, in the order in which they leave, and what to keep."""


@dataclass(frozen=True, slots=True)
class OfAccumulator(Generic[Inner]):
    """What functions share that keep, over all rows so far, what an accumulator of GROUP BY keeps."""

    inner: Inner

    @property
    def result(self) -> pa.DataType:
        """As the accumulator has it."""
        return self.inner.result

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """As the accumulator has them."""
        return self.inner.fields


def prefix_sums(values: Int64Array) -> Int64Array:
    """Sums of all values before each place, and of all."""
    out = np.zeros((len(values) + 1, *values.shape[1:]), np.int64)
    np.cumsum(values, axis=0, out=out[1:])
    return out
