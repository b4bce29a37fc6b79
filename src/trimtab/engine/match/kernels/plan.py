"""How a query will run: what its kernel has to keep, and what a reported match consists of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trimtab.engine.match.compile.registers import (
    END,
    START,
    Bank,
    Layout,
    Register,
    RowLabel,
    RowRef,
    folds,
    holds_row,
)
from trimtab.engine.match.ir.expression import Aggregate, Expr, MatchNumber, RowValue, walk
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.engine.match.kernels.emit import NotCompilable
from trimtab.engine.match.kernels.emit_numeric import check_foldable
from trimtab.engine.match.kernels.interface import Tables


@dataclass(frozen=True)
class Traits:
    """What a query needs of its kernel, whatever the data.

    `paths`: the output needs every row of a match, so threads remember their paths. `sequential`: attempts run one
    after another, because a condition reads the match number. `lookback` and `lookahead`: how many rows PREV and NEXT
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
    tables: Tables | tuple[()]  # for the general kernel; the automaton takes none
    literals: tuple[int | float, ...]  # those that stand in the query

    @property
    def deterministic(self) -> bool:
        """Whether the kernel is an automaton."""
        return self.configurations > 0

    @cached_property
    def row_fields(self) -> tuple[int, ...]:
        """The integers of a thread that are row numbers, which change when rows are renumbered."""
        return (START, END, *(self.layout.at[register] for register in self.layout.ints if holds_row(register)))


def traits_of(query: MatchQuery) -> Traits:
    """Decide how a query runs."""
    shifts = [expr.place.shift for expr in query.expressions() if isinstance(expr, RowValue)]
    conditions = (condition for condition in query.conditions if condition is not None)
    return Traits(
        paths=query.rows is not Rows.ONE or not all(_fits_registers(s) for s in query.slots),
        sequential=any(isinstance(expr, MatchNumber) for condition in conditions for expr in walk(condition)),
        lookback=max((*(-s for s in shifts), 0)),
        lookahead=max((*shifts, 0)),
    )


def _fits_registers(slot: Expr) -> bool:
    """Whether a slot can be read from registers at the end of a match."""
    match slot:
        case Aggregate():
            try:
                check_foldable(slot)
            except NotCompilable:
                return False
            return all(isinstance(arg, RowValue) for arg in slot.args)
        case RowValue(place, sources) if len(sources) > 1:
            found = RowLabel.at(place)
            # Only the whole path has the label of a shifted row of some variable.
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
                    found[RowRef.at(place)] = None
                if len(slot.sources) > 1 and (label := RowLabel.at(place)) is not None:
                    found[label] = None
            case Aggregate():
                found.update(dict.fromkeys(folds(slot)))
            case MatchNumber():
                pass
    return tuple(found)


def report_fields(query: MatchQuery, paths: bool) -> tuple[tuple[str | Register, ...], tuple[Register, ...]]:
    """The integers and floats of a reported match: only what the output needs, as there may be many short matches."""
    if paths:
        return ("key", "kind", "number", "start", "end", "begin", "length"), ()
    number = ["number"] if any(isinstance(s, MatchNumber) for s in query.slots) else []
    registers = slot_registers(query)
    ints = [r for r in registers if r.bank is not Bank.FLOAT]
    return (*number, "start", "end", *ints), tuple(r for r in registers if r.bank is Bank.FLOAT)
