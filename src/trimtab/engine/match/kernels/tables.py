"""A program as numbers: what the general kernel reads instead of having a branch for every position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.match.compile.program import Step
from trimtab.engine.match.compile.registers import Bank, bank
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.kernels.kernel_writer import KernelWriter

WHEN = {
    frozenset[Anchor](): 0,
    frozenset({Anchor.START}): 1,
    frozenset({Anchor.END}): 2,
    frozenset({Anchor.TIMEOUT}): 3,
}
"""Numbers for the anchors of a step. Both END and TIMEOUT: END says it all, since the end closes everything."""
WAITS, MAY_END, STAMPED = 1, 2, 4

NAMES = "step_from, step_to, step_when, label_of, flags, icmp_from, icmp, fcmp_from, fcmp, ocmp_from, ocmp"
"""The kernel's parameters for the tables, in the order of `Tables.arrays`."""


@dataclass(frozen=True)
class Tables:
    """The arrays. Position `len(positions)` stands for the place before the first row."""

    arrays: tuple[Int64Array, ...]


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
    arrays = [
        _offsets([len(each) for each in steps]),
        _array([step.target for step in flat]),
        _array([WHEN.get(step.when, 2) for step in flat]),
        _array([p.label for p in program.positions]),
        _array(flags),
    ]
    for each in (Bank.INT, Bank.FLOAT, Bank.OBJECT):
        slots = [[kernel.layout.at[r] for r in registers if bank(r) is each] for registers in kernel.compared]
        arrays += [_offsets([len(s) for s in slots]), _array([slot for s in slots for slot in s])]
    return Tables(tuple(arrays))


def _array(values: list[int]) -> Int64Array:
    return np.array(values or [0], np.int64)


def _offsets(sizes: list[int]) -> Int64Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
