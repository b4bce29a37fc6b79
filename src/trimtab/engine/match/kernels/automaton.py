"""Kernels without thread lists: where the threads of a key can only form a few arrangements, each has its own code.

Under SKIP PAST LAST ROW, where no two threads at a position can differ in anything that conditions still to come look
at, the list of live threads is determined by its positions. Each such list (a *configuration*) becomes a branch of
the kernel with its registers in local names, and each row is one walk down a tree of conditions, as in a loop that
somebody wrote by hand for this pattern. This is what makes plain patterns fast; `thread_kernel.py` has all others.

Configurations are found by following every outcome of every condition from the empty one. A pattern that has too many
raises `TooLarge` and is left to the general kernel. What the kernel does before and after a key's rows is in
`automaton_batch.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimtab.engine.match.compile.program import DONE, Step
from trimtab.engine.match.compile.registers import initial
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.kernels import automaton_batch as batch
from trimtab.engine.match.kernels.configurations import (
    Configuration,
    Configurations,
    NextThread,
    TooLarge,
    end_name,
    start_name,
)
from trimtab.engine.match.kernels.emit import THIS_ROW, Thread, Writer
from trimtab.engine.match.kernels.implied import implied
from trimtab.engine.match.kernels.interface import RESULTS, parameters
from trimtab.engine.match.kernels.kernel_writer import KernelWriter

MAX_LEAVES = 160
"""How many outcomes a row may have in all configurations together: as `MAX_CONFIGURATIONS`, a bound on the code."""


@dataclass
class _RowTrees:
    """For each configuration the tree of conditions that a row meets."""

    found: Configurations
    leaves: int = 0

    def row(self, configuration: Configuration) -> None:
        """The tree of conditions for a row that meets this configuration."""
        self._grow(configuration, 0, 0, [], {})

    def _grow(
        self, configuration: Configuration, at: int, step: int, nexts: list[NextThread], outcomes: dict[str, bool]
    ) -> None:
        kernel = self.found.kernel
        while at < len(configuration):
            position = configuration[at]
            if position == DONE:
                nexts = [*nexts, self.found.ended(at)]
                at, step = at + 1, 0
                continue
            steps = [s for s in kernel.program.positions[position].steps if s.target != DONE]
            if step == len(steps):
                at, step = at + 1, 0
                continue
            if self._try(configuration, at, step, steps[step], self.found.thread(at, position), nexts, outcomes):
                return
            step += 1
        start = kernel.program.start
        while step < len(start):
            if self._try(configuration, at, step, start[step], Thread(fresh=True, start=THIS_ROW), nexts, outcomes):
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
        nexts: list[NextThread],
        outcomes: dict[str, bool],
    ) -> bool:
        """Write what follows from a step if its condition decides anything; False: the step can't be taken."""
        kernel = self.found.kernel
        first_row = "row == origin" if Anchor.START in onward.when else "True"
        if onward.target == DONE:
            if not thread.fresh:
                return False
            empty = NextThread(DONE, THIS_ROW, "-1", {r: repr(initial(r)) for r in self.found.kept(DONE)})
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
        threads: list[NextThread] = []

        def pushed() -> list[NextThread]:
            # Written inside the branch that is taken: new values cost nothing elsewhere.
            values = {r: emitter.updated(r) for r in kernel.layout.registers}
            if target.waits:
                threads.append(NextThread(onward.target, thread.start, THIS_ROW, values))
            if target.may_end:
                threads.append(NextThread(DONE, thread.start, THIS_ROW, values))
            return threads

        return self._both(taken, code, configuration, at, step, nexts, outcomes, pushed, ends=target.may_end)

    @staticmethod
    def _branch(code: str, outcomes: dict[str, bool]) -> bool | None:
        if code in ("True", "False"):
            return code == "True"
        return outcomes.get(code)

    def _both(
        self, taken: bool | None, code: str, configuration: Configuration, at: int, step: int,
        nexts: list[NextThread], outcomes: dict[str, bool], pushed: Callable[[], list[NextThread]], *, ends: bool,
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
        with self.found.write.block(f"if {code}:"):
            on_taken(outcomes | implied(code, True))
        with self.found.write.block("else:"):
            self._grow(configuration, at, step + 1, nexts, outcomes | implied(code, False))
        return True

    def _leaf(self, nexts: list[NextThread]) -> None:
        """All threads have met the row: report what is decided, and go to the configuration that is left."""
        self.leaves += 1
        if self.leaves > MAX_LEAVES:
            raise TooLarge
        while nexts and nexts[0].position == DONE:
            self.found.report(nexts[0])
            nexts = nexts[1:]
        names, values = ["configuration"], [str(self.found.number(tuple(n.position for n in nexts)))]
        for at, each in enumerate(nexts):
            pairs = [(start_name(at), each.start)]
            if each.position == DONE:
                pairs.append((end_name(at), each.end))
            pairs += [(self.found.name(at, r), each.values[r]) for r in self.found.kept(each.position)]
            for name, value in pairs:
                if name != value:
                    names.append(name)
                    values.append(value)
        self.found.write(f"{', '.join(names)} = {', '.join(values)}")


def write_automaton(kernel: KernelWriter) -> tuple[str, int]:
    """The source for a query whose configurations are few, and their number; raises `TooLarge` otherwise."""
    found = Configurations(kernel)
    found.number(())
    trees, rows = _RowTrees(found), list[Writer]()
    while len(rows) < len(found.order):
        kernel.write = Writer(names=sum(w.names for w in rows))
        trees.row(found.order[len(rows)])
        rows.append(kernel.write)
    body = kernel.write = Writer(depth=1)
    batch.make_room(found)
    with body.block("for key in range(key_count):"):
        body("tail = tails[key]; end = ends[key]; stop = stops[key]; number = numbers[key]")
        body("origin = firsts[key] if begun[key] == 0 else -1")
        batch.threads_come_in(found)
        # A `for`, so that the compiler knows that row numbers are not negative.
        with body.block("for row in range(firsts[key], stop):"):
            _dispatch(body, rows)
        body("row = max(firsts[key], stop)")
        batch.input_ends(found)
        batch.threads_are_left(found)
    body("saved_offsets[key_count] = saved_count")
    body(f"return ({RESULTS})")
    head = f"def kernel({parameters(len(kernel.columns.names), tables=False)}):"
    return "\n".join([head, *body.lines]) + "\n", len(found.order)


def _dispatch(body: Writer, rows: list[Writer]) -> None:
    """The tree of the configuration that holds."""
    for number, lines in enumerate(rows):
        head = "if" if number == 0 else "elif"
        with body.block(f"{head} configuration == {number}:" if number < len(rows) - 1 or number == 0 else "else:"):
            for line in lines.lines:
                body(line)
