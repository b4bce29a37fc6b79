"""What is known of registers before the program runs: at each position, which of them can't differ between threads.

A register is *known* at a position if its value follows from the position and the row alone: nothing yet, the row
just consumed, the row n rows back, or a fixed label. Two threads at the same position agree on known registers,
so only the others have to be compared to see that threads have the same future.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trimtab.engine.match.compile.program import DONE, Program
from trimtab.engine.match.compile.registers import Fold, Layout, Register, RowLabel, RowRef
from trimtab.engine.match.ir.expression import Side


@dataclass(frozen=True, slots=True)
class Nothing:
    """The initial value."""


@dataclass(frozen=True, slots=True)
class RowsBack:
    """The row consumed `age` rows ago (0: the last one), shifted."""

    age: int
    shift: int


@dataclass(frozen=True, slots=True)
class FixedLabel:
    """This label."""

    label: int


@dataclass(frozen=True, slots=True)
class Anything:
    """Not known."""


Known = Nothing | RowsBack | FixedLabel | Anything
Facts = Mapping[Register, Known]
MAX_AGE = 16


def analyse(program: Program, layout: Layout) -> list[Facts]:
    """For each position, what is known right after its row."""
    start: Facts = {r: Nothing() for r in layout.registers}
    found: list[Facts | None] = [None] * len(program.positions)
    work = [(start, step.target) for step in program.start if step.target != DONE]
    while work:
        before, target = work.pop()
        label = program.positions[target].label
        after = {r: _after(r, label, before) for r in layout.registers}
        known = found[target]
        joined = after if known is None else {r: after[r] if after[r] == known[r] else Anything() for r in after}
        if joined != known:
            found[target] = joined
            work.extend((joined, step.target) for step in program.positions[target].steps if step.target != DONE)
    return [facts if facts is not None else start for facts in found]


def _after(register: Register, label: int, before: Facts) -> Known:
    """What is known of a register after a row mapped to the label."""
    if isinstance(register, RowLabel) and register.shift > 0:
        return Anything()  # it changes when the row ahead comes, whatever that is mapped to
    own = _aged(before[register])
    if register.labels is not None and label not in register.labels:
        return own
    match register:
        case RowRef(labels, Side.LAST, index, shift):
            if index == 0:
                return RowsBack(0, shift)
            return _aged(before[RowRef(labels, Side.LAST, index - 1, shift)])
        case RowRef(_, _, _, shift):
            return _taken_first(register, before, RowsBack(0, shift), own)
        case RowLabel(labels, side, index, shift):
            now: Known = (
                FixedLabel(label) if shift == 0 else before.get(RowLabel(None, Side.LAST, -shift - 1, 0), Anything())
            )
            if side is Side.FIRST:
                return _taken_first(RowRef(labels, side, index, shift), before, now, own)
            return now if index == 0 else before[RowLabel(labels, side, index - 1, shift)]
        case Fold(part):
            return RowsBack(0, 0) if part == "last" else Anything()


def _taken_first(ref: RowRef, before: Facts, now: Known, own: Known) -> Known:
    """A place counted from the first row: taken now, already taken, or not yet."""
    if isinstance(before[ref], RowsBack):
        return own
    if not isinstance(before[ref], Nothing):
        return Anything()
    if ref.index == 0:
        return now
    match before[RowRef(ref.labels, ref.side, ref.index - 1, ref.shift)]:
        case RowsBack():
            return now
        case Nothing():
            return Nothing()
        case _:
            return Anything()


def _aged(known: Known) -> Known:
    if isinstance(known, RowsBack):
        return RowsBack(known.age + 1, known.shift) if known.age < MAX_AGE else Anything()
    return known


def live_registers(
    program: Program, reads: Callable[[int, int], tuple[set[Register], Callable[[Register], set[Register]]]]
) -> list[set[Register]]:
    """For each position, the registers whose values after its row conditions of later rows may depend on.

    `reads(position, target)` gives the registers that the condition of the step reads, and a function from a register
    to those that its new value is made of.
    """
    steps = [
        [(s.target, *reads(i, s.target)) for s in p.steps if s.target != DONE] for i, p in enumerate(program.positions)
    ]
    live: list[set[Register]] = [set() for _ in program.positions]
    changed = True
    while changed:
        changed = False
        for index, onward in enumerate(steps):
            now = set(live[index])
            for target, condition, made_of in onward:
                now |= condition
                for register in live[target]:
                    now |= made_of(register)
            if now != live[index]:
                live[index], changed = now, True
    return live
