"""Places, registers and their updates as Python source: what compiled and interpreted kernels share.

An `Emitter` writes the code that looks at one row for one label: reads of registers, the values that they take if
the row is mapped to the label, and (in the subclasses) the condition itself. Names that the kernel provides:
`row` this row, `start` the first row of the match, `tail` and `end` the bounds of the partition's rows at hand,
`number` the matches so far, and the banks `thread_ints`, `thread_floats` and `thread_objects`, in which the thread
begins at `int_at`, `float_at` and `object_at`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trimtab.engine.match.compile.analysis import Anything, Facts, FixedLabel, Nothing, RowsBack
from trimtab.engine.match.compile.registers import NO_ROW, OUTSIDE, Fold, Register, RowLabel, RowRef
from trimtab.engine.match.ir.expression import Place, Side

if TYPE_CHECKING:
    from trimtab.engine.match.kernels.kernel_writer import KernelWriter


class NotCompilable(Exception):  # noqa: N818 - a signal inside the engine, never seen outside
    """An expression can't be computed with machine numbers; the kernel is interpreted instead."""


@dataclass
class Writer:
    """Lines of source with their indentation, and fresh names."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0
    names: int = 0

    def __call__(self, text: str = "") -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + text)

    def name(self) -> str:
        """A new name."""
        self.names += 1
        return f"value{self.names}"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a head such as `if x:` and indent what is written in the `with`."""
        self(head)
        self.depth += 1
        yield
        self.depth -= 1


@dataclass
class Numbered:
    """Columns or strings that a kernel reads, numbered in the order of their first use."""

    names: list[str] = field(default_factory=list)

    def index(self, name: str) -> int:
        """The number of a name, which is added if it is new."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)


PREVIOUS_ROW = "(row - 1)"
"""The row before this one: every live thread has consumed it, so it is there."""
THIS_ROW = "row"
CERTAIN_ROWS = (THIS_ROW, PREVIOUS_ROW)


@dataclass(frozen=True)
class Thread:
    """How code gets at the thread that tries a row.

    `fresh`: it starts on this row. `facts`: what is known of its registers. `start`: the name of its first row.
    `variables`: the registers that are local names instead of elements of the banks.
    """

    fresh: bool = False
    facts: Facts = field(default_factory=dict)
    start: str = "start"
    variables: Mapping[Register, str] | None = None


class Emitter:
    """Code for one row tried for one label by one thread."""

    def __init__(self, kernel: KernelWriter, label: int, thread: Thread) -> None:
        self.kernel, self.write = kernel, kernel.write
        self.label, self.thread = label, thread
        self.reads: set[Register] = set()
        self._temps: dict[object, str] = {}

    # Registers ---------------------------------------------------------------------------------

    def read(self, register: Register) -> str:
        """The register's value before this row."""
        index = self.kernel.layout.need(register)
        if self.thread.fresh:
            return repr(register.initial)
        match self.thread.facts.get(register, Anything()):
            case Nothing():
                return repr(register.initial)
            case RowsBack(0, 0):
                return PREVIOUS_ROW
            case FixedLabel(label):
                return str(label)
            case _:
                self.reads.add(register)
        if self.thread.variables is not None:
            return self.thread.variables[register]
        name = register.bank.value
        return f"thread_{name}s[{name}_at + {index}]"

    def read_once(self, register: Register) -> str:
        """A local name for the register's value before this row."""
        return self.temp(("read", register), self.read(register))

    def temp(self, key: object, code: str) -> str:
        """A local name for a piece of code, the same for the same key."""
        if key not in self._temps:
            if code == PREVIOUS_ROW or code.lstrip("-").replace("_", "").isalnum():
                self._temps[key] = code
            else:
                name = self.write.name()
                self.write(f"{name} = {code}")
                self._temps[key] = name
        return self._temps[key]

    def mark(self) -> tuple[int, frozenset[Register], dict[object, str]]:
        """How much was written and read so far, for `forget`."""
        return len(self.write.lines), frozenset(self.reads), dict(self._temps)

    def forget(self, mark: tuple[int, frozenset[Register], dict[object, str]]) -> None:
        """Undo what was written and read since the mark."""
        lines, reads, self._temps = mark
        del self.write.lines[lines:]
        self.reads = set(reads)

    def updated(self, register: Register) -> str:
        """The register's value after this row is mapped to the label."""
        labels = register.labels
        ahead = isinstance(register, RowLabel) and register.shift > 0
        if labels is not None and self.label not in labels and not ahead:
            return self.read(register)
        key = ("updated", register)
        if key in self._temps:
            return self._temps[key]
        match register:
            case RowRef(_, Side.LAST, index, shift):
                code = self.here(shift) if index == 0 else self.read(replace(register, index=index - 1))
            case RowRef(_, Side.FIRST, index, shift):
                code = self._first(register, self.here(shift), index)
            case RowLabel(_, _, _, shift) if shift > 0:
                code = self._label_ahead(register)
            case RowLabel(_, side, index, shift):
                now = str(self.label) if shift == 0 else self.read(RowLabel(None, Side.LAST, -shift - 1, 0))
                if side is Side.LAST:
                    code = now if index == 0 else self.read(replace(register, index=index - 1))
                else:
                    code = self._first(RowRef(labels, side, index, shift), now, index, register)
            case Fold():
                code = self.fold(register)
        return self.temp(key, code)

    def _label_ahead(self, register: RowLabel) -> str:
        """The label of a row after a variable's row: known once that row has come, which may be now."""
        labels, side, index, shift = register.labels, register.side, register.index, register.shift

        def so_far(at: int) -> str:
            ref = self.read(RowRef(labels, side, at, shift))
            before = self.read(RowLabel(labels, side, at, shift))
            return f"({self.label} if {ref} == {THIS_ROW} else {before})"

        if labels is not None and self.label not in labels:
            return so_far(index)
        if side is Side.LAST:
            return "-1" if index == 0 else so_far(index - 1)
        # The place may be taken by this row: its label ahead is not known then.
        return self._first(RowRef(labels, side, index, shift), "-1", index, register, so_far(index))

    def _first(self, ref: RowRef, now: str, index: int, value: Register | None = None, kept: str | None = None) -> str:
        """The value `now` if this row takes the place, else the value so far."""
        before, own = kept or self.read(value or ref), self.read(ref)
        if own == PREVIOUS_ROW:
            return before
        conditions = [] if own == str(NO_ROW) else [f"{own} == {NO_ROW}"]
        if index > 0:
            taken = self.read(RowRef(ref.labels, Side.FIRST, index - 1, ref.shift))
            if taken == str(NO_ROW):
                return before
            if taken != PREVIOUS_ROW:
                conditions.append(f"{taken} != {NO_ROW}")
        return f"({now} if {' and '.join(conditions)} else {before})" if conditions else now

    def here(self, shift: int) -> str:
        """The row `shift` rows from this one, or OUTSIDE."""
        if shift == 0:
            return THIS_ROW
        code = (
            f"(row - {-shift} if row - {-shift} >= tail else {OUTSIDE})"
            if shift < 0
            else f"(row + {shift} if row + {shift} < end else {OUTSIDE})"
        )
        return self.temp(("here", shift), code)

    def fold(self, fold: Fold) -> str:
        """The accumulator's new value; the label is one that counts."""
        raise NotImplementedError

    # Places ------------------------------------------------------------------------------------

    def row(self, place: Place) -> str:
        """The row at a place, this row counted as the last of the match; negative if there is none."""
        counts = place.labels is None or self.label in place.labels
        if place.side is Side.LAST and counts and place.offset == 0:
            return self.here(place.shift)
        ref = RowRef.at(place)
        if place.side is Side.LAST and counts:
            return self.read_once(replace(ref, index=place.offset - 1))
        return self.updated(ref) if counts else self.read_once(ref)

    def row_label(self, place: Place) -> str:
        """The label of the row at a place as a number, -1 if it is outside the match so far."""
        register = RowLabel.at(place)
        if register is None:
            return "-1"
        counts = register.labels is None or self.label in register.labels
        if register.shift <= 0 and register.side is Side.LAST and counts:
            if register.index == 0:
                return str(self.label) if register.shift == 0 else self.updated(register)
            return self.read_once(replace(register, index=register.index - 1))
        return self.updated(register) if counts or register.shift > 0 else self.read_once(register)
