"""Running sums and extremes over the steps of matches."""

# mypy: disable-error-code="no-untyped-def,misc,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.machine_code.kernel import kernel

LARGE = 5_000
"""From this many steps on, machine code is worth loading."""
FUNCTIONS = ("sum", "avg", "min", "max")


def running(function: str, values: npt.NDArray[Any], known: BoolArray, owner: Int64Array) -> npt.NDArray[Any]:
    """Running sum (for `avg`, too), minimum or maximum over the steps of each owner, without unknown values.

    Floats are added one after another from the first step of the owner, so that cutting a stream differently can't
    change a bit. (A cumulative sum over everything, less what came before, would.)

    >>> running("sum", np.array([1, 2, 3]), np.array([True, True, True]), np.array([0, 0, 1]))
    array([1, 3, 3])
    """
    out, number = np.zeros_like(values), FUNCTIONS.index(function)
    if len(values) >= LARGE and values.dtype != object:
        scan(number, values, known, owner, out)
    else:  # plain Python, which reads lists faster than arrays
        scan.function(number, values.tolist(), known.tolist(), owner.tolist(), out)
    return out


@kernel
def scan(function, values, known, owner, out):
    """Write the running value of a function, by its place in FUNCTIONS, at each step to `out`, which is all zeros."""
    before, empty = -1, True
    for i in range(len(values)):
        if owner[i] != before:
            before, empty, state = owner[i], True, out[i]
        if known[i]:
            value = values[i]
            if empty or (function == 2 and value < state) or (function == 3 and value > state):
                state = value
            elif function <= 1:
                state = state + value
            empty = False
        out[i] = state
