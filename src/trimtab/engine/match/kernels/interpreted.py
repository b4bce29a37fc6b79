"""What generated kernels call when they run as plain Python: buffers are lists, numbers are Python's.

`machine.py` has the same names for compiled kernels.
"""

from __future__ import annotations

import math

from trimtab.engine.match.aggregates import aggregate
from trimtab.engine.match.scalars import SCALARS


def ints(n: int) -> list[int]:
    """Room for n integers."""
    return [0] * n


def floats(n: int) -> list[float]:
    """Room for n floats."""
    return [0.0] * n


def objects(n: int) -> list[object]:
    """Room for n Python values."""
    return [None] * n


def grow(values: list[object], n: int, used: int) -> list[object]:
    """The first `used` values, in room for n."""
    return values[:used] + [0] * (n - used)


def div_i(a: int, b: int) -> int:
    """Division towards zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def mod_i(a: int, b: int) -> int:
    """The remainder, with the sign of the dividend."""
    return a - b * div_i(a, b)


def mod_f(a: float, b: float) -> float:
    """The remainder, with the sign of the dividend."""
    return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else math.nan


def less_f(a: float, b: float) -> bool:
    """Less than, where NaN is larger than everything else."""
    return a < b or (b != b and a == a)


def same_f(a: float, b: float) -> bool:
    """Equality, where NaN equals NaN."""
    return a == b or (a != a and b != b)


def sqrt_f(a: float) -> float:
    """The square root, NaN of a negative number."""
    return math.sqrt(a) if a >= 0 else math.nan


def exp_f(a: float) -> float:
    """The exponential; infinity where it is too large."""
    return math.exp(a) if a < 709.78 or a != a else math.inf


def ln_f(a: float) -> float:
    """The natural logarithm of a positive number."""
    return math.log(a) if a == a else math.nan


def power_f(a: float, b: float) -> float:
    """A power as IEEE 754 has it: NaN or infinity instead of an error."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        return math.nan if a != 0 else math.inf


def floor_i(a: float) -> int:
    """The largest whole number not above."""
    return math.floor(a) if math.isfinite(a) else 0


def ceil_i(a: float) -> int:
    """The smallest whole number not below."""
    return math.ceil(a) if math.isfinite(a) else 0


def trunc_i(a: float) -> int:
    """The whole part."""
    return int(a) if math.isfinite(a) else 0


NAMES = {
    "ints": ints,
    "floats": floats,
    "objects": objects,
    "grow_ints": grow,
    "grow_floats": grow,
    "grow_objects": grow,
    "div_i": div_i,
    "mod_i": mod_i,
    "mod_f": mod_f,
    "less_f": less_f,
    "same_f": same_f,
    "sqrt_f": sqrt_f,
    "exp_f": exp_f,
    "ln_f": ln_f,
    "power_f": power_f,
    "floor_i": floor_i,
    "ceil_i": ceil_i,
    "trunc_i": trunc_i,
    "aggregate": aggregate,
    "SCALARS": SCALARS,
}
