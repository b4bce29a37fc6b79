"""What a thread remembers: a fixed row of registers, whatever the length of its match.

Navigation needs row numbers (`RowRef`) and sometimes the label a row had (`RowLabel`); aggregates need accumulators
(`Fold`). A register is named by what it holds, so equal needs share one. Row numbers point into the rows at hand:
values, strings too, are read from the columns there, so nothing is copied into a thread but numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from trimtab.engine.match.ir.expression import Aggregate, Expr, Place, Side

NO_ROW = -1
"""There is no such row (yet)."""
OUTSIDE = -2
"""There is such a place, but its shift leaves the partition; read like `NO_ROW`, but it is taken."""


class Bank(enum.Enum):
    """Where a register lives: integers, floats, or Python objects (interpreted programs only); named as in kernels."""

    INT = "int"
    FLOAT = "float"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class RowRef:
    """The row at a place, `index` from one side, shifted."""

    labels: frozenset[int] | None
    side: Side
    index: int
    shift: int


@dataclass(frozen=True, slots=True)
class RowLabel:
    """The label of the row that the same `RowRef` names; `len(labels)` if that row is outside the match."""

    labels: frozenset[int] | None
    side: Side
    index: int
    shift: int


@dataclass(frozen=True, slots=True)
class Fold:
    """One accumulator of an aggregate over the rows mapped to `labels`; `part` says which."""

    part: str
    labels: frozenset[int] | None
    args: tuple[Expr, ...]


Register = RowRef | RowLabel | Fold

INITIAL: dict[str, int | float | tuple[()]] = {
    "rows": 0,  # how many rows
    "count": 0,  # how many of them are not null
    "sum": 0,
    "fsum": 0.0,
    "mean": 0.0,  # Welford's
    "m2": 0.0,
    "min": NO_ROW,  # the row of the smallest, and so on
    "max": NO_ROW,
    "any": NO_ROW,
    "first": NO_ROW,
    "last": NO_ROW,
    "max_by": NO_ROW,
    "min_by": NO_ROW,
    "and": -1,  # -1 nothing yet, 0 false, 1 true
    "or": -1,
    "values": (),  # all of them, in order; Python objects
}
ROW_PARTS = frozenset({"min", "max", "any", "first", "last", "max_by", "min_by"})
"""Parts that hold a row number."""


def initial(register: Register) -> int | float | tuple[()]:
    """The value before the first row."""
    match register:
        case Fold(part):
            return INITIAL[part]
        case RowRef():
            return NO_ROW
        case RowLabel():
            return NO_ROW


def bank(register: Register) -> Bank:
    """Which bank holds the register."""
    if isinstance(register, Fold):
        if register.part in ("fsum", "mean", "m2"):
            return Bank.FLOAT
        if register.part == "values":
            return Bank.OBJECT
    return Bank.INT


def holds_row(register: Register) -> bool:
    """Whether the register's value is a row number, which moves when rows are renumbered."""
    return isinstance(register, RowRef) or (isinstance(register, Fold) and register.part in ROW_PARTS)


@dataclass
class Layout:
    """Which register sits where. Slot numbers of the int bank start behind the fixed fields of a thread."""

    fixed: int
    ints: list[Register] = field(default_factory=list)
    floats: list[Register] = field(default_factory=list)
    objects: list[Register] = field(default_factory=list)
    at: dict[Register, int] = field(default_factory=dict)

    def need(self, register: Register) -> int:
        """The slot of a register, given one if it has none yet, with the registers it is made from."""
        if register in self.at:
            return self.at[register]
        match register:
            case RowRef(labels, side, index, shift):
                self._need_before([RowRef(labels, side, each, shift) for each in range(index)])
            case RowLabel(labels, side, index, shift):
                self._need_before([RowLabel(labels, side, each, shift) for each in range(index)])
                # Whether a place is taken, and which row is ahead of it, shows in the row number.
                if side is Side.FIRST or shift > 0:
                    self.need(RowRef(labels, side, index, shift))
                if shift < 0:
                    self.need(RowLabel(None, Side.LAST, -shift - 1, 0))
            case _:
                pass
        match bank(register):
            case Bank.INT:
                self.at[register] = self.fixed + len(self.ints)
                self.ints.append(register)
            case Bank.FLOAT:
                self.at[register] = len(self.floats)
                self.floats.append(register)
            case Bank.OBJECT:
                self.at[register] = len(self.objects)
                self.objects.append(register)
        return self.at[register]

    def _need_before(self, earlier: Sequence[Register]) -> None:
        """Slots for the registers before one, the first of them first: none has to ask for more than its neighbour."""
        known = next((place for place in reversed(range(len(earlier))) if earlier[place] in self.at), -1)
        for register in earlier[known + 1 :]:
            self.need(register)

    @property
    def registers(self) -> tuple[Register, ...]:
        """All registers, bank by bank."""
        return (*self.ints, *self.floats, *self.objects)


def label_place(place: Place) -> Place | None:
    """The place whose label `place` asks for, without a shift where that can be had; None: always outside.

    A shifted row of the match has the label of another place of the match, as far as that is known by now.
    """
    if place.shift == 0:
        return place
    if place.labels is None:
        ahead = place.shift if place.side is Side.FIRST else -place.shift
        offset = place.offset + ahead
        return Place(None, place.side, offset, 0, place.final) if offset >= 0 else None
    return place


def folds(aggregate: Aggregate, kind: str) -> tuple[Fold, ...]:  # noqa: C901 - one case per function
    """The accumulators that an aggregate needs; `kind` is that of its (first) argument, `i` or `f`."""
    labels, args = aggregate.labels, aggregate.args

    def make(*parts: str) -> tuple[Fold, ...]:
        return tuple(Fold(part, labels, args) for part in parts)

    match aggregate.function:
        case "count":
            return make("count") if args else make("rows")
        case "sum" | "avg":
            return make("count", "sum" if kind == "i" else "fsum")
        case "stddev_samp" | "stddev_pop" | "var_samp" | "var_pop":
            return make("count", "mean", "m2")
        case "bool_and":
            return make("and")
        case "bool_or":
            return make("or")
        case "any_value":
            return make("any")
        case "first_value":
            return make("first")
        case "last_value":
            return make("last")
        case "min" | "max" | "max_by" | "min_by" as part:
            return make(part)
        case other:
            raise AssertionError(f"{other} has no accumulators")
