"""A kernel's source, generated for one program: plain Python that Numba compiles, or that runs as it is.

The kernel walks the rows of each key once, in order. Between two rows it holds the key's *threads*, ordered by
preference: first by the row where the attempt starts, then as the pattern prefers. A thread is a row of numbers:
position, first row, last row (ended ones), path node, registers. Three things keep their number small:

- A thread that ends cuts off all less preferred threads of its attempt; under SKIP PAST LAST ROW also every attempt
  that starts inside the ended match, since the match is certain to be reported and only a longer one can replace it.
- Of two threads with the same position and equal registers, as far as conditions to come can see them, the less
  preferred one is dropped: they have the same future. Under SKIP PAST LAST ROW this holds between attempts too.
- A match is reported as soon as its thread is the first in the list: nothing preferred is left.

An attempt starts on every row while others are under way, so no row is ever looked at twice and none has to be
kept for that. Only where a condition needs MATCH_NUMBER(), which an attempt can't know before the earlier ones are
decided, attempts run one after another and rows are looked at again (`sequential`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from trimtab.engine.analysis import Anything, Facts, analyse, live_registers
from trimtab.engine.automaton import TooLarge, write_automaton
from trimtab.engine.emit import Columns, NotCompilable, Thread, Writer
from trimtab.engine.emit_numeric import Constants, NumericEmitter
from trimtab.engine.emit_object import ObjectEmitter
from trimtab.engine.expression import Expr
from trimtab.engine.pattern import Anchor
from trimtab.engine.plan import (
    END,
    ERROR_SKIP_FIRST,
    ERROR_SKIP_MISSING,
    ERROR_THREADS,
    FIXED,
    KIND_MATCH,
    KIND_UNMATCHED,
    NO_WATERMARK,
    NODE,
    PARAMETERS,
    RESULTS,
    START,
    Generated,
    report_fields,
    slot_registers,
    traits_of,
)
from trimtab.engine.program import DONE, Position, Program
from trimtab.engine.query import MatchQuery, Rows, SkipPastLast, SkipTo
from trimtab.engine.registers import Bank, Layout, Register, RowRef, bank

FRESH = Thread(fresh=True)


def generate(
    query: MatchQuery,
    program: Program,
    nullable: frozenset[str],
    nan: bool,
    *,
    deterministic: bool = True,
) -> Generated:
    """Generate the kernel: compiled where every condition has a machine form, else over Python values.

    `deterministic` False forbids the automaton of `automaton.py`.
    """
    try:
        kernel = KernelWriter(query, program, nullable, nan, objects=False)
        if deterministic and kernel.may_be_deterministic:
            try:
                return kernel.generate(deterministic=True)
            except TooLarge:
                kernel = KernelWriter(query, program, nullable, nan, objects=False)
        return kernel.generate(deterministic=False)
    except NotCompilable:
        return KernelWriter(query, program, nullable, nan, objects=True).generate(deterministic=False)


class _Everything(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


_EVERYTHING = _Everything()


class KernelWriter:
    """Writes the kernel of one query for columns of which some may hold nulls or NaN."""

    def __init__(
        self,
        query: MatchQuery,
        program: Program,
        nullable: frozenset[str],
        nan: bool,
        *,
        objects: bool,
    ) -> None:
        self.query, self.program = query, program
        self.nullable, self.nan, self.objects = nullable, nan, objects
        self.traits = traits_of(query)
        # Over Python values aggregates keep all their arguments, so measures come from paths there.
        self.paths = self.traits.paths or objects
        self.sequential = self.traits.sequential
        self.layout = Layout(FIXED)
        self.columns = Columns()
        self.constants = Constants([])
        self.values: list[object] = []
        self.fields, self.float_fields = report_fields(query, self.paths)
        self.past_last = isinstance(query.skip, SkipPastLast)
        self.timed = query.within_us is not None
        self.unmatched = query.rows is Rows.ALL_WITH_UNMATCHED
        self.write = Writer()

    # Set-up ------------------------------------------------------------------------------------

    def emitter(self, label: int, thread: Thread) -> NumericEmitter | ObjectEmitter:
        """Code for a row tried for a label by a thread."""
        if self.objects:
            return ObjectEmitter(self.write, self.layout, self.columns, label, thread).using(self.values)
        return NumericEmitter(
            self.write,
            self.layout,
            self.columns,
            label,
            thread,
            self.constants,
            self.nullable,
            self.nan,
        )

    def behind(self, position: int) -> Thread:
        """A thread that waits behind a position."""
        return Thread(facts=self.facts[position])

    def generate(self, *, deterministic: bool) -> Generated:
        """Write the kernel."""
        self._allot_registers()
        if deterministic:
            write_automaton(self)
        else:
            self._kernel()
        return Generated(
            "\n".join(self.write.lines) + "\n",
            not self.objects,
            tuple(self.columns.names),
            tuple(self.constants.strings),
            tuple(self.values),
            self.layout,
            self.paths,
            self.fields,
            self.float_fields,
            deterministic,
        )

    @property
    def may_be_deterministic(self) -> bool:
        """Whether threads can be held in local names, see `automaton.py`."""
        if self.paths or self.sequential or self.timed or not self.past_last or self.unmatched:
            return False
        if self.program.uses & {Anchor.END, Anchor.TIMEOUT}:
            return False
        self._allot_registers()
        return not any(self.compared)

    def _allot_registers(self) -> None:
        """Write all conditions and updates once into nothing, so that every register has its place."""
        if isinstance(self.query.skip, SkipTo):
            self.layout.need(RowRef(self.query.skip.labels, self.query.skip.side, 0, 0))
        if not self.paths:
            for register in slot_registers(self.query):
                self.layout.need(register)
        # Registers must sit in the same slots whatever the columns of a batch hold, or state could not be carried.
        nullable, self.nullable = self.nullable, _EVERYTHING
        scratch, self.write = self.write, Writer()
        while True:
            before = len(self.layout.registers)
            for thread in (FRESH, Thread()):
                for label, condition in enumerate(self.query.conditions):
                    emitter = self.emitter(label, thread)
                    if condition is not None:
                        emitter.condition(condition)
                    for register in self.layout.registers:
                        emitter.updated(register)
            if len(self.layout.registers) == before:
                break
        self.write, self.nullable = scratch, nullable
        self.values.clear()

    @cached_property
    def facts(self) -> list[Facts]:
        """What is known of registers at each position."""
        return analyse(self.program, self.layout)

    @cached_property
    def live(self) -> list[set[Register]]:
        """For each position, the registers that conditions still to come depend on."""
        scratch, self.write = self.write, Writer()
        remembered: dict[tuple[int, int], tuple[set[Register], Callable[[Register], set[Register]]]] = {}

        def reads(position: int, target: int) -> tuple[set[Register], Callable[[Register], set[Register]]]:
            label = self.program.positions[target].label
            if (position, label) not in remembered:
                condition = self.query.conditions[label]
                emitter = self.emitter(label, self.behind(position))
                if condition is not None:
                    emitter.condition(condition)

                made: dict[Register, set[Register]] = {}

                def made_of(register: Register) -> set[Register]:
                    if register not in made:
                        own = self.emitter(label, self.behind(position))
                        own.write = Writer()
                        own.updated(register)
                        made[register] = own.reads
                    return made[register]

                remembered[position, label] = (emitter.reads, made_of)
            return remembered[position, label]

        found = live_registers(self.program, reads)
        # The code was only written to see what it reads.
        self.write = scratch
        self.values.clear()
        return found

    @cached_property
    def compared(self) -> list[tuple[Register, ...]]:
        """For each position, the registers in which two threads there may really differ."""
        return [
            tuple(r for r in self.layout.registers if r in live and isinstance(facts[r], Anything))
            for live, facts in zip(self.live, self.facts, strict=True)
        ]

    def stamped(self, position: int) -> bool:
        """Whether "taken before on this row" is enough to know that a thread has a twin there."""
        return not self.compared[position] and not (self.past_last and self.timed)

    # The kernel --------------------------------------------------------------------------------

    def _kernel(self) -> None:
        write = self.write
        widest = max((len(p.steps) for p in self.program.positions), default=0)
        self.fan = max(widest, len(self.program.start)) + 2
        self.compared  # noqa: B018 - found before anything is written, since finding it writes too
        body = Writer()
        self.write, head = body, write
        body.depth = 1
        self._allocate()
        with body.block("for k in range(nk):"):
            self._load()
            with body.block("while True:"):
                with body.block("while i < last:"):
                    self._row()
                self._close()
            self._save()
        body("soff[nk] = sn")
        body(f"return ({RESULTS})")
        self.write = head
        head(f"def kernel({PARAMETERS}{self.column_parameters}):")
        head.lines += body.lines

    @property
    def column_parameters(self) -> str:
        """The columns that the written code reads, as parameters."""
        return "".join(f", c{j}, n{j}" for j in range(len(self.columns.names)))

    @property
    def width(self) -> int:
        """The integers of a thread."""
        return FIXED + len(self.layout.ints)

    @property
    def fwidth(self) -> int:
        """The floats of a thread."""
        return len(self.layout.floats)

    @property
    def owidth(self) -> int:
        """The Python values of a thread."""
        return len(self.layout.objects)

    def _allocate(self) -> None:
        write, width = self.write, self.width
        write("cap = 32")
        write(f"ci = ints(cap * {width}); ni = ints(cap * {width})")
        write(f"cf = floats(cap * {self.fwidth}); nf = floats(cap * {self.fwidth})")
        write(f"co = objects(cap * {self.owidth}); no = objects(cap * {self.owidth})")
        write("ocap = 256; on = 0")
        write(f"oi = ints(ocap * {len(self.fields)}); of = floats(ocap * {len(self.float_fields)})")
        write("scap = 256; sn = 0; soff = ints(nk + 1)")
        write(f"si = ints(scap * {width}); sf = floats(scap * {self.fwidth})")
        write(f"so = objects(scap * {self.owidth})")
        write("pcap = 256; pn = 0; pathrow = ints(pcap); pathpos = ints(pcap)")
        write("kcap = 256; nn = 0; krow = ints(kcap); kpos = ints(kcap); kpar = ints(kcap)")
        write("sncap = 256; snn = 0; snoff = ints(nk + 1)")
        write("snrow = ints(sncap); snpos = ints(sncap); snpar = ints(sncap)")
        write("resume = ints(nk)")
        write(f"seen = ints({len(self.program.positions) + 1}); stamp = 0")
        write("error = 0; errors = 0; error_key = -1")

    def _load(self) -> None:
        """Bring the key's threads (and path nodes) in."""
        write, width = self.write, self.width
        write("n = toff[k + 1] - toff[k]")
        with write.block("if n + 1 > cap:"):
            write("cap = 2 * (n + 1)")
            self._new_banks("ci", "cf", "co")
            self._new_banks("ni", "nf", "no")
        write("base = toff[k]")
        with write.block(f"for j in range(n * {width}):"):
            write(f"ci[j] = tin[base * {width} + j]")
        if self.fwidth:
            with write.block(f"for j in range(n * {self.fwidth}):"):
                write(f"cf[j] = tfin[base * {self.fwidth} + j]")
        if self.owidth:
            with write.block(f"for j in range(n * {self.owidth}):"):
                write(f"co[j] = toin[base * {self.owidth} + j]")
        if self.paths:
            write("nn = noff[k + 1] - noff[k]")
            with write.block("if nn > kcap:"):
                write("kcap = 2 * nn; krow = ints(kcap); kpos = ints(kcap); kpar = ints(kcap)")
            write("base = noff[k]")
            with write.block("for j in range(nn):"):
                write("krow[j] = nrow[base + j]; kpos[j] = npos[base + j]; kpar[j] = npar[base + j]")
        write("t0 = tail[k]; i = first[k]; hi = ends[k]; last = stop[k]; number = numbers[k]")
        if self.unmatched:
            write("front = fronts[k]")
        write("origin = first[k] if begun[k] == 0 else -1")
        write("broken = False; s0 = i")

    def _new_banks(self, ints: str, floats: str, objects: str) -> None:
        self.write(f"{ints} = ints(cap * {self.width})")
        self.write(f"{floats} = floats(cap * {self.fwidth})")
        self.write(f"{objects} = objects(cap * {self.owidth})")

    def _row(self) -> None:
        write = self.write
        fan = self.fan
        with write.block(f"if (n + 1) * {fan} > cap:"):
            write(f"cap = 2 * (n + 1) * {fan}")
            write(f"ci = grow_ints(ci, cap * {self.width}, n * {self.width})")
            write(f"cf = grow_floats(cf, cap * {self.fwidth}, n * {self.fwidth})")
            write(f"co = grow_objects(co, cap * {self.owidth}, n * {self.owidth})")
            self._new_banks("ni", "nf", "no")
        if self.paths:
            with write.block("if n == 0:"):
                write("nn = 0")
            with write.block(f"if nn + (n + 1) * {fan} > kcap:"):
                write(f"kcap = 2 * (nn + (n + 1) * {fan})")
                for name in ("krow", "kpos", "kpar"):
                    write(f"{name} = grow_ints({name}, kcap, nn)")
        if self.sequential:
            with write.block("if n == 0:"):
                write("s0 = i")
        if self.timed:
            write("now = times[i]")
        write("m = 0; cut = -1")
        write("stamp += 1")
        if not self.past_last:
            write("attempt = -1; began = 0")
        with write.block("for t in range(n):"):
            self._thread()
        self._spawn()
        self._swap()
        with write.block("if n > limit:"):
            write(f"error = {ERROR_THREADS}; errors += 1")
            with write.block("if error_key < 0:"):
                write("error_key = k")
            write("n = 0; broken = True")
            write("break")
        self._finish_heads("i + 1")
        write("i += 1")

    def _swap(self) -> None:
        self.write("ci, ni = ni, ci")
        self.write("cf, nf = nf, cf")
        self.write("co, no = no, co")
        self.write("n = m")

    def _thread(self) -> None:
        """One thread of the list meets the row."""
        write = self.write
        write(f"b = t * {self.width}; bf = t * {self.fwidth}; bo = t * {self.owidth}")
        write(f"s = ci[b + {START}]")
        self._skip_cut()
        write("p = ci[b]")
        with write.block(f"if p == {DONE}:"):
            self._copy("m", "b", "bf", "bo", source="c")
            write("m += 1")
            write("continue")
        if self.timed:
            write(f"late = now >= times[s] + {self.query.within_us}")
        self._by_position(self._meet)
        if self.past_last:
            with write.block("if cut >= i:"):
                write("break")

    def _skip_cut(self) -> None:
        write = self.write
        if self.past_last:
            with write.block("if s <= cut:"):
                write("continue")
        else:
            with write.block("if s != attempt:"):
                write("attempt = s; began = m; stamp += 1")
            with write.block("if s == cut:"):
                write("continue")

    def _by_position(self, body) -> None:  # type: ignore[no-untyped-def]
        """Code for each position behind a tree of comparisons, so that finding it takes few of them."""
        waiting = [i for i, p in enumerate(self.program.positions) if p.waits]

        def tree(indices: list[int]) -> None:
            if not indices:
                self.write("pass")
                return
            if len(indices) == 1:
                with self.write.block("while True:"):
                    body(indices[0], self.program.positions[indices[0]])
                    self.write("break")
                return
            middle = len(indices) // 2
            with self.write.block(f"if p < {indices[middle]}:"):
                tree(indices[:middle])
            with self.write.block("else:"):
                tree(indices[middle:])

        tree(waiting)

    def _meet(self, index: int, position: Position) -> None:
        """A thread waiting behind a position looks at the row."""
        for step in position.steps:
            if step.target == DONE:
                if Anchor.TIMEOUT in step.when and Anchor.END not in step.when:
                    with self.write.block("if late:"):
                        self._end_before_row()
                        self.write("break")
                continue
            guard = ["not late"] if self.timed else []
            self._try(step.target, guard, self.behind(index))

    def _end_before_row(self) -> None:
        """The thread ends without this row."""
        write = self.write
        self._copy("m", "b", "bf", "bo", source="c")
        write(f"ni[m * {self.width}] = {DONE}")
        write("m += 1")
        write(f"cut = ci[b + {END}]" if self.past_last else "cut = s")

    def _spawn(self) -> None:
        """A new attempt starts on the row, last in preference."""
        write = self.write
        guards = []
        if self.past_last:
            guards.append("cut < i")
        if self.sequential:
            guards.append("n == 0")
        with write.block(f"if {' and '.join(guards) or 'True'}:"):
            write("s = i")
            if not self.past_last:
                write("attempt = i; began = m; stamp += 1")
            with write.block("while True:"):
                for step in self.program.start:
                    guard = ["i == origin"] if Anchor.START in step.when else []
                    if step.target == DONE:
                        with write.block(f"if {' and '.join(guard) or 'True'}:"):
                            self._push_empty()
                            write("break")
                    else:
                        self._try(step.target, guard, FRESH)
                write("break")

    def _push_empty(self) -> None:
        write, width = self.write, self.width
        write(f"w = m * {width}; wf = m * {self.fwidth}; wo = m * {self.owidth}")
        write(f"ni[w] = {DONE}; ni[w + {START}] = i; ni[w + {END}] = -1; ni[w + {NODE}] = -1")
        emitter = self.emitter(0, FRESH)
        for register in self.layout.registers:
            self._store(register, emitter.read(register))
        write("m += 1")

    def _try(self, target: int, guard: list[str], thread: Thread) -> None:
        """Try the row for a position's label; a thread moves there if the condition holds."""
        write = self.write
        position = self.program.positions[target]
        emitter = self.emitter(position.label, thread)
        condition = self.query.conditions[position.label]
        if guard:
            with write.block(f"if {' and '.join(guard)}:"):
                self._try_checked(target, position, emitter, condition)
        else:
            self._try_checked(target, position, emitter, condition)

    def _try_checked(
        self,
        target: int,
        position: Position,
        emitter: NumericEmitter | ObjectEmitter,
        condition: Expr | None,
    ) -> None:
        write = self.write
        if position.waits and self.stamped(target):
            # Asked first: a position already taken on this row needs no condition.
            with write.block(f"if seen[{target}] != stamp:"):
                with write.block(f"if {emitter.condition(condition) if condition else 'True'}:"):
                    write(f"seen[{target}] = stamp")
                    self._push(target, position, emitter)
            return
        with write.block(f"if {emitter.condition(condition) if condition else 'True'}:"):
            if position.waits:
                self._compare_and_push(target, position, emitter)
            else:
                self._push(target, position, emitter)

    def _compare_and_push(self, target: int, position: Position, emitter: NumericEmitter | ObjectEmitter) -> None:
        """Push unless a preferred thread has the same position and looks the same to what may come."""
        write, width = self.write, self.width
        updated = {r: emitter.updated(r) for r in self.compared[target]}
        write("twin = False")
        with write.block(f"for u in range({'0' if self.past_last else 'began'}, m):"):
            write(f"w = u * {width}; wf = u * {self.fwidth}; wo = u * {self.owidth}")
            tests = [f"ni[w] == {target}"]
            if self.past_last and self.timed:
                tests.append(f"times[ni[w + {START}]] == times[s]")
            for register, code in updated.items():
                tests.append(f"{self._slot(register, 'n')} == {code}")
            with write.block(f"if {' and '.join(tests)}:"):
                write("twin = True")
                write("break")
        with write.block("if not twin:"):
            self._push(target, position, emitter)

    def _slot(self, register: Register, which: str) -> str:
        prefix = {Bank.INT: ("i", "w"), Bank.FLOAT: ("f", "wf"), Bank.OBJECT: ("o", "wo")}[bank(register)]
        return f"{which}{prefix[0]}[{prefix[1]} + {self.layout.at[register]}]"

    def _store(self, register: Register, code: str) -> None:
        self.write(f"{self._slot(register, 'n')} = {code}")

    def _push(self, target: int, position: Position, emitter: NumericEmitter | ObjectEmitter) -> None:
        """Write the thread that has consumed the row; if it may end here, its ended twin behind it."""
        write, width = self.write, self.width
        codes = [(r, emitter.updated(r)) for r in self.layout.registers]
        write(f"w = m * {width}; wf = m * {self.fwidth}; wo = m * {self.owidth}")
        write(f"ni[w] = {target if position.waits else DONE}; ni[w + {START}] = s; ni[w + {END}] = i")
        for register, code in codes:
            self._store(register, code)
        if self.paths:
            parent = "-1" if emitter.thread.fresh else f"ci[b + {NODE}]"
            write(f"krow[nn] = i; kpos[nn] = {target}; kpar[nn] = {parent}")
            write(f"ni[w + {NODE}] = nn; nn += 1")
        write("m += 1")
        if not position.may_end:
            return
        if position.waits:
            self._copy("m", "w", "wf", "wo", source="n")
            write(f"ni[m * {width}] = {DONE}")
            write("m += 1")
        write("cut = i" if self.past_last else "cut = s")
        write("break")

    def _copy(self, to: str, b: str, bf: str, bo: str, *, source: str) -> None:
        """Copy a thread's row to the end of the next list."""
        write = self.write
        for offset in range(self.width):
            write(f"ni[{to} * {self.width} + {offset}] = {source}i[{b} + {offset}]")
        for offset in range(self.fwidth):
            write(f"nf[{to} * {self.fwidth} + {offset}] = {source}f[{bf} + {offset}]")
        for offset in range(self.owidth):
            write(f"no[{to} * {self.owidth} + {offset}] = {source}o[{bo} + {offset}]")

    # Deciding ----------------------------------------------------------------------------------

    def _finish_heads(self, next_row: str) -> None:
        """Report matches that nothing preferred can replace any more; drop what they skip."""
        write, width = self.write, self.width
        if self.sequential:
            with write.block(f"if n > 0 and ci[0] == {DONE}:"):
                write("h = 0")
                self._report()
                self._sequential_skip()
                write("n = 0")
                write("continue")
            with write.block("if n == 0:"):
                if self.unmatched:
                    self._unmatched_up_to("s0 + 1")
                write("i = s0 + 1")
                write("continue")
            return
        with write.block(f"if n > 0 and ci[0] == {DONE}:"):
            write("h = 0")
            with write.block(f"while h < n and ci[h * {width}] == {DONE}:"):
                self._report()
                write("h += 1")
                if isinstance(self.query.skip, SkipTo):
                    with write.block("if target >= 0:"):
                        with write.block(f"while h < n and ci[h * {width} + {START}] < target:"):
                            write("h += 1")
            self._drop_heads()
        if self.unmatched:
            write(f"head = ci[{START}] if n > 0 else {next_row}")
            self._unmatched_up_to("head")

    def _drop_heads(self) -> None:
        write = self.write
        write("n -= h")
        for name, width in (("ci", self.width), ("cf", self.fwidth), ("co", self.owidth)):
            if width:
                with write.block(f"for j in range(n * {width}):"):
                    write(f"{name}[j] = {name}[h * {width} + j]")

    def _sequential_skip(self) -> None:
        """Where the next attempt starts, one after another."""
        write = self.write
        with write.block(f"if ci[{END}] < 0:"):
            write("i = s0 + 1")
        with write.block("else:"):
            if self.past_last:
                write(f"i = ci[{END}] + 1")
            elif isinstance(self.query.skip, SkipTo):
                write("i = target if target >= 0 else s0 + 1")
            else:
                write("i = s0 + 1")

    def _report(self) -> None:
        """Write thread `h`, an ended one, to the output."""
        write, width = self.write, self.width
        if self.unmatched:
            self._unmatched_up_to(f"ci[h * {width} + {START}]")
        write("number += 1")
        self._reserve_output()
        if self.paths:
            self._report_path()
        write(f"o = on * {len(self.fields)}")
        for at, field in enumerate(self.fields):
            write(f"oi[o + {at}] = {self._field(field)}")
        for at, register in enumerate(self.float_fields):
            slot = self.layout.at[register]
            write(f"of[on * {len(self.float_fields)} + {at}] = cf[h * {self.fwidth} + {slot}]")
        write("on += 1")
        if self.unmatched:
            write(f"e = ci[h * {width} + {END}]")
            write(f"e = ci[h * {width} + {START}] if e < 0 else e")
            write("front = max(front, e + 1)")
        if isinstance(self.query.skip, SkipTo):
            slot = self.layout.at[RowRef(self.query.skip.labels, self.query.skip.side, 0, 0)]
            write(f"target = ci[h * {width} + {slot}]")
            with write.block(f"if ci[h * {width} + {END}] < 0:"):
                write("target = -1")
            with write.block("elif target < 0:"):
                write(f"error = {ERROR_SKIP_MISSING}; error_key = k; broken = True; target = -1")
            with write.block(f"elif target == ci[h * {width} + {START}]:"):
                write(f"error = {ERROR_SKIP_FIRST}; error_key = k; broken = True; target = -1")

    def _field(self, field: str | Register) -> str:
        """Code for an integer of a reported match, from thread `h`."""
        match field:
            case "key":
                return "k"
            case "kind":
                return str(KIND_MATCH)
            case "number":
                return "number"
            case "start":
                return f"ci[h * {self.width} + {START}]"
            case "end":
                return f"ci[h * {self.width} + {END}]"
            case "begin":
                return "pn - length"
            case "length":
                return "length"
            case str():
                raise AssertionError(field)
            case register:
                return f"ci[h * {self.width} + {self.layout.at[register]}]"

    def _report_path(self) -> None:
        """The rows of the match, first to last."""
        write, width = self.write, self.width
        write(f"node = ci[h * {width} + {NODE}]; length = 0")
        with write.block("while node >= 0:"):
            write("length += 1; node = kpar[node]")
        with write.block("if pn + length > pcap:"):
            write("pcap = 2 * (pn + length)")
            write("pathrow = grow_ints(pathrow, pcap, pn); pathpos = grow_ints(pathpos, pcap, pn)")
        write(f"node = ci[h * {width} + {NODE}]; at = pn + length")
        with write.block("while node >= 0:"):
            write("at -= 1; pathrow[at] = krow[node]; pathpos[at] = kpos[node]; node = kpar[node]")
        write("pn += length")

    def _reserve_output(self) -> None:
        write = self.write
        with write.block("if on == ocap:"):
            write("ocap *= 2")
            size, fsize = len(self.fields), len(self.float_fields)
            write(f"oi = grow_ints(oi, ocap * {size}, on * {size})")
            write(f"of = grow_floats(of, ocap * {fsize}, on * {fsize})")

    def _unmatched_up_to(self, row: str) -> None:
        """Report the rows before `row` that are in no match; all of them are decided."""
        write = self.write
        with write.block(f"while front < {row}:"):
            self._reserve_output()
            write(f"o = on * {len(self.fields)}")
            values = {
                "key": "k",
                "kind": str(KIND_UNMATCHED),
                "start": "front",
                "begin": "pn",
                "length": "0",
            }
            for at, field in enumerate(self.fields):
                assert isinstance(field, str)
                write(f"oi[o + {at}] = {values.get(field, '-1')}")
            write("on += 1; front += 1")

    def _close(self) -> None:
        """All rows at hand are in: settle what the end, or time alone, decides."""
        write = self.write
        with write.block("if broken or error != 0:"):
            write("n = 0")
            write("break")
        by_time = f" or watermark > {NO_WATERMARK}" if self.timed else ""
        with write.block(f"if n > 0 and (closing != 0{by_time}):"):
            if self.paths:
                with write.block(f"if nn + (n + 1) * {self.fan} > kcap:"):
                    write(f"kcap = 2 * (nn + (n + 1) * {self.fan})")
                    for name in ("krow", "kpos", "kpar"):
                        write(f"{name} = grow_ints({name}, kcap, nn)")
            with write.block("if 2 * n + 2 > cap:"):
                write("cap = 4 * (n + 1)")
                write(f"ci = grow_ints(ci, cap * {self.width}, n * {self.width})")
                write(f"cf = grow_floats(cf, cap * {self.fwidth}, n * {self.fwidth})")
                write(f"co = grow_objects(co, cap * {self.owidth}, n * {self.owidth})")
                self._new_banks("ni", "nf", "no")
            write("m = 0; cut = -1")
            if not self.past_last:
                write("attempt = -1; began = 0")
            with write.block("for t in range(n):"):
                write(f"b = t * {self.width}; bf = t * {self.fwidth}; bo = t * {self.owidth}")
                write(f"s = ci[b + {START}]")
                self._skip_cut()
                write("p = ci[b]")
                with write.block(f"if p == {DONE}:"):
                    self._copy("m", "b", "bf", "bo", source="c")
                    write("m += 1")
                    write("continue")
                if self.timed:
                    write(f"late = closing != 0 or watermark >= times[s] + {self.query.within_us}")
                else:
                    write("late = closing != 0")
                with write.block("if not late:"):
                    self._copy("m", "b", "bf", "bo", source="c")
                    write("m += 1")
                    write("continue")
                self._by_position(self._meet_the_end)
            self._swap()
            if self.sequential:
                with write.block(f"if n > 0 and ci[0] == {DONE}:"):
                    write("h = 0")
                    self._report()
                    self._sequential_skip()
                    write("n = 0")
                with write.block("elif n == 0:"):
                    # The attempt failed at the end: the next one starts behind its first row.
                    if self.unmatched:
                        self._unmatched_up_to("s0 + 1")
                    write("i = s0 + 1")
                with write.block("if i < last and not broken:"):
                    write("continue")
            else:
                self._finish_heads("i")
        if self.unmatched:
            with write.block("if closing != 0 and not broken:"):
                self._unmatched_up_to("last")
        write("break")

    def _meet_the_end(self, index: int, position: Position) -> None:
        """No row follows: the input ends, or none that is in time can come."""
        write = self.write
        waits_for_end = False
        for step in position.steps:
            if step.target != DONE or not step.when:
                continue
            if Anchor.END in step.when:
                with write.block("if closing != 0:"):
                    self._end_before_row()
                    write("break")
                waits_for_end = True
            else:
                if waits_for_end:
                    with write.block("if closing == 0:"):
                        self._copy("m", "b", "bf", "bo", source="c")
                        write("m += 1")
                self._end_before_row()
                write("break")
                return
        if waits_for_end:
            # Too late for another row, but the input may still end here.
            with write.block("if closing == 0:"):
                self._copy("m", "b", "bf", "bo", source="c")
                write("m += 1")

    def _save(self) -> None:
        """Take the key's threads (and the path nodes they need) out."""
        write, width = self.write, self.width
        write("numbers[k] = number")
        if self.unmatched:
            write("fronts[k] = front")
        if self.sequential:
            # An attempt under way is done again from its first row when more rows are there.
            write("resume[k] = s0 if n > 0 else i")
            write("n = 0")
        else:
            write("resume[k] = i")
        write("soff[k] = sn")
        with write.block("if sn + n > scap:"):
            write("scap = 2 * (sn + n)")
            write(f"si = grow_ints(si, scap * {width}, sn * {width})")
            write(f"sf = grow_floats(sf, scap * {self.fwidth}, sn * {self.fwidth})")
            write(f"so = grow_objects(so, scap * {self.owidth}, sn * {self.owidth})")
        if self.paths:
            self._save_nodes()
        for name, size in (("i", width), ("f", self.fwidth), ("o", self.owidth)):
            if size:
                with write.block(f"for j in range(n * {size}):"):
                    write(f"s{name}[sn * {size} + j] = c{name}[j]")
        write("sn += n")
        if self.paths:
            write("snoff[k + 1] = snn")

    def _save_nodes(self) -> None:
        """Only the nodes that threads can still reach, renumbered; parents come before children."""
        write, width = self.write, self.width
        write("mark = ints(nn + 1)")
        with write.block("for t in range(n):"):
            write(f"node = ci[t * {width} + {NODE}]")
            with write.block("while node >= 0 and mark[node] == 0:"):
                write("mark[node] = 1; node = kpar[node]")
        write("base = snn")
        with write.block("for j in range(nn):"):
            with write.block("if mark[j] != 0:"):
                with write.block("if snn == sncap:"):
                    write("sncap *= 2")
                    for name in ("snrow", "snpos", "snpar"):
                        write(f"{name} = grow_ints({name}, sncap, snn)")
                write("snrow[snn] = krow[j]; snpos[snn] = kpos[j]")
                write("snpar[snn] = mark[kpar[j]] - 1 if kpar[j] >= 0 else -1")
                write("snn += 1; mark[j] = snn - base")
        with write.block("for t in range(n):"):
            write(f"node = ci[t * {width} + {NODE}]")
            with write.block("if node >= 0:"):
                write(f"ci[t * {width} + {NODE}] = mark[node] - 1")
