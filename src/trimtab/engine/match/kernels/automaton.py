"""Kernels without thread lists: where the threads of a key can only form a few arrangements, each becomes a state.

Under SKIP PAST LAST ROW, where no two threads at a position can differ in anything that conditions still to come look
at, the list of live threads is determined by its positions. Each such list (a *configuration*) becomes a branch of
the kernel with its registers in local names, and each row is one walk down a tree of conditions, as in a loop that
somebody wrote by hand for this pattern. This is what makes plain patterns fast; `codegen.py` runs all others.

Configurations are found by following every outcome of every condition from the empty one. A pattern that has too many
raises `TooLarge` and is left to the general kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimtab.engine.match.compile.analysis import FixedLabel, Nothing, RowsBack
from trimtab.engine.match.compile.program import DONE, Step
from trimtab.engine.match.compile.registers import Bank, Register, bank, initial
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.kernels.emit import Thread, Writer
from trimtab.engine.match.kernels.kernel_writer import KernelWriter
from trimtab.engine.match.kernels.plan import END, ERROR_STATE, FIXED, PARAMETERS, POSITION, RESULTS, START

MAX_CONFIGURATIONS = 24
MAX_LEAVES = 160
MAX_THREADS = 8
"""Compiling takes time with the square of the code; a list of this length is still quicker as names than as rows."""


class TooLarge(Exception):  # noqa: N818 - a signal inside the engine, never seen outside
    """There are too many configurations to be worth a branch each."""


Configuration = tuple[int, ...]
"""The positions of the live threads, best first; `DONE` for one that has ended and waits for a better one."""


@dataclass(frozen=True)
class _Next:
    """A thread of the configuration to come: where it is, and code for its values."""

    position: int
    start: str
    end: str
    values: Mapping[Register, str]


@dataclass
class _Automaton:
    kernel: KernelWriter
    numbers: dict[Configuration, int] = field(default_factory=dict)
    order: list[Configuration] = field(default_factory=list)
    leaves: int = 0

    @property
    def write(self) -> Writer:
        return self.kernel.write

    def number(self, configuration: Configuration) -> int:
        if configuration not in self.numbers:
            if len(self.order) == MAX_CONFIGURATIONS or len(configuration) > MAX_THREADS:
                raise TooLarge
            self.numbers[configuration] = len(self.order)
            self.order.append(configuration)
        return self.numbers[configuration]

    # Names -------------------------------------------------------------------------------------

    def kept(self, position: int) -> list[Register]:
        """The registers that a thread at a position keeps in local names: those that don't follow from it."""
        kernel = self.kernel
        if position == DONE:
            return [
                *(f for f in kernel.fields if not isinstance(f, str)),
                *kernel.float_fields,
            ]
        facts = kernel.facts[position]
        return [
            r
            for r in kernel.layout.registers
            if facts[r] != RowsBack(0, 0) and not isinstance(facts[r], Nothing | FixedLabel)
        ]

    def name(self, at: int, register: Register) -> str:
        letter = "y" if bank(register) is Bank.FLOAT else "x"
        return f"{letter}{at}_{self.kernel.layout.at[register]}"

    def thread(self, at: int, position: int) -> Thread:
        """How conditions see the thread that stands at this place of the configuration."""
        names = {r: self.name(at, r) for r in self.kept(position)}
        return Thread(facts=self.kernel.facts[position], start=f"s{at}", variables=names)

    # One row -----------------------------------------------------------------------------------

    def row(self, configuration: Configuration) -> None:
        """The tree of conditions for a row that meets this configuration."""
        self._grow(configuration, 0, 0, [], {})

    def _grow(
        self,
        configuration: Configuration,
        at: int,
        step: int,
        nexts: list[_Next],
        outcomes: dict[str, bool],
    ) -> None:
        kernel = self.kernel
        while at < len(configuration):
            position = configuration[at]
            if position == DONE:
                kept = {r: self.name(at, r) for r in self.kept(DONE)}
                nexts = [*nexts, _Next(DONE, f"s{at}", f"e{at}", kept)]
                at, step = at + 1, 0
                continue
            steps = [s for s in kernel.program.positions[position].steps if s.target != DONE]
            if step == len(steps):
                at, step = at + 1, 0
                continue
            if self._try(configuration, at, step, steps[step], self.thread(at, position), nexts, outcomes):
                return
            step += 1
        start = kernel.program.start
        while step < len(start):
            if self._try(configuration, at, step, start[step], Thread(fresh=True, start="i"), nexts, outcomes):
                return
            step += 1
        self._leaf(nexts)

    def _try(
        self,
        configuration: Configuration,
        at: int,
        step: int,
        onward: Step,
        thread: Thread,
        nexts: list[_Next],
        outcomes: dict[str, bool],
    ) -> bool:
        """Write what follows from a step if its condition decides anything; False: the step can't be taken."""
        kernel = self.kernel
        first_row = "i == origin" if Anchor.START in onward.when else "True"
        if onward.target == DONE:
            if not thread.fresh:
                return False
            empty = _Next(DONE, "i", "-1", {r: repr(initial(r)) for r in self.kept(DONE)})
            taken = self._branch(first_row, outcomes)
            return self._both(taken, first_row, configuration, at, step, nexts, outcomes, lambda: [empty], ends=True)
        target = kernel.program.positions[onward.target]
        if target.waits and any(n.position == onward.target for n in nexts):
            return False
        emitter = kernel.emitter(target.label, thread)
        condition = kernel.query.conditions[target.label]
        code = emitter.condition(condition) if condition is not None else "True"
        if first_row != "True":
            code = first_row if code == "True" else f"{first_row} and {code}"
        taken = self._branch(code, outcomes)
        if taken is False:
            return False
        threads: list[_Next] = []

        def pushed() -> list[_Next]:
            # Written inside the branch that is taken: new values cost nothing elsewhere.
            values = {r: emitter.updated(r) for r in kernel.layout.registers}
            start = "i" if thread.fresh else thread.start
            if target.waits:
                threads.append(_Next(onward.target, start, "i", values))
            if target.may_end:
                threads.append(_Next(DONE, start, "i", values))
            return threads

        return self._both(taken, code, configuration, at, step, nexts, outcomes, pushed, ends=target.may_end)

    @staticmethod
    def _branch(code: str, outcomes: dict[str, bool]) -> bool | None:
        if code in ("True", "False"):
            return code == "True"
        return outcomes.get(code)

    def _both(
        self, taken: bool | None, code: str, configuration: Configuration, at: int, step: int,
        nexts: list[_Next], outcomes: dict[str, bool], pushed: Callable[[], list[_Next]], *, ends: bool,
    ) -> bool:  # fmt: skip
        """Write the branch where the step is taken and the one where it isn't, each with all that follows."""
        if taken is False:
            return False

        def on_taken(known: dict[str, bool]) -> None:
            more = pushed()
            if ends:
                self._leaf([*nexts, *more])
            else:
                self._grow(configuration, at, step + 1, [*nexts, *more], known)

        if taken is True:
            on_taken(outcomes)
            return True
        with self.write.block(f"if {code}:"):
            on_taken(outcomes | _implied(code, True))
        with self.write.block("else:"):
            self._grow(configuration, at, step + 1, nexts, outcomes | _implied(code, False))
        return True

    def _leaf(self, nexts: list[_Next]) -> None:
        """All threads have met the row: report what is decided, and go to the configuration that is left."""
        self.leaves += 1
        if self.leaves > MAX_LEAVES:
            raise TooLarge
        while nexts and nexts[0].position == DONE:
            self._report(nexts[0])
            nexts = nexts[1:]
        names, values = ["state"], [str(self.number(tuple(n.position for n in nexts)))]
        for at, each in enumerate(nexts):
            pairs = [(f"s{at}", each.start)]
            if each.position == DONE:
                pairs.append((f"e{at}", each.end))
            pairs += [(self.name(at, r), each.values[r]) for r in self.kept(each.position)]
            for name, value in pairs:
                if name != value:
                    names.append(name)
                    values.append(value)
        self.write(f"{', '.join(names)} = {', '.join(values)}")

    def _report(self, each: _Next) -> None:
        write, kernel = self.write, self.kernel
        size, fsize = len(kernel.fields), len(kernel.float_fields)
        if "number" in kernel.fields:
            write("number += 1")
        for at, name in enumerate(kernel.fields):
            code = {"number": "number", "start": each.start, "end": each.end}.get(name if isinstance(name, str) else "")
            if code is None:
                assert not isinstance(name, str)
                code = each.values[name]
            write(f"oi[on * {size} + {at}] = {code}")
        for at, register in enumerate(kernel.float_fields):
            write(f"of[on * {fsize} + {at}] = {each.values[register]}")
        write("on += 1")

    # Batch edges -------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the configuration that the key's threads form, and take their registers into names."""
        write, kernel = self.write, self.kernel
        write("n = toff[k + 1] - toff[k]; state = 0")
        with write.block("if n > 0:"):
            write("state = -1; base = toff[k]")
            for configuration, number in self.numbers.items():
                if not configuration:
                    continue
                tests = [f"n == {len(configuration)}"] + [
                    f"tin[(base + {at}) * {kernel.width} + {POSITION}] == {position}"
                    for at, position in enumerate(configuration)
                ]
                with write.block(f"if {' and '.join(tests)}:"):
                    write(f"state = {number}")
                    for at, position in enumerate(configuration):
                        self._load_thread(at, position)
            with write.block("if state < 0:"):
                write(f"error = {ERROR_STATE}; state = 0")

    def _load_thread(self, at: int, position: int) -> None:
        kernel = self.kernel
        row = f"(base + {at}) * {kernel.width}"
        self.write(f"s{at} = tin[{row} + {START}]")
        if position == DONE:
            self.write(f"e{at} = tin[{row} + {END}]")
        for register in self.kept(position):
            slot = kernel.layout.at[register]
            if bank(register) is Bank.FLOAT:
                source = f"tfin[(base + {at}) * {kernel.fwidth} + {slot}]"
            else:
                source = f"tin[{row} + {slot}]"
            self.write(f"{self.name(at, register)} = {source}")

    def close(self) -> None:
        """The input ends: threads under way die, ended ones are reported."""
        write = self.write
        with write.block("if closing != 0:"):
            for configuration, number in self.numbers.items():
                ended = [at for at, p in enumerate(configuration) if p == DONE]
                if ended:
                    with write.block(f"if state == {number}:"):
                        for at in ended:
                            kept = {r: self.name(at, r) for r in self.kept(DONE)}
                            self._report(_Next(DONE, f"s{at}", f"e{at}", kept))
            write("state = 0")

    def save(self) -> None:
        """Write the threads out as the general kernel does, so that either can go on with them."""
        write, kernel = self.write, self.kernel
        write("numbers[k] = number; resume[k] = i; soff[k] = sn")
        longest = max(len(c) for c in self.order)
        with write.block(f"if sn + {longest} > scap:"):
            write(f"scap = 2 * (sn + {longest})")
            write(f"si = grow_ints(si, scap * {kernel.width}, sn * {kernel.width})")
            write(f"sf = grow_floats(sf, scap * {kernel.fwidth}, sn * {kernel.fwidth})")
        for configuration, number in self.numbers.items():
            if configuration:
                with write.block(f"if state == {number}:"):
                    for at, position in enumerate(configuration):
                        self._save_thread(at, position)
                    write(f"sn += {len(configuration)}")

    def _save_thread(self, at: int, position: int) -> None:
        write, kernel = self.write, self.kernel
        row = f"(sn + {at}) * {kernel.width}"
        end = f"e{at}" if position == DONE else "i - 1"
        write(f"si[{row} + {POSITION}] = {position}; si[{row} + {START}] = s{at}; si[{row} + {END}] = {end}")
        kept = self.kept(position)
        for register in kernel.layout.registers:
            if register in kept:
                value = self.name(at, register)
            elif position != DONE and kernel.facts[position][register] == RowsBack(0, 0):
                value = "i - 1"
            elif position != DONE and isinstance(fact := kernel.facts[position][register], FixedLabel):
                value = str(fact.label)
            else:
                value = repr(initial(register))
            slot = kernel.layout.at[register]
            if bank(register) is Bank.FLOAT:
                write(f"sf[(sn + {at}) * {kernel.fwidth} + {slot}] = {value}")
            else:
                write(f"si[{row} + {slot}] = {value}")


_OPPOSITES = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
_EXCLUDED = {"<": (">", "=="), ">": ("<", "=="), "==": ("<", ">")}


def _implied(code: str, outcome: bool) -> dict[str, bool]:
    """What a comparison's outcome says of itself and of other comparisons of the same two values.

    NaN is no concern: where it occurs comparisons are calls, not signs.

    >>> _implied("(a < b)", True)["(a > b)"]
    False
    """
    found = {code: outcome}
    for sign, opposite in _OPPOSITES.items():
        left, middle, right = code.partition(f" {sign} ")
        if not middle or not (left.startswith("(") and right.endswith(")")):
            continue
        if not (_is_simple(left[1:]) and _is_simple(right[:-1])):
            continue
        found[f"{left} {opposite} {right}"] = not outcome
        if outcome:
            for other in _EXCLUDED.get(sign, ()):
                found[f"{left} {other} {right}"] = False
                found[f"{left} {_OPPOSITES[other]} {right}"] = True
    return found


def _is_simple(code: str) -> bool:
    """Whether code is one value: no connectives, and no bracket left open."""
    words = code.split()
    if {"and", "or", "not", "if", "else", "<", ">", "<=", ">=", "==", "!="} & set(words):
        return False
    return code.count("(") == code.count(")") and code.count("[") == code.count("]")


def write_automaton(kernel: KernelWriter) -> str:
    """The source for a query whose configurations are few; raises `TooLarge` otherwise."""
    automaton = _Automaton(kernel)
    automaton.number(())
    rows: list[Writer] = []
    while len(rows) < len(automaton.order):
        kernel.write = Writer(names=sum(w.names for w in rows))
        automaton.row(automaton.order[len(rows)])
        rows.append(kernel.write)
    body = kernel.write = Writer(depth=1)
    _allocate(automaton)
    with body.block("for k in range(nk):"):
        body("t0 = tail[k]; hi = ends[k]; last = stop[k]; number = numbers[k]")
        body("origin = first[k] if begun[k] == 0 else -1")
        automaton.load()
        # A `for`, so that the compiler knows that row numbers are not negative.
        with body.block("for i in range(first[k], last):"):
            _dispatch(body, rows)
        body("i = max(first[k], last)")
        automaton.close()
        automaton.save()
    body("soff[nk] = sn")
    body(f"return ({RESULTS})")
    return "\n".join([f"def kernel({PARAMETERS}{kernel.column_parameters}):", *body.lines]) + "\n"


def _dispatch(body: Writer, rows: list[Writer]) -> None:
    for number, lines in enumerate(rows):
        head = "if" if number == 0 else "elif"
        with body.block(f"{head} state == {number}:" if number < len(rows) - 1 or number == 0 else "else:"):
            for line in lines.lines:
                body(line)


def _allocate(automaton: _Automaton) -> None:
    write, kernel = automaton.write, automaton.kernel
    # Matches can't overlap, so their number is bounded, and the caller has set aside room for all of them.
    write("on = 0; oi = out_i; of = out_f")
    write("scap = 256; sn = 0; soff = ints(nk + 1)")
    write(f"si = ints(scap * {kernel.width}); sf = floats(scap * {kernel.fwidth}); so = objects(0)")
    write("pathrow = ints(0); pathpos = ints(0)")
    write("snn = 0; snoff = ints(0); snrow = ints(0); snpos = ints(0); snpar = ints(0)")
    write("resume = ints(nk); error = 0; errors = 0; error_key = -1; number = 0")
    names: dict[str, str] = {}
    for configuration in automaton.order:
        for at, position in enumerate(configuration):
            names[f"s{at}"] = "0"
            names[f"e{at}"] = "0"
            for register in automaton.kept(position):
                names[automaton.name(at, register)] = "0.0" if bank(register) is Bank.FLOAT else "0"
    for name, value in names.items():
        write(f"{name} = {value}")


assert FIXED > END  # a thread's registers stand behind its fixed fields
