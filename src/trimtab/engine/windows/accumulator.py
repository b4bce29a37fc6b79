"""Aggregates over windows: partial results as columns, which can be added up in any order.

An accumulator is a description. Its partial results are Arrow columns, a row per slot, so they can
be stored as they are. One method does all the work: it gathers partial results and rows by slot. The
partial results of the same slot may come from the state, from sessions that have joined, or from
another engine: adding them up in any order gives the same final value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.engine.windows.slots import Slots


@dataclass(frozen=True, slots=True)
class Inputs:
    """New rows: the arguments, the event times (in the window's unit) and arrivals."""

    args: tuple[pa.Array, ...]
    times: Int64Array
    arrivals: Int64Array

    @classmethod
    def none(cls, types: Sequence[pa.DataType]) -> Inputs:
        """No rows at all."""
        nothing = np.empty(0, np.int64)
        return cls(tuple(pa.array([], kind) for kind in types), nothing, nothing)

    def where(self, chosen: BoolArray) -> Inputs:
        """The chosen rows only."""
        if bool(chosen.all()):
            return self
        mask = pa.array(chosen)
        args = tuple(arg.filter(mask) for arg in self.args)
        return Inputs(args, self.times[chosen], self.arrivals[chosen])


class Accumulator(Protocol):
    """One aggregate function for given argument types."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of its arguments."""

    @property
    def result(self) -> pa.DataType:
        """The type of the final value."""

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of a partial result."""

    def gather(self, parts: Sequence[pa.Array], slots: Slots, rows: Inputs, row_slots: Slots) -> list[pa.Array]:
        """The partial result of every slot, from the given partial results and rows."""

    def finish(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The final value of every partial result."""


@dataclass(frozen=True, slots=True)
class OfOneColumn:
    """What accumulators of one argument share."""

    kind: pa.DataType

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """One value."""
        return (self.kind,)


def no_parts(accumulator: Accumulator) -> list[pa.Array]:
    """The columns of no partial results at all."""
    return [pa.array([], field.type) for field in accumulator.fields]


def merge(accumulator: Accumulator, parts: Sequence[pa.Array], slots: Slots) -> list[pa.Array]:
    """Merge partial results by slot, for instance those of one key and window from two engines."""
    nothing = Inputs.none(accumulator.types)
    return accumulator.gather(parts, slots, nothing, Slots(nothing.times, slots.count))
