"""Aggregates over windows: partial results as columns, which can be added up in any order.

An accumulator is a description. Its partial results are Arrow columns, a row per slot, so they can
be stored as they are. One method does all the work: it gathers partial results and rows by slot. The
partial results of the same slot may come from the state, from sessions that have joined, or from
another engine: adding them up in any order gives the same final value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.engine.columns.groups import counting_order


@dataclass(frozen=True)
class Slots:
    """The slot in [0, count) that each of some items goes to. There is a slot for each key and window."""

    ids: Int64Array
    count: int

    @cached_property
    def ordered(self) -> tuple[Int64Array, Int64Array]:
        """The items sorted by slot, otherwise in their order, and where each slot starts."""
        return counting_order(self.ids, self.count)

    def where(self, chosen: BoolArray) -> Slots:
        """The slots of the chosen items only."""
        return self if bool(chosen.all()) else Slots(self.ids[chosen], self.count)

    def then(self, more: Slots) -> Slots:
        """These items followed by `more`."""
        return Slots(np.concatenate([self.ids, more.ids]), self.count)


@dataclass(frozen=True, slots=True)
class Inputs:
    """New rows: the arguments, the event times (in the window's unit) and arrivals."""

    args: tuple[pa.Array, ...]
    times: Int64Array
    arrivals: Int64Array


class Accumulator(Protocol):
    """One aggregate function for given argument types."""

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
