"""Function calls with OVER: what one of them, and a set of them, needs of rows, and how they are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import FloatArray, Int64Array, float64s, int64s, plain_type
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.columns.times import floor_us, is_time, refuse_nulls, ticks, ticks_per_us
from trimtab.engine.operator import ARRIVAL, TIME_US
from trimtab.engine.signature import signed
from trimtab.engine.windows.aggregates import CHOICES, TOTALS, accumulator
from trimtab.engine.windows.choices import Choice
from trimtab.engine.windows.layout import Frame, Unit
from trimtab.engine.windows.running import Lag, Number, Running
from trimtab.engine.windows.totals import Count, FloatTotal, WideSum
from trimtab.errors import InputError

NUMBERS = ("row_number", "rank", "dense_rank")
FUNCTIONS = ("count", *TOTALS, *CHOICES, *NUMBERS, "lag")


@signed("over-call")
@dataclass(frozen=True, slots=True)
class OverCall:
    """A function of columns over a frame, and the name of its output column.

    `lag` has the value and perhaps a default as arguments, and looks `offset` rows back.
    """

    function: str
    args: tuple[str, ...]
    frame: Frame
    name: str
    offset: int = 1

    @property
    def rows_back(self) -> int:
        """How many rows before the current one it needs, by number."""
        if self.function == "lag":
            return self.offset
        counted = self.function not in NUMBERS and self.frame.unit is Unit.ROWS
        return int(self.frame.preceding or 0) if counted else 0

    @property
    def range_back(self) -> int | float | None:
        """How far before the current row it needs rows, by distance."""
        if self.function in (*NUMBERS, "lag") or self.frame.unit is Unit.ROWS:
            return None
        return self.frame.preceding

    @property
    def bounded(self) -> bool:
        """Whether it needs only the rows of its frame, and no total of all earlier rows."""
        return self.function == "lag" or (self.function not in NUMBERS and self.frame.preceding is not None)

    @property
    def retained(self) -> tuple[str, ...]:
        """The columns it needs of rows that have left."""
        if self.function == "lag":
            return self.args[:1]
        return self.args if self.bounded else ()

    @property
    def peers(self) -> bool:
        """Whether it needs all rows that are equal in the order."""
        if self.function in NUMBERS:
            return self.function != "row_number"
        return self.function != "lag" and self.frame.unit is Unit.RANGE

    def running(self, schema: pa.Schema) -> Running:
        """How it is computed for the types of its arguments."""
        types = [plain_type(schema.field(arg).type) for arg in self.args]
        if self.function in NUMBERS:
            return Number(self.function)
        if self.function == "lag":
            return Lag(types[0], self.offset)
        found = accumulator(self.function, types)
        if isinstance(found, Choice):
            return replace(found, is_placed=False)
        if isinstance(found, Count | WideSum | FloatTotal):
            return found
        raise InputError("input.type", f"{self.function} can't be used with OVER")


@dataclass(frozen=True)
class OverColumns:
    """One `OverQuery` and the schema of its rows."""

    order: tuple[OrderKey, ...]
    calls: tuple[OverCall, ...]
    keep: tuple[str, ...]
    schema: pa.Schema

    def type_of(self, column: str) -> pa.DataType:
        """The type of a column of the rows."""
        return plain_type(self.schema.field(column).type)

    @cached_property
    def running(self) -> tuple[Running, ...]:
        """How each call is computed."""
        return tuple(call.running(self.schema) for call in self.calls)

    @cached_property
    def output(self) -> pa.Schema:
        """The schema of the output."""
        kept = [pa.field(name, self.type_of(name)) for name in self.keep]
        made = [pa.field(c.name, r.result) for c, r in zip(self.calls, self.running, strict=True)]
        return pa.schema([*kept, *made, pa.field(TIME_US, pa.int64())])

    def dates(self, positions: Int64Array | FloatArray) -> pa.Array:
        """The times of rows at these positions in microseconds; null where the order is not by time."""
        kind = self.type_of(self.time)
        if not is_time(kind):
            return pa.nulls(len(positions), pa.int64())
        return pa.array(floor_us(positions.astype(np.int64, copy=False), kind))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that a row needs until it leaves."""
        used = [*self.keep, *(arg for call in self.calls for arg in call.args)]
        return tuple(dict.fromkeys([*used, *(key.column for key in self.order), ARRIVAL]))

    @cached_property
    def retained(self) -> tuple[str, ...]:
        """The columns that a row needs after it has left, as part of the frames of others."""
        used = [arg for call in self.calls for arg in call.retained]
        ordered = [self.time] if self.range_back is not None else []
        return tuple(dict.fromkeys(used + ordered))

    @cached_property
    def range_back(self) -> int | float | None:
        """The longest distance that a frame reaches back."""
        return max((c.range_back for c in self.calls if c.range_back is not None), default=None)

    @cached_property
    def rows_back(self) -> int:
        """The most rows that a frame reaches back."""
        return max((call.rows_back for call in self.calls), default=0)

    @cached_property
    def forgetful(self) -> bool:
        """Whether a key without rows in reach is the same as a new key."""
        return all(call.bounded and call.rows_back == 0 for call in self.calls)

    @cached_property
    def peers(self) -> bool:
        """Whether a row must wait for its peers."""
        return any(call.peers for call in self.calls)

    @property
    def time(self) -> str:
        """The first order column."""
        return self.order[0].column

    @cached_property
    def scale(self) -> int:
        """How many units of `positions` are one of a frame's."""
        kind = self.type_of(self.time)
        return ticks_per_us(kind) if is_time(kind) else 1

    def positions(self, array: pa.Array) -> Int64Array | FloatArray:
        """The first order column as numbers in which distances make sense."""
        if is_time(array.type):
            return ticks(array, self.time)
        refuse_nulls(array, self.time)
        if pa.types.is_floating(array.type):
            return float64s(array)
        # Of other types only the order matters, and that is in the sort levels.
        return int64s(array) if pa.types.is_integer(array.type) else np.zeros(len(array), np.int64)
