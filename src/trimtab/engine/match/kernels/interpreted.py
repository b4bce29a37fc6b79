"""What generated kernels call when they run as plain Python: buffers are lists, numbers are Python's.

The functions that are right for both kinds of numbers are those of `machine.py`; the others are here.
"""

from __future__ import annotations

import math

from trimtab.engine.match.aggregates import aggregate
from trimtab.engine.match.kernels import machine
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


def mod_f(a: float, b: float) -> float:
    """The remainder, with the sign of the dividend."""
    return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else math.nan


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


NAMES = {name: function.function for name, function in machine.NAMES.items()} | {
    "ints": ints, "floats": floats, "objects": objects, "grow_ints": grow, "grow_floats": grow, "grow_objects": grow,
    "mod_f": mod_f, "exp_f": exp_f, "ln_f": ln_f, "power_f": power_f, "aggregate": aggregate, "SCALARS": SCALARS,
}  # fmt: skip
