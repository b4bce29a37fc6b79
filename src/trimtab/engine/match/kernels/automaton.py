"""Kernels without thread lists: where only a few lists of threads are possible, each has its own code.

Under SKIP PAST LAST ROW, if no two threads at a position can differ in anything that later conditions read, the list of
live threads is determined by its positions. Each such list (a *configuration*) becomes a branch of the kernel with its
registers in local names, and each row is one walk down a tree of conditions, as in a loop written by hand for this
pattern. This makes plain patterns fast; `thread_kernel.py` has all others.

Configurations are found by following every outcome of every condition from the empty one. If there are too many,
`TooLarge` is raised, and the query gets the general kernel. What the kernel does before and after a key's rows is in
`configurations.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trimtab.engine.match.compile.program import DONE, Step
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.kernels.configurations import (
    Configuration,
    Configurations,
    NextThread,
    TooLarge,
    end_name,
    start_name,
)
from trimtab.engine.match.kernels.emit import THIS_ROW, Thread, Writer
from trimtab.engine.match.kernels.interface import RESULTS, parameters
from trimtab.engine.match.kernels.kernel_writer import KernelWriter

MAX_LEAVES = 160
"""The most outcomes of a row in all configurations together: like `MAX_CONFIGURATIONS`, a limit to the code's size."""


@dataclass(frozen=True)
class _Branch:
    """A place in the tree of a configuration: the step that is tried next, and what led to it."""

    configuration: Configuration
    thread: int = 0  # the thread whose steps are tried; after the last one, the attempt that starts on this row
    step: int = 0
    kept: tuple[NextThread, ...] = ()  # by the steps that were taken
    outcomes: Mapping[str, bool] = field(default_factory=dict)  # of conditions that are known here

    def next_thread(self, *kept: NextThread) -> _Branch:
        """All steps of the thread were tried."""
        return replace(self, thread=self.thread + 1, step=0, kept=(*self.kept, *kept))


@dataclass
class _RowTrees:
    """Writes for each configuration the tree of conditions of one row."""

    found: Configurations
    leaves: int = 0

    def grow(self, branch: _Branch) -> None:
        """Write the tree from a branch on."""
        program = self.found.kernel.program
        while branch.thread < len(branch.configuration):
            position = branch.configuration[branch.thread]
            if position == DONE:
                branch = branch.next_thread(self.found.ended(branch.thread))
                continue
            steps = [step for step in program.positions[position].steps if step.target != DONE]
            if branch.step == len(steps):
                branch = branch.next_thread()
            elif self._try(branch, steps[branch.step], self.found.thread(branch.thread, position)):
                return
            else:
                branch = replace(branch, step=branch.step + 1)
        while branch.step < len(program.start):
            if self._try(branch, program.start[branch.step], Thread(fresh=True, start=THIS_ROW)):
                return
            branch = replace(branch, step=branch.step + 1)
        self._leaf(branch.kept)

    def _try(self, branch: _Branch, step: Step, thread: Thread) -> bool:
        """Write the outcomes of a step, each with all that follows; False: the step can't be taken."""
        kernel = self.found.kernel
        code = "row == origin" if Anchor.START in step.when else "True"
        if step.target == DONE:
            ends = True
            empty = NextThread(DONE, THIS_ROW, "-1", {r: repr(r.initial) for r in self.found.kept(DONE)})

            def taken() -> list[NextThread]:
                return [empty]
        else:
            target = kernel.program.positions[step.target]
            ends = target.may_end
            if target.waits and any(each.position == step.target for each in branch.kept):
                return False
            emitter = kernel.emitter(target.label, thread)
            condition = kernel.query.conditions[target.label]
            if condition is not None:
                tested = emitter.condition(condition)
                code = tested if code == "True" else code if tested == "True" else f"{code} and {tested}"

            def taken() -> list[NextThread]:
                # Called inside the branch that is taken: new values cost nothing elsewhere.
                values = {r: emitter.updated(r) for r in kernel.layout.registers}
                positions = [step.target] * target.waits + [DONE] * target.may_end
                return [NextThread(position, thread.start, THIS_ROW, values) for position in positions]

        known = code == "True" if code in ("True", "False") else branch.outcomes.get(code)
        if known is False:
            return False

        def follow(outcomes: Mapping[str, bool]) -> None:
            kept = (*branch.kept, *taken())
            if ends:
                self._leaf(kept)
            else:
                self.grow(replace(branch, step=branch.step + 1, kept=kept, outcomes=outcomes))

        if known:
            follow(branch.outcomes)
            return True
        with self.found.write.block(f"if {code}:"):
            follow({**branch.outcomes, **_implied(code, True)})
        with self.found.write.block("else:"):
            otherwise = {**branch.outcomes, **_implied(code, False)}
            self.grow(replace(branch, step=branch.step + 1, outcomes=otherwise))
        return True

    def _leaf(self, kept: tuple[NextThread, ...]) -> None:
        """All threads were tried on the row: report matches that are decided, and go to the next configuration."""
        self.leaves += 1
        if self.leaves > MAX_LEAVES:
            raise TooLarge
        while kept and kept[0].position == DONE:
            self.found.report(kept[0])
            kept = kept[1:]
        names, values = ["configuration"], [str(self.found.number(tuple(each.position for each in kept)))]
        for at, each in enumerate(kept):
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
    while len(rows) < len(found.numbers):
        kernel.write = Writer(names=sum(w.names for w in rows))
        trees.grow(_Branch(list(found.numbers)[len(rows)]))
        rows.append(kernel.write)
    body = kernel.write = Writer(depth=1)
    found.allocate()
    with body.block("for key in range(key_count):"):
        body("tail = tails[key]; end = ends[key]; stop = stops[key]; number = numbers[key]")
        body("origin = firsts[key] if begun[key] == 0 else -1")
        found.load_threads()
        # A `for`, so that the compiler knows that row numbers are not negative.
        with body.block("for row in range(firsts[key], stop):"):
            _dispatch(body, rows)
        body("row = max(firsts[key], stop)")
        found.end_input()
        found.save_threads()
    body("saved_offsets[key_count] = saved_count")
    body(f"return ({RESULTS})")
    head = f"def kernel({parameters(len(kernel.columns.names), len(kernel.literals.names), tables=False)}):"
    return "\n".join([head, *body.lines]) + "\n", len(found.numbers)


def _dispatch(body: Writer, rows: list[Writer]) -> None:
    """The tree of the configuration that holds."""
    for number, lines in enumerate(rows):
        head = "if" if number == 0 else "elif"
        with body.block(f"{head} configuration == {number}:" if number < len(rows) - 1 or number == 0 else "else:"):
            for line in lines.lines:
                body(line)


_OPPOSITES = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
_EXCLUDED = {"<": (">", "=="), ">": ("<", "=="), "==": ("<", ">")}


def _implied(code: str, outcome: bool) -> dict[str, bool]:
    """The outcomes of a comparison and of other comparisons of the same two values, given that of the first.

    A tree of conditions needs no branch for what is known. NaN is no concern: where it occurs comparisons are calls.

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
