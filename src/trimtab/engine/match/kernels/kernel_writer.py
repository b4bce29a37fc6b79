"""What all kernels of a query share: registers and their places, what is known of them, and code for conditions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property

from trimtab.engine.match.compile.analysis import Anything, Facts, analyse, live_registers
from trimtab.engine.match.compile.program import Program
from trimtab.engine.match.compile.registers import Layout, Register, RowRef
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.ir.query import MatchQuery, Rows, SkipPastLast, SkipTo
from trimtab.engine.match.kernels.emit import Numbered, Thread, Writer
from trimtab.engine.match.kernels.emit_numeric import NumericEmitter
from trimtab.engine.match.kernels.emit_object import ObjectEmitter
from trimtab.engine.match.kernels.interface import Tables
from trimtab.engine.match.kernels.plan import Generated, report_fields, slot_registers, traits_of


class KernelWriter:
    """Writes the kernel of one query for columns of which some may hold nulls or NaN."""

    def __init__(
        self, query: MatchQuery, program: Program, nullable: frozenset[str], nan: bool, *, objects: bool
    ) -> None:
        self.query, self.program, self.nan, self.objects = query, program, nan, objects
        traits = traits_of(query)
        # Over Python values aggregates keep all their arguments, so measures come from paths there.
        self.paths, self.sequential = traits.paths or objects, traits.sequential
        self.layout = Layout()
        self.columns, self.strings = Numbered(), Numbered()  # what it reads, and the constants whose ranks it gets
        self.literals = Numbered()  # the numbers in its conditions, as source
        self.values: list[object] = []  # what the code calls `python_values[n]`
        self.fields, self.float_fields = report_fields(query, self.paths)
        self.past_last = isinstance(query.skip, SkipPastLast)
        self.timed = query.within_us is not None
        self.unmatched = query.rows is Rows.ALL_WITH_UNMATCHED
        # The layout must not depend on which columns of a batch have nulls, or state could not be carried.
        self.nullable = frozenset(query.columns_read())
        self._allot_registers()
        self.nullable = nullable

    def literal(self, code: str) -> str:
        """The name under which code reads a number: that of a parameter, if machine code can take it."""
        is_wide = code.lstrip("-").isdigit() and not -(2**63) <= int(code) < 2**63
        return code if is_wide else f"literal{self.literals.index(code)}"

    # Set-up ------------------------------------------------------------------------------------

    def emitter(self, label: int, thread: Thread) -> NumericEmitter | ObjectEmitter:
        """Code for a row tried for a label by a thread."""
        return (ObjectEmitter if self.objects else NumericEmitter)(self, label, thread)

    def generated(self, source: str, configurations: int = 0, tables: Tables | tuple[()] = ()) -> Generated:
        """The source with what is needed to call it; `configurations` as in `Generated`."""
        return Generated(
            source, not self.objects, tuple(self.columns.names), tuple(self.strings.names), tuple(self.values),
            self.layout, self.paths, self.fields, self.float_fields, configurations, self.program.shortest, tables,
            tuple(int(each) if each.lstrip("-").isdigit() else float(each) for each in self.literals.names),
        )  # fmt: skip

    @property
    def may_be_deterministic(self) -> bool:
        """Whether threads can be held in local names, see `automaton.py`."""
        if self.objects or self.paths or self.sequential or self.timed or not self.past_last or self.unmatched:
            return False
        if self.program.uses & {Anchor.END, Anchor.TIMEOUT}:
            return False
        return not any(self.compared)

    def _allot_registers(self) -> None:
        """Write all conditions and updates once and discard them, so that every register is in the layout."""
        if isinstance(self.query.skip, SkipTo):
            self.layout.need(RowRef(self.query.skip.labels, self.query.skip.side, 0, 0))
        if not self.paths:
            for register in slot_registers(self.query):
                self.layout.need(register)
        self.write = Writer()
        while True:
            before = len(self.layout.registers)
            for thread in (Thread(fresh=True), Thread()):
                for label, condition in enumerate(self.query.conditions):
                    emitter = self.emitter(label, thread)
                    if condition is not None:
                        emitter.condition(condition)
                    for register in self.layout.registers:
                        emitter.updated(register)
            if len(self.layout.registers) == before:
                break
        self.values.clear()

    @cached_property
    def facts(self) -> list[Facts]:
        """What is known of registers at each position."""
        return analyse(self.program, self.layout)

    @cached_property
    def live(self) -> list[set[Register]]:
        """For each position, the registers that conditions of later rows depend on."""
        self.write = Writer()  # the code is only written to see what it reads

        @cache
        def label_reads(position: int, label: int) -> tuple[set[Register], Callable[[Register], set[Register]]]:
            thread = Thread(facts=self.facts[position])
            condition, emitter = self.query.conditions[label], self.emitter(label, thread)
            if condition is not None:
                emitter.condition(condition)

            @cache
            def made_of(register: Register) -> set[Register]:
                own = self.emitter(label, thread)
                own.updated(register)
                return own.reads

            return emitter.reads, made_of

        found = live_registers(self.program, lambda at, target: label_reads(at, self.program.positions[target].label))
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
        """Whether any two threads that reach a position on the same row are twins."""
        return not self.compared[position] and not (self.past_last and self.timed)
