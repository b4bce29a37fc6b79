"""A program as numbers: what the general kernel reads instead of having a branch for every position."""

from __future__ import annotations

import numpy as np

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.match.compile.program import Step
from trimtab.engine.match.compile.registers import Bank, bank
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.kernels.interface import Tables
from trimtab.engine.match.kernels.kernel_writer import KernelWriter

NO_ANCHOR, AT_START, AT_END, AT_TIMEOUT = range(4)
_ANCHORS = {
    frozenset[Anchor](): NO_ANCHOR,
    frozenset({Anchor.START}): AT_START,
    frozenset({Anchor.END}): AT_END,
    frozenset({Anchor.TIMEOUT}): AT_TIMEOUT,
}
"""Numbers for the anchors of a step. Both END and TIMEOUT: END says it all, since the end closes everything."""
WAITS, MAY_END, STAMPED = 1, 2, 4
"""A thread at the position may go on; a match may end with its row; a second thread there on the same row is a twin."""


def tables_of(kernel: KernelWriter) -> Tables:
    """The program's steps, labels and comparisons as arrays."""
    program = kernel.program
    steps: list[tuple[Step, ...]] = [p.steps for p in program.positions]
    # An unconditional end was taken when the row was consumed; what is left to try are the other steps.
    steps = [s[: len(s) - p.may_end] for s, p in zip(steps, program.positions, strict=True)]
    steps.append(program.start)
    flat = [step for each in steps for step in each]
    flags = [
        WAITS * p.waits + MAY_END * p.may_end + STAMPED * (p.waits and kernel.stamped(i))
        for i, p in enumerate(program.positions)
    ]
    compared = []
    for each in (Bank.INT, Bank.FLOAT, Bank.OBJECT):
        slots = [[kernel.layout.at[r] for r in registers if bank(r) is each] for registers in kernel.compared]
        compared += [_offsets([len(s) for s in slots]), _array([slot for s in slots for slot in s])]
    return Tables(
        _offsets([len(each) for each in steps]),
        _array([step.target for step in flat]),
        _array([_ANCHORS.get(step.when, AT_END) for step in flat]),
        _array([p.label for p in program.positions]),
        _array(flags),
        *compared,
    )


def _array(values: list[int]) -> Int64Array:
    return np.array(values or [0], np.int64)


def _offsets(sizes: list[int]) -> Int64Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
