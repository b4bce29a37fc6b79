"""The functions of OVER: for every new row a value of its frame, and what to keep for later.

Over a bounded frame a function keeps nothing, because the operator keeps the frame's rows. Over all
rows so far it keeps a partial result per key, in the columns of the accumulators of GROUP BY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import Int64Array, int64s
from trimtab.engine.windows.layout import Layout


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
    """A function of frames: an accumulator, `Lag` or `Number`."""

    @property
    def result(self) -> pa.DataType:
        """The type of its values."""

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of what it keeps per key, over all rows so far."""

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """A value per new row, in the order in which they leave, and what to keep."""


def prefix_sums(values: Int64Array) -> Int64Array:
    """Sums of all values before each place, and of all."""
    out = np.zeros((len(values) + 1, *values.shape[1:]), np.int64)
    np.cumsum(values, axis=0, out=out[1:])
    return out


@dataclass(frozen=True, slots=True)
class Lag:
    """`lag(x, offset, default)`: the value `offset` rows before; the frame doesn't matter."""

    result: pa.DataType
    offset: int
    fields: tuple[pa.Field, ...] = ()

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Look back; if there is no such row, the current row's default, or null."""
        del parts
        layout = frames.layout
        back = layout.places - self.offset
        missing = back < layout.starts[layout.keys[layout.places]]
        rows = pa.array(layout.order[np.where(missing, 0, back)], mask=missing)
        values = frames.args[0].take(rows)
        if len(frames.args) > 1:
            here = frames.args[1].take(pa.array(layout.order[layout.places]))
            values = pc.if_else(pa.array(missing), here.cast(self.result), values)
        return values, []


@dataclass(frozen=True, slots=True)
class Number:
    """`row_number`, `rank` and `dense_rank`: places in the order of all rows so far."""

    function: str
    result: pa.DataType = pa.int64()

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """How many groups of peers there were; the number of rows is kept in any case."""
        return (pa.field("groups", pa.int64()),) if self.function == "dense_rank" else ()

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Continue the numbering of earlier batches."""
        layout = frames.layout
        here, fresh = np.arange(len(layout.order)), layout.fresh[layout.keys]
        if self.function == "row_number":
            numbers = here - fresh + 1 + frames.rows_before[layout.keys]
            return pa.array(numbers[layout.places]), []
        # A row is the first of its peers if the peers of the row before it end there.
        heads = np.append(True, layout.peers[:-1] == here[1:])[: len(here)] | (here == fresh)
        if self.function == "rank":
            first = np.maximum.accumulate(np.where(heads, here, 0))
            numbers = first - fresh + 1 + frames.rows_before[layout.keys]
            return pa.array(numbers[layout.places]), []
        before, groups = int64s(parts[0]), prefix_sums((heads & (here >= fresh)).astype(np.int64))
        numbers = groups[1:] - groups[fresh] + before[layout.keys]
        after = before + groups[layout.starts[1:]] - groups[layout.fresh]
        return pa.array(numbers[layout.places]), [pa.array(after)]
