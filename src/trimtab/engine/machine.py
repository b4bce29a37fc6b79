"""What generated kernels call when they are compiled: buffers are NumPy arrays, numbers are the machine's.

`interpreted.py` has the same names for kernels that run as plain Python. Importing this imports Numba.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True)
def ints(n):
    """Room for n integers."""
    return np.zeros(n, np.int64)


@njit(cache=True)
def floats(n):
    """Room for n floats."""
    return np.zeros(n, np.float64)


@njit(cache=True)
def grow_ints(values, n, used):
    """The first `used` values, in room for n."""
    grown = np.zeros(n, np.int64)
    grown[:used] = values[:used]
    return grown


@njit(cache=True)
def grow_floats(values, n, used):
    """The first `used` values, in room for n."""
    grown = np.zeros(n, np.float64)
    grown[:used] = values[:used]
    return grown


objects, grow_objects = ints, grow_ints
"""Compiled kernels have no Python values; these only give the empty banks a type."""


@njit(cache=True)
def div_i(a, b):
    """Division towards zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


@njit(cache=True)
def mod_i(a, b):
    """The remainder, with the sign of the dividend."""
    return a - b * div_i(a, b)


@njit(cache=True)
def mod_f(a, b):
    """The remainder, with the sign of the dividend."""
    return math.fmod(a, b)


@njit(cache=True)
def less_f(a, b):
    """Less than, where NaN is larger than everything else."""
    return a < b or (b != b and a == a)


@njit(cache=True)
def same_f(a, b):
    """Equality, where NaN equals NaN."""
    return a == b or (a != a and b != b)


@njit(cache=True)
def sqrt_f(a):
    """The square root, NaN of a negative number."""
    return math.sqrt(a) if a >= 0 else np.nan


@njit(cache=True)
def exp_f(a):
    """The exponential; infinity where it is too large."""
    return np.exp(a)


@njit(cache=True)
def ln_f(a):
    """The natural logarithm of a positive number."""
    return np.log(a)


@njit(cache=True)
def power_f(a, b):
    """A power as IEEE 754 has it: NaN or infinity instead of an error."""
    return np.power(a, b)


@njit(cache=True)
def floor_i(a):
    """The largest whole number not above."""
    return np.int64(math.floor(a)) if math.isfinite(a) else 0


@njit(cache=True)
def ceil_i(a):
    """The smallest whole number not below."""
    return np.int64(math.ceil(a)) if math.isfinite(a) else 0


@njit(cache=True)
def trunc_i(a):
    """The whole part."""
    return np.int64(a) if math.isfinite(a) else 0
