"""How a query will run: what its kernel has to keep, and what a reported match consists of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trimtab.engine.match.compile.registers import (
    Bank,
    Layout,
    Register,
    RowLabel,
    RowRef,
    bank,
    folds,
    holds_row,
    label_place,
)
from trimtab.engine.match.ir.expression import Aggregate, Expr, MatchNumber, RowValue
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.engine.match.kernels.emit import NotCompilable, walk
from trimtab.engine.match.kernels.emit_numeric import check_foldable, fold_kind
from trimtab.engine.match.kernels.lowered import form_of

POSITION, START, END, NODE = 0, 1, 2, 3
"""The fixed fields of a thread. END is the last row it consumed, -1 for an empty match."""
FIXED = 4


@dataclass(frozen=True)
class Traits:
    """What a query needs of its kernel, whatever the data.

    `paths`: the output needs every row of a match, so threads remember their way. `sequential`: attempts run one
    after another, because a condition asks for the match number. `lookback` and `lookahead`: how far PREV and NEXT
    reach.
    """

    paths: bool
    sequential: bool
    lookback: int
    lookahead: int


@dataclass(frozen=True)
class Generated:
    """A kernel's source and what is needed to call it."""

    source: str
    compiled: bool  # whether it may be compiled to machine code
    columns: tuple[str, ...]
    strings: tuple[str, ...]
    values: tuple[object, ...]
    layout: Layout
    paths: bool
    fields: tuple[str | Register, ...]  # the integers of a reported match
    float_fields: tuple[Register, ...]
    configurations: int  # of the automaton; 0: the general kernel
    shortest: int  # the fewest rows that a match can have

    @property
    def deterministic(self) -> bool:
        """Whether the kernel is an automaton."""
        return self.configurations > 0

    @cached_property
    def row_fields(self) -> tuple[int, ...]:
        """The integers of a thread that are row numbers, which change when rows are renumbered."""
        return (START, END, *(FIXED + j for j, r in enumerate(self.layout.ints) if holds_row(r)))


def traits_of(query: MatchQuery) -> Traits:
    """Decide how a query runs."""
    conditions = [e for c in query.conditions if c is not None for e in walk(c)]
    slots = [e for s in query.slots for e in walk(s)]
    shifts = [e.place.shift for e in (*conditions, *slots) if isinstance(e, RowValue)]
    return Traits(
        paths=query.rows is not Rows.ONE or not all(_fits_registers(s) for s in query.slots),
        sequential=any(isinstance(e, MatchNumber) for e in conditions),
        lookback=max((*(-s for s in shifts), 0)),
        lookahead=max((*shifts, 0)),
    )


def _fits_registers(slot: Expr) -> bool:
    """Whether a slot can be read from registers at the end of a match."""
    match slot:
        case Aggregate():
            try:
                check_foldable(slot)
                for expr in (e for arg in slot.args for e in walk(arg)):
                    form_of(expr.type)
            except NotCompilable:
                return False
            return all(isinstance(e, RowValue) for arg in slot.args for e in walk(arg))
        case RowValue(place, sources) if len(sources) > 1:
            found = label_place(place)
            # The label of a shifted row of some variable is something that only the whole path can tell.
            return found is None or found.shift == 0
        case _:
            return True


def slot_registers(query: MatchQuery) -> tuple[Register, ...]:
    """The registers that the slots are read from at the end of a match."""
    found: dict[Register, None] = {}
    for slot in query.slots:
        match slot:
            case RowValue(place):
                if place.labels is not None or place.offset or place.shift:
                    found[RowRef(place.labels, place.side, place.offset, place.shift)] = None
                label = label_place(place)
                if len(slot.sources) > 1 and label is not None:
                    found[RowLabel(label.labels, label.side, label.offset, label.shift)] = None
            case Aggregate():
                found.update(dict.fromkeys(folds(slot, fold_kind(slot))))
            case MatchNumber():
                pass
    return tuple(found)


def report_fields(query: MatchQuery, paths: bool) -> tuple[tuple[str | Register, ...], tuple[Register, ...]]:
    """What is written for each match: integers and floats. No more than the output needs: a match may be short."""
    if paths:
        return ("key", "kind", "number", "start", "end", "begin", "length"), ()
    number = ["number"] if any(isinstance(s, MatchNumber) for s in query.slots) else []
    registers = slot_registers(query)
    ints = [r for r in registers if bank(r) is not Bank.FLOAT]
    return (*number, "start", "end", *ints), tuple(r for r in registers if bank(r) is Bank.FLOAT)
