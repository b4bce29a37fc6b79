"""The scalar functions of conditions on plain Python values, in three-valued logic.

None is null. Every function is total: where mathematics or a type has no answer, the answer is null or NaN, never an
exception, so the order in which expressions are evaluated doesn't matter. `language` checks the types, not this file.

>>> SCALARS["+"](1, 2), SCALARS["<"](1, None), SCALARS["and"](None, False), SCALARS["/"](1, 0)
(3, None, False, None)
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

# Arrow's widest decimal has 76 digits; Python's own default would round to 28.
EXACT = decimal.Context(prec=76, rounding=decimal.ROUND_HALF_UP)
_WHOLE = range(-(2**63), 2**63)
_INT = range(-(2**31), 2**31)
_NAN = ("NaN",)


def compare(a: object, b: object) -> int:
    """-1, 0 or 1, by Spark's order: NaN equals NaN and is larger than everything else.

    >>> compare(float("nan"), float("inf")), compare("a", "b"), compare(1, 1.0)
    (1, -1, 0)
    """
    left, right = _alike(a, b)
    left_nan, right_nan = _is_nan(left), _is_nan(right)
    if left_nan or right_nan:
        return int(left_nan) - int(right_nan)
    return int(left > right) - int(left < right)


def identity(value: object) -> Hashable:
    """A key that is equal for values that SQL groups together: NaN with NaN, null with null.

    >>> identity(float("nan")) == identity(float("nan")), identity([1, None]) == identity([1, None])
    (True, True)
    """
    if isinstance(value, list | tuple):
        return tuple(identity(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, identity(item)) for name, item in value.items())
    return _NAN if _is_nan(value) else value


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Both as the wider of their types: float if one is a float, else timestamp if one is one."""
    if isinstance(a, float) != isinstance(b, float):
        return float(a), float(b)
    if _is_day(b) and isinstance(a, datetime.datetime):
        return a, _midnight(b, a.tzinfo)
    if _is_day(a) and isinstance(b, datetime.datetime):
        return _midnight(a, b.tzinfo), b
    return a, b


def _midnight(day: datetime.date, zone: datetime.tzinfo | None = None) -> datetime.datetime:
    return datetime.datetime(day.year, day.month, day.day, tzinfo=zone)


def _is_day(value: object) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


def _strict(function: Callable[..., object]) -> Callable[..., object]:
    """The function, null if one of its arguments is null."""
    return lambda *args: None if any(arg is None for arg in args) else function(*args)


def _add(a: Any, b: Any) -> object:
    if _is_day(b):
        a, b = b, a
    if _is_day(a):
        return a + datetime.timedelta(days=b) if isinstance(b, int) else _midnight(a) + b
    a, b = _alike(a, b)
    return EXACT.add(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a + b


def _subtract(a: Any, b: Any) -> object:
    if _is_day(a) and _is_day(b):
        return (a - b).days
    if _is_day(a) and not isinstance(b, datetime.datetime):
        return _add(a, -b)
    a, b = _alike(a, b)
    return EXACT.subtract(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a - b


def _multiply(a: Any, b: Any) -> object:
    if isinstance(a, datetime.timedelta) or isinstance(b, datetime.timedelta):
        return a * b
    a, b = _alike(a, b)
    return EXACT.multiply(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else a * b


def _divide(a: Any, b: Any) -> object:
    if not b:
        return None
    if isinstance(a, datetime.timedelta):
        return a / b if isinstance(b, datetime.timedelta) else a / float(b)
    return float(a) / float(b)


def _whole_part(value: Any, among: range = _WHOLE) -> int | None:
    """Truncated towards zero. What the type, a bigint by default, can't hold: of a float the nearest number, else null.

    Spark has it from Java, where NaN gives 0, too.
    """
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return int(min(max(value, among[0]), among[-1]))
    whole = int(value)
    return whole if whole in among else None


def _div(a: Any, b: Any) -> object:
    if not b:
        return None
    a, b = _alike(a, b)
    if isinstance(a, float):
        return _whole_part(a / b) if abs(a / b) < _WHOLE[-1] else None
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return int(EXACT.divide_int(a, b))
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def float_remainder(a: float, b: float) -> float:
    """The remainder, with the sign of the dividend; NaN of infinity."""
    return math.nan if math.isinf(a) else math.fmod(a, b)


def _remainder(a: Any, b: Any) -> object:
    if not b:
        return None
    a, b = _alike(a, b)
    if isinstance(a, float):
        return float_remainder(a, b)
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return EXACT.remainder(a, b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _negate(a: Any) -> object:
    # Not `-a`: for a decimal that rounds to the digits of Python's default context.
    return a.copy_negate() if isinstance(a, Decimal) else -a


def _absolute(a: Any) -> object:
    return a.copy_abs() if isinstance(a, Decimal) else abs(a)


def sqrt(a: Any) -> float:
    """The square root, NaN of a negative number."""
    return math.nan if a < 0 else math.sqrt(a)


def exp(a: Any) -> float:
    """The exponential, infinity where it is too large."""
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def _ln(a: Any) -> float | None:
    return None if a <= 0 else math.log(a)


def power(a: Any, b: Any) -> float:
    """A power as IEEE 754 has it: NaN or infinity instead of an error."""
    base, exponent = float(a), float(b)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:  # a pole at zero, or a root of a negative number
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def _rounded(function: Callable[[Any], int]) -> Callable[..., object]:
    """The whole number that a function gives for a finite one, as a bigint; see `_whole_part`."""

    def whole(a: Any) -> int | None:
        is_float = isinstance(a, float)
        return _whole_part(float(function(a)) if is_float and math.isfinite(a) else a if is_float else function(a))

    return _strict(whole)


def _and(*args: object) -> object:
    if any(arg is False for arg in args):
        return False
    return None if any(arg is None for arg in args) else True


def _or(*args: object) -> object:
    if any(arg is True for arg in args):
        return True
    return None if any(arg is None for arg in args) else False


def _same(a: object, b: object) -> bool:
    if a is None or b is None:
        return a is b
    return compare(a, b) == 0


def _coalesce(*args: object) -> object:
    return next((arg for arg in args if arg is not None), None)


def _nullif(a: object, b: object) -> object:
    return None if _same(a, b) else a


def _case(*args: object) -> object:
    for i in range(0, len(args) - 1, 2):
        if args[i] is True:
            return args[i + 1]
    return args[-1] if len(args) % 2 else None


def _in(value: object, *others: object) -> object:
    return _or(*(_equal(value, other) for other in others))


def _extreme(choose: Callable[..., object]) -> Callable[..., object]:
    """The largest or smallest argument that is not null, the first of equals; null if there is none."""
    order = functools.cmp_to_key(compare)
    return lambda *args: choose((arg for arg in args if arg is not None), key=order, default=None)


_equal = _strict(lambda a, b: compare(a, b) == 0)
SCALARS: Mapping[str, Callable[..., object]] = MappingProxyType(
    {
        "+": _strict(_add),  # numbers; timestamp and interval (both in microseconds)
        "-": _strict(_subtract),  # timestamp - timestamp is an interval, date - date is days
        "*": _strict(_multiply),
        "/": _strict(_divide),  # always floating; null for a zero divisor
        "div": _strict(_div),  # whole part, truncated towards zero; null for a zero divisor
        "%": _strict(_remainder),  # sign of the dividend; null for a zero divisor
        "neg": _strict(_negate),
        "abs": _strict(_absolute),
        "=": _equal,
        "<>": _strict(lambda a, b: compare(a, b) != 0),
        "<": _strict(lambda a, b: compare(a, b) < 0),
        "<=": _strict(lambda a, b: compare(a, b) <= 0),
        ">": _strict(lambda a, b: compare(a, b) > 0),
        ">=": _strict(lambda a, b: compare(a, b) >= 0),
        "<=>": _same,  # null-safe equality, never null
        "and": _and,
        "or": _or,
        "not": _strict(lambda a: not a),
        "is_null": lambda a: a is None,
        "coalesce": _coalesce,
        "nullif": _nullif,
        "case": _case,  # condition, value, condition, value, ..., else
        "in": _in,  # the first arg among the others; SQL's nulls
        "greatest": _extreme(max),  # nulls skipped, as in Spark
        "least": _extreme(min),
        "sqrt": _strict(sqrt),
        "exp": _strict(exp),
        "ln": _strict(_ln),
        "power": _strict(power),
        "floor": _rounded(math.floor),  # to a whole number
        "ceil": _rounded(math.ceil),
        "to_float": _strict(float),  # numeric cast to double
        "to_int": _strict(_whole_part),  # numeric cast to bigint, truncated
        "to_int32": _strict(lambda a: _whole_part(a, _INT)),  # numeric cast to int, truncated
    }
)
