"""The configurations of an automaton: the threads of each, their names in its code, how they are loaded and saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from trimtab.engine.match.compile.analysis import FixedLabel, Nothing, RowsBack
from trimtab.engine.match.compile.program import DONE
from trimtab.engine.match.compile.registers import END, POSITION, START, Bank, Register
from trimtab.engine.match.kernels.emit import Thread, Writer
from trimtab.engine.match.kernels.interface import ERROR_STATE
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

    @property
    def write(self) -> Writer:
        """Where code goes now."""
        return self.kernel.write

    def number(self, configuration: Configuration) -> int:
        """The number of a configuration, which is added if it is new. Raises `TooLarge`."""
        if configuration not in self.numbers:
            if len(self.numbers) == MAX_CONFIGURATIONS or len(configuration) > MAX_THREADS:
                raise TooLarge
            self.numbers[configuration] = len(self.numbers)
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
        return f"thread{at}_{register.bank.value}{self.kernel.layout.at[register]}"

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

    # The start and the end of a batch ---------------------------------------------------------

    def allocate(self) -> None:
        """Set all results, and all local names to a first value, so that the compiler knows their types."""
        write, layout = self.write, self.kernel.layout
        # Matches can't overlap, so their number is bounded, and the caller has allocated room for all of them.
        write("match_count = 0; match_ints = room_ints; match_floats = room_floats")
        write("path_rows = ints(0); path_positions = ints(0)")
        write("saved_capacity = 256; saved_count = 0; saved_offsets = ints(key_count + 1)")
        write(f"saved_ints = ints(saved_capacity * {layout.int_width})")
        write(f"saved_floats = floats(saved_capacity * {len(layout.floats)}); saved_objects = objects(0)")
        write("saved_node_count = 0; saved_node_offsets = ints(0); saved_nodes = ints(0)")
        write("resumes = ints(key_count); numbers_after = ints(key_count); fronts_after = fronts")
        write("error = 0; error_count = 0; error_key = -1; number = 0")
        names: dict[str, str] = {}
        for configuration in self.numbers:
            for at, position in enumerate(configuration):
                names[start_name(at)] = "0"
                names[end_name(at)] = "0"
                for register in self.kept(position):
                    names[self.name(at, register)] = "0.0" if register.bank is Bank.FLOAT else "0"
        for name, value in names.items():
            write(f"{name} = {value}")

    def load_threads(self) -> None:
        """Find the configuration that the key's threads form, and copy their registers into local names."""
        write, old = self.write, partial(self._element, "old", "base")
        write("thread_count = old_offsets[key + 1] - old_offsets[key]; configuration = 0")
        with write.block("if thread_count > 0:"):
            write("configuration = -1; base = old_offsets[key]")
            for configuration, number in self.numbers.items():
                if not configuration:
                    continue
                tests = [f"thread_count == {len(configuration)}"]
                tests += [f"{old(at, POSITION)} == {position}" for at, position in enumerate(configuration)]
                with write.block(f"if {' and '.join(tests)}:"):
                    write(f"configuration = {number}")
                    for at, position in enumerate(configuration):
                        write(f"{start_name(at)} = {old(at, START)}")
                        if position == DONE:
                            write(f"{end_name(at)} = {old(at, END)}")
                        for register in self.kept(position):
                            write(f"{self.name(at, register)} = {old(at, register)}")
            with write.block("if configuration < 0:"):
                write(f"error = {ERROR_STATE}; configuration = 0")

    def end_input(self) -> None:
        """If the input has ended, drop threads under way and report those that have ended."""
        write = self.write
        with write.block("if closing != 0:"):
            for configuration, number in self.numbers.items():
                ended = [at for at, position in enumerate(configuration) if position == DONE]
                if ended:
                    with write.block(f"if configuration == {number}:"):
                        for at in ended:
                            self.report(self.ended(at))
            write("configuration = 0")

    def save_threads(self) -> None:
        """Save the threads as the general kernel does, so that either can go on with them."""
        write, layout, saved = self.write, self.kernel.layout, partial(self._element, "saved", "saved_count")
        write("numbers_after[key] = number; resumes[key] = row; saved_offsets[key] = saved_count")
        longest = max(len(configuration) for configuration in self.numbers)
        with write.block(f"if saved_count + {longest} > saved_capacity:"):
            write(f"saved_capacity = 2 * (saved_count + {longest})")
            for bank_name, width in (("ints", layout.int_width), ("floats", len(layout.floats))):
                sizes = f"saved_capacity * {width}, saved_count * {width}"
                write(f"saved_{bank_name} = grow_{bank_name}(saved_{bank_name}, {sizes})")
        for configuration, number in self.numbers.items():
            if configuration:
                with write.block(f"if configuration == {number}:"):
                    for at, position in enumerate(configuration):
                        write(f"{saved(at, POSITION)} = {position}; {saved(at, START)} = {start_name(at)}")
                        write(f"{saved(at, END)} = {end_name(at) if position == DONE else 'row - 1'}")
                        for register in layout.registers:
                            write(f"{saved(at, register)} = {self._saved_value(at, position, register)}")
                    write(f"saved_count += {len(configuration)}")

    def _element(self, group: str, base: str, at: int, field: int | Register) -> str:
        """Code for a fixed field or a register of the thread number `at` from `base` on in a group of banks."""
        layout = self.kernel.layout
        if not isinstance(field, int) and field.bank is Bank.FLOAT:
            return f"{group}_floats[({base} + {at}) * {len(layout.floats)} + {layout.at[field]}]"
        index = field if isinstance(field, int) else layout.at[field]
        return f"{group}_ints[({base} + {at}) * {layout.int_width} + {index}]"

    def _saved_value(self, at: int, position: int, register: Register) -> str:
        """Code for a register's value: its local name, or what follows from the position."""
        if register in self.kept(position):
            return self.name(at, register)
        if position != DONE:
            fact = self.kernel.facts[position][register]
            if fact == RowsBack(0, 0):
                return "row - 1"
            if isinstance(fact, FixedLabel):
                return str(fact.label)
        return repr(register.initial)


def start_name(at: int) -> str:
    """The local name for the first row of a configuration's thread number `at`."""
    return f"thread{at}_start"


def end_name(at: int) -> str:
    """The local name for its last row; only threads that have ended need it."""
    return f"thread{at}_end"
