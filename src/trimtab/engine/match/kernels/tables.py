"""A program as numbers, which the general kernel reads: its code has no branch for every position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.engine.columns.arrays import Int64Array
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
"""Numbers for the anchors of a step. END and TIMEOUT together are END, which ends every thread in any case."""
WAITS, MAY_END, STAMPED = 1, 2, 4
"""Another row may follow the position; a match may end with its row; a second thread on the same row is a twin."""


def tables_of(kernel: KernelWriter) -> Tables:
    """The program's steps, labels and comparisons as arrays."""
    program = kernel.program
    # An unconditional end was taken when the row was consumed; the other steps are still to be tried.
    steps = [*(p.steps[: len(p.steps) - p.may_end] for p in program.positions), program.start]
    flat = [step for each in steps for step in each]
    flags = [
        WAITS * p.waits + MAY_END * p.may_end + STAMPED * (p.waits and kernel.stamped(i))
        for i, p in enumerate(program.positions)
    ]
    compared = []
    for each in (Bank.INT, Bank.FLOAT, Bank.OBJECT):
        fields = [[kernel.layout.at[r] for r in registers if bank(r) is each] for registers in kernel.compared]
        compared += [_offsets(fields), _array([field for position in fields for field in position])]
    return Tables(
        _offsets(steps),
        _array([step.target for step in flat]),
        _array([_ANCHORS.get(step.when, AT_END) for step in flat]),
        _array([p.label for p in program.positions]),
        _array(flags),
        *compared,
    )


def _array(values: list[int]) -> Int64Array:
    return np.array(values or [0], np.int64)


def _offsets(parts: Sequence[Sequence[object]]) -> Int64Array:
    """Where each part begins if they are put one after another, and where the last one ends."""
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)
