"""Result types of the engine's own functions, by Spark's rules, and constants converted to fit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from trimtab.engine.match.ir.expression import Const, Expr
from trimtab.rowwise.types import DURATION, MAX_PRECISION, is_number, is_time, plain

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>"})
_FLOATS = frozenset({"/", "sqrt", "exp", "ln", "power", "to_float"})
_WHOLES = frozenset({"div", "floor", "ceil", "to_int", "to_int32"})


def result_type(function: str, args: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type of a call, or None if the engine's function doesn't take these types.

    >>> result_type("+", [pa.int32(), pa.float64()]), result_type("+", [pa.string(), pa.int64()])
    (DataType(double), None)
    """
    known = [plain(arg) for arg in args if arg != pa.null()]
    if function in COMPARISONS or function == "in":
        return None if common_type(known) is None else pa.bool_()
    if function in ("and", "or", "not"):
        return pa.bool_() if all(arg == pa.bool_() for arg in known) else None
    if function == "is_null":
        return pa.bool_()
    if function in _FLOATS:
        return pa.float64() if all(map(is_number, known)) else None
    if function in ("coalesce", "nullif", "greatest", "least", "case"):
        return common_type(known)
    if function in ("neg", "abs") and known and (is_number(known[0]) or known[0] == DURATION):
        return widened(known[0])
    if function == "div" and known == [DURATION, DURATION]:
        return pa.int64()
    if function in _WHOLES:
        return pa.int64() if all(map(is_number, known)) else None
    if function in ("+", "-", "*", "%"):
        return _arithmetic(function, known)
    return None


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type that holds values of all the types; null for no types, None if there is no such type."""
    kinds = {widened(plain(type_)) for type_ in types if type_ != pa.null()}
    if len(kinds) <= 1:
        kind = kinds.pop() if kinds else pa.null()
        ordered = is_number(kind) or is_time(kind)
        return kind if ordered or kind in (pa.bool_(), pa.string(), DURATION, pa.null()) else None
    if all(map(is_number, kinds)):
        if any(map(pa.types.is_floating, kinds)):
            return pa.float64()
        decimals = [as_decimal(kind) for kind in kinds]
        scale = max(kind.scale for kind in decimals)
        return bounded_decimal(max(kind.precision - kind.scale for kind in decimals) + scale, scale)
    return None


def widened(type_: pa.DataType) -> pa.DataType:
    """Integers as bigint and floats as double, which is what the engine computes in."""
    if pa.types.is_integer(type_):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(type_) else type_


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """The decimal that holds every value of an integer type."""
    return type_ if pa.types.is_decimal(type_) else pa.decimal128(19, 0)


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """The decimal type. Beyond the largest precision Spark's rule cuts the fraction, but not below six digits."""
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))


def _arithmetic(function: str, types: list[pa.DataType]) -> pa.DataType | None:
    if not types:
        return pa.null()
    if all(map(is_number, types)):
        if any(map(pa.types.is_floating, types)):
            return pa.float64()
        if all(map(pa.types.is_integer, types)):
            return pa.int64()
        return _decimal_result(function, [as_decimal(type_) for type_ in types])
    return _time_result(function, types)


def _decimal_result(function: str, types: list[pa.DataType]) -> pa.DataType:
    scales = [type_.scale for type_ in types]
    if function == "*":
        return bounded_decimal(sum(type_.precision for type_ in types) + 1, sum(scales))
    whole = max(type_.precision - type_.scale for type_ in types)
    return bounded_decimal(whole + max(scales) + (function != "%"), max(scales))


def _time_result(function: str, types: list[pa.DataType]) -> pa.DataType | None:
    left, right = types[0], types[-1]
    if function == "-" and pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        return DURATION if left.tz == right.tz else None
    if function == "-" and pa.types.is_date(left) and pa.types.is_date(right):
        return pa.int64()
    if function in ("+", "-") and pa.types.is_timestamp(left) and right == DURATION:
        return left
    if function == "+" and left == DURATION and pa.types.is_timestamp(right):
        return right
    if function in ("+", "-") and left == right == DURATION:
        return DURATION
    if function == "*" and DURATION in types and any(map(pa.types.is_integer, types)):
        return DURATION
    return None


def with_fitting_constants(args: Sequence[Expr]) -> tuple[Expr, ...]:
    """The args, with constant numbers and nulls converted to the type of the other args.

    `price * 0.9` over doubles multiplies doubles: the literal alone would be a decimal.
    """
    types = [plain(arg.type) for arg in args]
    others = [t for t, arg in zip(types, args, strict=True) if not isinstance(arg, Const)]
    wanted = common_type(others or types)
    if wanted is None or wanted == pa.null():
        return tuple(args)
    return tuple(_fitting(arg, wanted) if isinstance(arg, Const) else arg for arg in args)


def _fitting(const: Const, wanted: pa.DataType) -> Const:
    if const.value is None:
        return replace(const, type=wanted)
    value = const.value
    if wanted == pa.float64() and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Const(float(value), wanted)
    if wanted == pa.int64() and pa.types.is_integer(const.type):
        return Const(value, wanted)
    return const


def retyped(const: Const, type_: pa.DataType) -> Const:
    """A constant in another type that holds its value."""
    if const.value is None or const.type == type_:
        return Const(const.value, type_)
    value = pa.scalar(const.value, const.type).cast(type_).as_py()
    return Const(value, type_)
