"""Functions of OVER that choose a row or number rows: min, first_value, lag, row_number ..."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import BoolArray, Int64Array, int64s, valid_mask
from trimtab.engine.columns.order import choice_codes, order_codes
from trimtab.engine.windows.choices import BY_VALUE, Choice, Rule
from trimtab.engine.windows.running import Frames, OfAccumulator, Parts, prefix_sums
from trimtab.engine.windows.sliding import slide_best


@dataclass(frozen=True, slots=True)
class RunningChoice(OfAccumulator[Choice]):
    """Functions that choose a row of the frame, and give its value."""

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The chosen value, and what it was chosen by."""
        return tuple(field for field in self.inner.fields if field.name in ("value", "by"))

    def run(self, frames: Frames, parts: Parts) -> tuple[pa.Array, list[pa.Array]]:
        """Choose places; values kept from before have places after all rows."""
        layout = frames.layout
        size, count = len(layout.order), len(layout.fresh)
        columns = list(frames.args)
        held = np.full(count, -1, np.int64)
        if not frames.bounded:
            columns = [pa.concat_arrays([c, p]) for c, p in zip(columns, parts, strict=True)]
            held = np.where(frames.rows_before > 0, np.arange(size, size + count), -1)
        # By place, then the values held.
        rows = np.concatenate([layout.order, np.arange(size, len(columns[0]))])
        best, last = self._choose(frames, columns, rows, held)
        source = np.append(rows, -1)
        chosen = source[best[layout.places]]
        result = columns[0].take(pa.array(chosen, mask=chosen < 0))
        if frames.bounded:
            return result, []
        keep = source[last]
        places = pa.array(keep, mask=keep < 0)
        return result, [column.take(places) for column in columns]

    def _choose(
        self, frames: Frames, columns: list[pa.Array], rows: Int64Array, held: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """The chosen place for every place, and for each key the one after its last row; -1: none."""
        rule, layout = self.inner.rule, frames.layout
        by = columns[-1]
        eligible = valid_mask(by)[rows]
        if rule in (Rule.FIRST, Rule.LAST):
            eligible = np.ones(len(rows), np.bool_)
        known = held >= 0
        held[known] = np.where(eligible[held[known]], held[known], -1)
        if rule in (Rule.SMALLEST, Rule.LARGEST, Rule.SMALLEST_BY, Rule.LARGEST_BY):
            codes = (choice_codes if rule in BY_VALUE else order_codes)(by)[rows]
            if rule in (Rule.LARGEST, Rule.LARGEST_BY):
                codes = ~codes
            best, last = slide_best(codes, eligible, frames.first, frames.ends, layout.starts, layout.fresh, held)
            return best, last
        inside = eligible[: len(layout.order)]
        before = held[layout.keys]
        if rule in (Rule.FIRST, Rule.FIRST_KNOWN):
            found = _next_place(inside)[frames.first]
            found = np.where(found < frames.ends, found, -1)
            best = np.where(before >= 0, before, found)
        else:
            found = _previous_place(inside)[frames.ends - 1]
            best = np.where(found >= frames.first, found, before)
        last = layout.starts[1:] - 1
        return best, np.where(last >= layout.fresh, np.append(best, -1)[last], held)


def _next_place(eligible: BoolArray) -> Int64Array:
    """The first eligible place at or after each; past the end if there is none."""
    size = len(eligible)
    places = np.where(eligible, np.arange(size), size)
    return np.minimum.accumulate(places[::-1])[::-1]


def _previous_place(eligible: BoolArray) -> Int64Array:
    """The last eligible place at or before each, or -1."""
    return np.maximum.accumulate(np.where(eligible, np.arange(len(eligible)), -1))


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
        here = np.arange(len(layout.order))
        if self.function == "row_number":
            numbers = here - layout.fresh[layout.keys] + 1 + frames.rows_before[layout.keys]
            return pa.array(numbers[layout.places]), []
        # A row is the first of its peers if the peers of the row before it end there.
        heads = np.append(True, layout.peers[:-1] == here[1:])[: len(here)]
        heads |= here == layout.fresh[layout.keys]
        if self.function == "rank":
            first = np.maximum.accumulate(np.where(heads, here, 0))
            numbers = first - layout.fresh[layout.keys] + 1 + frames.rows_before[layout.keys]
            return pa.array(numbers[layout.places]), []
        before = int64s(parts[0])
        heads &= here >= layout.fresh[layout.keys]
        groups = prefix_sums(heads.astype(np.int64))
        numbers = groups[1:] - groups[layout.fresh[layout.keys]] + before[layout.keys]
        after = before + groups[layout.starts[1:]] - groups[layout.fresh]
        return pa.array(numbers[layout.places]), [pa.array(after)]
