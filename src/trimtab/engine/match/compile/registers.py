"""What a thread remembers: a fixed row of registers, whatever the length of its match.

Navigation needs row numbers (`RowRef`) and sometimes the label a row had (`RowLabel`); aggregates need accumulators
(`Fold`). A register is named by what it holds, so equal needs share one. Row numbers point into the rows at hand:
values, strings too, are read from the columns there, so nothing is copied into a thread but numbers.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa

from trimtab.engine.match.ir.expression import Aggregate, Expr, Place, Side

POSITION, START, END, NODE = 0, 1, 2, 3
"""The fixed fields of a thread, before its integer registers. END is the last row it consumed, -1 for an empty match;
NODE is the last node of its path, -1 if it has none."""
FIXED = 4
"""The number of fixed fields."""

NO_ROW = -1
"""There is no such row (yet)."""
OUTSIDE = -2
"""The place is taken, but its shift leaves the partition: there is no row to read."""


class Bank(enum.Enum):
    """The array that holds a register, by its name in kernels; only interpreted kernels have Python objects."""

    INT = "int"
    FLOAT = "float"
    OBJECT = "object"


ROW_PARTS = frozenset({"min", "max", "any", "first", "last", "max_by", "min_by"})
"""Parts that hold a row number: of the row with the smallest value, and so on."""
INITIAL: dict[str, int | float | tuple[()]] = {
    "rows": 0,  # the number of rows
    "count": 0,  # the number of rows without nulls
    "sum": 0,
    "fsum": 0.0,
    "mean": 0.0,  # Welford's
    "m2": 0.0,
    **dict.fromkeys(ROW_PARTS, NO_ROW),
    "and": -1,  # -1 nothing yet, 0 false, 1 true
    "or": -1,
    "values": (),  # all values, in order; Python objects
}
"""The value of each part of an aggregate before the first row."""


@dataclass(frozen=True, slots=True)
class _OfPlace:
    """A register for the row at a place: the `index`-th from one side, shifted."""

    labels: frozenset[int] | None
    side: Side
    index: int
    shift: int
    initial: ClassVar[int] = NO_ROW
    bank: ClassVar[Bank] = Bank.INT


@dataclass(frozen=True, slots=True)
class RowRef(_OfPlace):
    """The row's number."""

    @classmethod
    def at(cls, place: Place) -> RowRef:
        """The register of that place."""
        return cls(place.labels, place.side, place.offset, place.shift)


@dataclass(frozen=True, slots=True)
class RowLabel(_OfPlace):
    """The row's label; -1 if the row is outside the match."""

    @classmethod
    def at(cls, place: Place) -> RowLabel | None:
        """The register for the label of the row at a place, if possible without a shift; None: it is always outside.

        A shifted row of the match has the label of another place of the match, as far as that is known by now.
        """
        if place.shift == 0 or place.labels is not None:
            return cls(place.labels, place.side, place.offset, place.shift)
        index = place.offset + (place.shift if place.side is Side.FIRST else -place.shift)
        return cls(None, place.side, index, 0) if index >= 0 else None


@dataclass(frozen=True, slots=True)
class Fold:
    """One accumulator of an aggregate over the rows mapped to `labels`; `part` says which."""

    part: str
    labels: frozenset[int] | None
    args: tuple[Expr, ...]

    @property
    def initial(self) -> int | float | tuple[()]:
        """The value before the first row."""
        return INITIAL[self.part]

    @property
    def bank(self) -> Bank:
        """Which bank holds the register."""
        return {int: Bank.INT, float: Bank.FLOAT, tuple: Bank.OBJECT}[type(self.initial)]


Register = RowRef | RowLabel | Fold

ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("count", "sum"),
    "avg": ("count", "sum"),
    **dict.fromkeys(("stddev_samp", "stddev_pop", "var_samp", "var_pop"), ("count", "mean", "m2")),
    "bool_and": ("and",),
    "bool_or": ("or",),
    "any_value": ("any",),
    "first_value": ("first",),
    "last_value": ("last",),
    "min": ("min",),
    "max": ("max",),
    "max_by": ("max_by",),
    "min_by": ("min_by",),
}
"""The parts of the aggregates that need only a fixed number of them."""


def holds_row(register: Register) -> bool:
    """Whether the register's value is a row number, which changes when rows are renumbered."""
    return isinstance(register, RowRef) or (isinstance(register, Fold) and register.part in ROW_PARTS)


@dataclass
class Layout:
    """The index of each register in its bank. Integer registers follow the fixed fields of a thread."""

    ints: list[Register] = field(default_factory=list)
    floats: list[Register] = field(default_factory=list)
    objects: list[Register] = field(default_factory=list)
    at: dict[Register, int] = field(default_factory=dict)

    def need(self, register: Register) -> int:
        """The index of a register. A new one is added, after the registers that its value is made from."""
        if register in self.at:
            return self.at[register]
        if not isinstance(register, Fold):
            # In ascending order, so that each one finds its neighbour: a long chain must not be a deep recursion.
            earlier = [replace(register, index=each) for each in range(register.index)]
            known = next((each for each in reversed(range(len(earlier))) if earlier[each] in self.at), -1)
            for other in earlier[known + 1 :]:
                self.need(other)
        if isinstance(register, RowLabel):
            labels, side, index, shift = register.labels, register.side, register.index, register.shift
            # The row number shows whether a place is taken, and which row is ahead of it.
            if side is Side.FIRST or shift > 0:
                self.need(RowRef(labels, side, index, shift))
            if shift < 0:
                self.need(RowLabel(None, Side.LAST, -shift - 1, 0))
        held = {Bank.INT: self.ints, Bank.FLOAT: self.floats, Bank.OBJECT: self.objects}[register.bank]
        self.at[register] = len(held) + (FIXED if held is self.ints else 0)
        held.append(register)
        return self.at[register]

    @property
    def int_width(self) -> int:
        """The number of integers of a thread, with the fixed fields."""
        return FIXED + len(self.ints)

    @property
    def registers(self) -> tuple[Register, ...]:
        """All registers, bank by bank."""
        return (*self.ints, *self.floats, *self.objects)


def folds(aggregate: Aggregate) -> tuple[Fold, ...]:
    """The accumulators of an aggregate that `ACCUMULATORS` has."""
    args, parts = aggregate.args, ACCUMULATORS[aggregate.function]
    if not args:
        parts = ("rows",)
    elif "sum" in parts and pa.types.is_floating(args[0].type):
        parts = ("count", "fsum")
    return tuple(Fold(part, aggregate.labels, args) for part in parts)
