"""What generated kernels call when they are compiled: buffers are NumPy arrays, numbers are the machine's.

`interpreted.py` has the same names for kernels that run as plain Python.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import math

import numpy as np

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


objects, grow_objects = ints, grow_ints
"""Compiled kernels have no Python values; these only give the empty banks a type."""


@kernel
def div_i(a, b):
    """Division towards zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


@kernel
def mod_i(a, b):
    """The remainder, with the sign of the dividend."""
    return a - b * (-(-a // b) if (a < 0) != (b < 0) else a // b)


@kernel
def mod_f(a, b):
    """The remainder, with the sign of the dividend."""
    return math.fmod(a, b)


@kernel
def less_f(a, b):
    """Less than, where NaN is larger than everything else."""
    return a < b or (b != b and a == a)


@kernel
def same_f(a, b):
    """Equality, where NaN equals NaN."""
    return a == b or (a != a and b != b)


@kernel
def sqrt_f(a):
    """The square root, NaN of a negative number."""
    return math.sqrt(a) if a >= 0 else math.nan


@kernel
def exp_f(a):
    """The exponential; infinity where it is too large."""
    return np.exp(a)


@kernel
def ln_f(a):
    """The natural logarithm of a positive number."""
    return np.log(a)


@kernel
def power_f(a, b):
    """A power as IEEE 754 has it: NaN or infinity instead of an error."""
    return np.power(a, b)


@kernel
def floor_i(a):
    """The largest whole number not above."""
    return math.floor(a) if math.isfinite(a) else 0


@kernel
def ceil_i(a):
    """The smallest whole number not below."""
    return math.ceil(a) if math.isfinite(a) else 0


@kernel
def trunc_i(a):
    """The whole part."""
    return int(a) if math.isfinite(a) else 0


NAMES = {
    "ints": ints, "floats": floats, "objects": objects,
    "grow_ints": grow_ints, "grow_floats": grow_floats, "grow_objects": grow_objects,
    "div_i": div_i, "mod_i": mod_i, "mod_f": mod_f, "less_f": less_f, "same_f": same_f, "sqrt_f": sqrt_f,
    "exp_f": exp_f, "ln_f": ln_f, "power_f": power_f, "floor_i": floor_i, "ceil_i": ceil_i, "trunc_i": trunc_i,
}  # fmt: skip
