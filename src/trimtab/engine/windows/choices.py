"""Accumulators that choose one row's value, also over frames: min, max, first, last, max_by, bool_and ..."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array, canonical_nans, int64s, take, valid_mask
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.columns.order import choice_codes, order_codes
from trimtab.engine.windows.accumulator import Inputs, Slots
from trimtab.engine.windows.running import Frames, Parts

PLACE = (pa.field("time", pa.int64()), pa.field("arrival", pa.int64()))


class Rule(enum.Enum):
    """Which row is chosen."""

    SMALLEST = "the smallest value"
    LARGEST = "the largest value"
    FIRST = "the first row"
    LAST = "the last row"
    FIRST_KNOWN = "the first row with a value"
    LAST_KNOWN = "the last row with a value"
    SMALLEST_BY = "the first row with the smallest second argument"
    LARGEST_BY = "the first row with the largest second argument"


BY_VALUE = (Rule.SMALLEST, Rule.LARGEST)
BY_OTHER = (Rule.SMALLEST_BY, Rule.LARGEST_BY)
REVERSED = (Rule.LARGEST, Rule.LARGEST_BY, Rule.LAST, Rule.LAST_KNOWN)


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of one row. First and last are by time and then arrival, in whatever batch a row came.

    Smallest and largest need no tie-break: values with equal codes are identical. `is_placed`: a partial
    result says where its row was. With OVER it doesn't: the rows of partial results come before all others.
    """

    rule: Rule
    types: tuple[pa.DataType, ...]
    is_placed: bool = True

    @property
    def result(self) -> pa.DataType:
        """The type of the value."""
        return self.types[0]

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The chosen value, what it was chosen by, and where it was."""
        value = pa.field("value", self.types[0])
        if self.rule in BY_VALUE:
            return (value,)
        by = (pa.field("by", self.types[1]),) if self.rule in BY_OTHER else ()
        return (value, *by, *(PLACE if self.is_placed else ()))

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """Choose among the values chosen before and the rows."""
        fresh = [*rows.args]
        if self.rule not in BY_VALUE:
            fresh += [pa.array(rows.times), pa.array(rows.arrivals)]
        columns = [pa.concat_arrays([old, new]) for old, new in zip(parts, fresh, strict=True)]
        every = slots.then(row_slots)
        best = _best(every.ids, every.count, self._eligible(columns), self._criteria(columns))
        chosen = [take(column, best) for column in columns]
        return [canonical_nans(column) for column in chosen] if self.rule in BY_VALUE else chosen

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The values."""
        return parts[0]

    def _eligible(self, columns: list[pa.Array]) -> BoolArray:
        """Rows that may be chosen, and partial results that hold a choice at all."""
        if self.rule in (Rule.FIRST, Rule.LAST):
            return valid_mask(columns[-1])
        return valid_mask(columns[1] if self.rule in BY_OTHER else columns[0])

    def _criteria(self, columns: list[pa.Array]) -> Int64Array:
        """What to minimise, most important first."""
        if self.rule in BY_VALUE:
            criteria = [choice_codes(columns[0])]
        elif self.rule in BY_OTHER:
            criteria = [order_codes(columns[1]), *(int64s(c) for c in columns[2:])]
        else:
            criteria = [int64s(c) for c in columns[1:]]
        if self.rule in REVERSED:
            # Among rows with an equal second argument the first is chosen by either rule.
            turned = 1 if self.rule in BY_OTHER else len(criteria)
            criteria = [~c if i < turned else c for i, c in enumerate(criteria)]
        return np.stack(criteria)

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
        result = take(columns[0], source[best[layout.places]])
        return result, [] if frames.bounded else [take(column, source[last]) for column in columns]

    def _choose(
        self, frames: Frames, columns: list[pa.Array], rows: Int64Array, held: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """The chosen place for every place, and for each key the one after its last row; -1: none."""
        rule, layout, by = self.rule, frames.layout, columns[-1]
        any_row = rule in (Rule.FIRST, Rule.LAST)
        eligible = np.ones(len(rows), np.bool_) if any_row else valid_mask(by)[rows]
        known = held >= 0
        held[known] = np.where(eligible[held[known]], held[known], -1)
        if rule in (*BY_VALUE, *BY_OTHER):
            codes = (choice_codes if rule in BY_VALUE else order_codes)(by)[rows]
            if rule in REVERSED:
                codes = ~codes
            return _slide_best(codes, eligible, frames.first, frames.ends, layout.starts, layout.fresh, held)
        here = np.arange(len(layout.order))
        inside, before = eligible[: len(here)], held[layout.keys]
        if rule in REVERSED:  # the last eligible place at or before the end
            found = np.maximum.accumulate(np.where(inside, here, -1))[frames.ends - 1]
            best = np.where(found >= frames.first, found, before)
        else:  # the first eligible place at or after the start
            found = np.minimum.accumulate(np.where(inside, here, len(here))[::-1])[::-1][frames.first]
            best = np.where(before >= 0, before, np.where(found < frames.ends, found, -1))
        last = layout.starts[1:] - 1
        return best, np.where(last >= layout.fresh, np.append(best, -1)[last], held)


@column_kernel
def _best(ids: Int64Array, count: int, eligible: BoolArray, criteria: Int64Array) -> Int64Array:
    """The eligible item with the smallest criteria in each slot, or -1; criteria is (k, n)."""
    best = np.full(count, -1, np.int64)
    for i in range(ids.size):
        if not eligible[i]:
            continue
        held = best[ids[i]]
        if held < 0:
            best[ids[i]] = i
            continue
        for k in range(criteria.shape[0]):
            if criteria[k, i] != criteria[k, held]:
                if criteria[k, i] < criteria[k, held]:
                    best[ids[i]] = i
                break
    return best


@column_kernel
def _slide_best(
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
