"""The configurations of an automaton: the threads of each, and their names in its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.engine.match.compile.analysis import FixedLabel, Nothing, RowsBack
from trimtab.engine.match.compile.program import DONE
from trimtab.engine.match.compile.registers import Register, bank
from trimtab.engine.match.kernels.emit import Thread, Writer
from trimtab.engine.match.kernels.kernel_writer import KernelWriter

MAX_CONFIGURATIONS = 24
MAX_THREADS = 8
"""The time to compile grows with the square of the code; up to these limits names are faster than a list of threads."""


class TooLarge(Exception):  # noqa: N818 - a signal inside the engine, never seen outside
    """There are too many configurations for a branch each."""


Configuration = tuple[int, ...]
"""The positions of the live threads, best first; `DONE` for one that has ended and waits for a better one."""


@dataclass(frozen=True)
class NextThread:
    """A thread of the next configuration: its position, and code for its values."""

    position: int
    start: str
    end: str
    values: Mapping[Register, str]


@dataclass
class Configurations:
    """The configurations found so far, and the code that all of them share."""

    kernel: KernelWriter
    numbers: dict[Configuration, int] = field(default_factory=dict)
    order: list[Configuration] = field(default_factory=list)

    @property
    def write(self) -> Writer:
        """Where code goes now."""
        return self.kernel.write

    def number(self, configuration: Configuration) -> int:
        """The number of a configuration, which is added if it is new. Raises `TooLarge`."""
        if configuration not in self.numbers:
            if len(self.order) == MAX_CONFIGURATIONS or len(configuration) > MAX_THREADS:
                raise TooLarge
            self.numbers[configuration] = len(self.order)
            self.order.append(configuration)
        return self.numbers[configuration]

    def kept(self, position: int) -> list[Register]:
        """The registers that a thread at a position keeps in local names: those that don't follow from it."""
        kernel = self.kernel
        if position == DONE:
            return [*(f for f in kernel.fields if not isinstance(f, str)), *kernel.float_fields]
        facts = kernel.facts[position]
        return [
            r
            for r in kernel.layout.registers
            if facts[r] != RowsBack(0, 0) and not isinstance(facts[r], Nothing | FixedLabel)
        ]

    def name(self, at: int, register: Register) -> str:
        """The local name for a register of a configuration's thread number `at`."""
        return f"thread{at}_{bank(register).value}{self.kernel.layout.at[register]}"

    def thread(self, at: int, position: int) -> Thread:
        """How code gets at a configuration's thread number `at`."""
        names = {r: self.name(at, r) for r in self.kept(position)}
        return Thread(facts=self.kernel.facts[position], start=start_name(at), variables=names)

    def ended(self, at: int) -> NextThread:
        """A configuration's thread number `at`, which has ended, unchanged."""
        return NextThread(DONE, start_name(at), end_name(at), {r: self.name(at, r) for r in self.kept(DONE)})

    def report(self, match: NextThread) -> None:
        """Write code that reports a match."""
        write, kernel = self.write, self.kernel
        if "number" in kernel.fields:
            write("number += 1")
        for at, name in enumerate(kernel.fields):
            fixed = {"number": "number", "start": match.start, "end": match.end}
            code = fixed[name] if isinstance(name, str) else match.values[name]
            write(f"match_ints[match_count * {len(kernel.fields)} + {at}] = {code}")
        for at, register in enumerate(kernel.float_fields):
            write(f"match_floats[match_count * {len(kernel.float_fields)} + {at}] = {match.values[register]}")
        write("match_count += 1")


def start_name(at: int) -> str:
    """The local name for the first row of a configuration's thread number `at`."""
    return f"thread{at}_start"


def end_name(at: int) -> str:
    """The local name for its last row; only threads that have ended need it."""
    return f"thread{at}_end"
