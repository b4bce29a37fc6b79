"""What all kernels of a query share: registers and their places, what is known of them, and code for conditions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from trimtab.engine.match.compile.analysis import Anything, Facts, analyse, live_registers
from trimtab.engine.match.compile.program import Program
from trimtab.engine.match.compile.registers import Layout, Register, RowRef
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.ir.query import MatchQuery, Rows, SkipPastLast, SkipTo
from trimtab.engine.match.kernels.emit import Columns, Thread, Writer
from trimtab.engine.match.kernels.emit_numeric import Constants, NumericEmitter
from trimtab.engine.match.kernels.emit_object import ObjectEmitter
from trimtab.engine.match.kernels.plan import FIXED, Generated, report_fields, slot_registers, traits_of

FRESH = Thread(fresh=True)


class _Everything(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


_EVERYTHING = _Everything()


class KernelWriter:
    """Writes the kernel of one query for columns of which some may hold nulls or NaN."""

    def __init__(
        self, query: MatchQuery, program: Program, nullable: frozenset[str], nan: bool, *, objects: bool
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
        self._allot_registers()

    # Set-up ------------------------------------------------------------------------------------

    def emitter(self, label: int, thread: Thread) -> NumericEmitter | ObjectEmitter:
        """Code for a row tried for a label by a thread."""
        if self.objects:
            return ObjectEmitter(self.write, self.layout, self.columns, label, thread).using(self.values)
        return NumericEmitter(
            self.write, self.layout, self.columns, label, thread, self.constants, self.nullable, self.nan
        )

    def behind(self, position: int) -> Thread:
        """A thread that waits behind a position."""
        return Thread(facts=self.facts[position])

    def generated(self, source: str, configurations: int = 0) -> Generated:
        """The source with what is needed to call it; `configurations` as in `Generated`."""
        return Generated(
            source,
            not self.objects,
            tuple(self.columns.names),
            tuple(self.constants.strings),
            tuple(self.values),
            self.layout,
            self.paths,
            self.fields,
            self.float_fields,
            configurations,
            self.program.shortest,
        )

    @property
    def may_be_deterministic(self) -> bool:
        """Whether threads can be held in local names, see `automaton.py`."""
        if self.objects or self.paths or self.sequential or self.timed or not self.past_last or self.unmatched:
            return False
        if self.program.uses & {Anchor.END, Anchor.TIMEOUT}:
            return False
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

    @property
    def width(self) -> int:
        """The integers of a thread."""
        return FIXED + len(self.layout.ints)

    @property
    def float_width(self) -> int:
        """The floats of a thread."""
        return len(self.layout.floats)

    @property
    def object_width(self) -> int:
        """The Python values of a thread."""
        return len(self.layout.objects)
