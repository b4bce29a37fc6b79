"""A function call with OVER: what it needs of earlier rows, and how it is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from trimtab.engine.columns.arrays import plain_type
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
