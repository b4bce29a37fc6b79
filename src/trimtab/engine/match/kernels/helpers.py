"""What generated kernels call, compiled or as plain Python.

Compiled kernels have NumPy arrays for buffers, and the machine's numbers. Plain ones have lists, and Python's numbers.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import math
from typing import Any

import numpy as np

from trimtab.engine.match import scalars
from trimtab.engine.match.aggregates import aggregate
from trimtab.machine_code.kernel import kernel


@kernel
def ints(n):
    """Room for n integers."""
    return np.zeros(n, np.int64)


@kernel
def floats(n):
    """Room for n floats."""
    return np.zeros(n, np.float64)


@kernel
def grow_ints(values, n, used):
    """The first `used` values, in room for n."""
    grown = np.zeros(n, np.int64)
    for i in range(used):  # assigning a slice takes as long to compile as the rest of a pattern
        grown[i] = values[i]
    return grown


@kernel
def grow_floats(values, n, used):
    """The first `used` values, in room for n."""
    grown = np.zeros(n, np.float64)
    for i in range(used):
        grown[i] = values[i]
    return grown


@kernel
def div_i(a, b):
    """Division towards zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


@kernel
def mod_i(a, b):
    """The remainder, with the sign of the dividend."""
    return a - b * (-(-a // b) if (a < 0) != (b < 0) else a // b)


@kernel
def less_f(a, b):
    """Less than, where NaN is larger than everything else."""
    return a < b or (b != b and a == a)


@kernel
def same_f(a, b):
    """Equality, where NaN equals NaN."""
    return a == b or (a != a and b != b)


_FOR_BOTH = {"div_i": div_i, "mod_i": mod_i, "less_f": less_f, "same_f": same_f}
# Kernels round only numbers that a bigint can hold.
_ROUNDING = {"floor_i": math.floor, "ceil_i": math.ceil, "trunc_i": int}

MACHINE_NAMES: dict[str, Any] = {
    # Compiled kernels have no Python values; these only give the empty banks a type.
    "objects": ints, "grow_objects": grow_ints,
    "ints": ints, "floats": floats, "grow_ints": grow_ints, "grow_floats": grow_floats,
    "mod_f": np.fmod, "sqrt_f": np.sqrt, "exp_f": np.exp, "ln_f": np.log, "power_f": np.power,
    **_FOR_BOTH, **_ROUNDING,
}  # fmt: skip
"""What compiled kernels call. Compiled, functions of floats give NaN or infinity instead of an error."""


def _grow(values: list[object], n: int, used: int) -> list[object]:
    return values[:used] + [0] * (n - used)


PLAIN_NAMES: dict[str, Any] = {
    "ints": lambda n: [0] * n, "floats": lambda n: [0.0] * n, "objects": lambda n: [None] * n,
    "grow_ints": _grow, "grow_floats": _grow, "grow_objects": _grow,
    "mod_f": scalars.float_remainder, "sqrt_f": scalars.sqrt, "exp_f": scalars.exp, "ln_f": math.log,
    "power_f": scalars.power, "aggregate": aggregate, "SCALARS": scalars.SCALARS,
    **{name: function.function for name, function in _FOR_BOTH.items()}, **_ROUNDING,
}  # fmt: skip
"""What plain kernels call."""
