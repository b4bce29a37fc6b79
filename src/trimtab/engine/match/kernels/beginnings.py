"""Code that looks ahead from a row: whether an attempt that starts there can get past the next row.

Most attempts of most patterns fail on their first or second row, and a thread costs far more than a comparison. So the
general kernel starts none that is certain to be gone after the next row without a match. Such a thread can't change
what others do: it never ends, and a twin that it might replace has the same future.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trimtab.engine.match.compile.program import DONE, Position, Step
from trimtab.engine.match.ir.expression import Call, Expr
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.kernels.emit import THIS_ROW, Thread, Writer
from trimtab.engine.match.kernels.kernel_writer import KernelWriter

NEXT_ROW = "ahead"
_OWN_NAMES = 10_000  # names of values in this code differ from those in the code of the steps


def begins(kernel: KernelWriter) -> list[str] | None:
    """Lines that set `begins`: False if no attempt has to start on `row`. None: one has to start on every row."""
    program = kernel.program
    if kernel.objects or kernel.sequential or kernel.unmatched:
        return None
    kernel.write = write = Writer(names=_OWN_NAMES)
    write("begins = False")
    for number, step in enumerate(program.start):
        if step.target == DONE or step.when - {Anchor.START}:
            return None
        with write.block("if not begins:" if number else "if True:"):
            if not _write_step(kernel, write, step):
                return None
    return write.lines


def _write_step(kernel: KernelWriter, write: Writer, step: Step) -> bool:
    """Set `begins` if the first step may be taken; False: that can always be."""
    target = kernel.program.positions[step.target]
    condition = kernel.query.conditions[target.label]
    emitter = kernel.emitter(target.label, Thread(fresh=True, start=THIS_ROW))
    holds = [] if condition is None else [emitter.condition(condition)]
    if Anchor.START in step.when:
        holds.insert(0, "row == origin")
    ahead = _followers(kernel, step.target, target)
    if ahead is None and not holds:
        return False
    with write.block(f"if {' and '.join(holds) or 'True'}:"):
        write("begins = True")
        if ahead is not None:
            with write.block("if row + 1 < stop:"):
                write(f"{NEXT_ROW} = row + 1")
                write("begins = False")
                for lines, code in ahead:
                    with write.block("if not begins:"):
                        for line in lines:
                            write(line)
                        write(f"begins = {code}")
    return True


def _followers(kernel: KernelWriter, number: int, position: Position) -> list[tuple[list[str], str]] | None:
    """For each label that may follow the first row, code that is true if the next row may be mapped to it.

    None: nothing is known of the next row, or the attempt may end without it.
    """
    if any(step.target == DONE for step in position.steps):
        return None
    found = []
    for label in dict.fromkeys(kernel.program.positions[step.target].label for step in position.steps):
        written = _of_row(kernel, label, Thread(facts=kernel.facts[number], start="(row - 1)"))
        if written is None:
            return None
        found.append(written)
    return found


def _of_row(kernel: KernelWriter, label: int, thread: Thread) -> tuple[list[str], str] | None:
    """What a label's condition demands of the row alone, whatever the thread remembers, as code about the next row."""
    before, kernel.write = kernel.write, Writer(names=kernel.write.names)
    emitter = kernel.emitter(label, thread)
    codes = []
    for part in _parts(kernel.query.conditions[label]):
        mark = emitter.mark()
        code = emitter.condition(part)
        if emitter.reads:
            emitter.forget(mark)
        elif code != "True":
            codes.append(code)
    own, kernel.write = kernel.write, before
    before.names = own.names
    return ([_ahead(line) for line in own.lines], _ahead(" and ".join(codes))) if codes else None


def _parts(condition: Expr | None) -> Sequence[Expr]:
    """The conditions that all have to hold."""
    match condition:
        case None:
            return ()
        case Call("and", args):
            return [part for each in args for part in _parts(each)]
        case _:
            return (condition,)


def _ahead(code: str) -> str:
    return re.sub(rf"\b{THIS_ROW}\b", NEXT_ROW, code)
