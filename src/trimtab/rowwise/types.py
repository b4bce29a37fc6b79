"""The Arrow type of a row-local expression, by rule.

`infer` knows the common expressions, so that compiling a common query starts no database. It
returns None where no rule is sure, for an unknown function or operands that don't go together, too:
then DuckDB is asked. Where it gives a type, DuckDB gives the same one (a test checks that).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

TypeOf = Callable[[exp.Column], pa.DataType | None]

DURATION = pa.duration("us")
_INTEGERS = (pa.int32(), pa.int64())
_STRING_FUNCTIONS = (exp.Lower, exp.Upper, exp.Trim, exp.DPipe, exp.Concat)
_FLOAT_FUNCTIONS = (exp.Sqrt, exp.Exp, exp.Ln, exp.Pow)
CAST_TYPES = {
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: pa.float64(),
    exp.DataType.Type.TEXT: pa.string(),
    exp.DataType.Type.VARCHAR: pa.string(),
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMPNTZ: pa.timestamp("us"),
}
MAX_PRECISION = 38


def plain(type_: pa.DataType) -> pa.DataType:
    """The type without its encoding: dictionaries and the wider kinds of string are strings."""
    if pa.types.is_dictionary(type_):
        return plain(type_.value_type)
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return pa.string()
    return type_


def is_number(type_: pa.DataType) -> bool:
    """Whether arithmetic is defined on the type."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def is_time(type_: pa.DataType) -> bool:
    """Whether the type is a point in time: a timestamp or a date."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def literal_type(literal: exp.Literal) -> pa.DataType | None:
    """The type of a string or number as DuckDB reads it; None for a number that fits no type."""
    if literal.is_string:
        return pa.string()
    text = literal.name
    if text.isdigit():
        value = int(text) if len(text) <= MAX_PRECISION else 1 << 64
        return pa.int32() if value < 1 << 31 else pa.int64() if value < 1 << 63 else None
    if "e" in text.lower():
        return pa.float64()
    whole, _, fraction = text.partition(".")
    if not (whole + fraction).isdigit() or len(whole + fraction) > MAX_PRECISION:
        return None
    return pa.decimal128(max(len(whole) + len(fraction), 1), len(fraction))


def literal_value(literal: exp.Literal) -> object:
    """The Python value that goes with `literal_type`."""
    text = literal.name
    if literal.is_string:
        return text
    return int(text) if text.isdigit() else float(text) if "e" in text.lower() else Decimal(text)


def infer(node: exp.Expr, column: TypeOf) -> pa.DataType | None:
    """The type of an expression, or None where no rule is sure.

    >>> from sqlglot import parse_one
    >>> infer(parse_one("price * 0.9 < 3"), lambda _: pa.float64())
    DataType(bool)
    """
    match node:
        case exp.Paren():
            return infer(node.this, column)
        case exp.Column():
            return column(node)
        case exp.Literal():
            return literal_type(node)
        case exp.Boolean():
            return pa.bool_()
        case exp.Null():
            return pa.null()
        case exp.Interval():
            return DURATION
        case exp.Cast():
            inner = infer(node.this, column)
            return None if inner is None else CAST_TYPES.get(node.to.this)
    parts = [infer(part, column) for part in _operands(node)]
    if None in parts or not parts:
        return None
    return _combine(node, [plain(part) for part in parts])


def _operands(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Case):
        return [*_branches(node), *(branch.this for branch in node.args["ifs"])]
    return list(node.iter_expressions())


def _branches(node: exp.Case) -> list[exp.Expr]:
    """What a CASE may give."""
    default = node.args.get("default")
    return [*(branch.args["true"] for branch in node.args["ifs"]), *([] if default is None else [default])]


def _combine(node: exp.Expr, parts: list[pa.DataType]) -> pa.DataType | None:  # noqa: C901
    match node:
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.NullSafeEQ() | exp.NullSafeNEQ():
            return pa.bool_() if _comparable(parts) else None
        case exp.In() | exp.Between():
            return pa.bool_() if _comparable(parts) else None
        case exp.And() | exp.Or() | exp.Not():
            return pa.bool_() if all(_is(part, pa.bool_()) for part in parts) else None
        case exp.Is():
            return pa.bool_()
        case exp.Like() | exp.ILike():
            return pa.bool_() if all(_is(part, pa.string()) for part in parts) else None
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod():
            return _arithmetic(node, parts)
        case exp.Div():
            return pa.float64() if all(map(is_number, parts)) else None
        case exp.Neg() | exp.Abs():
            return parts[0] if parts[0] in (*_INTEGERS, pa.float64()) else None
        case exp.Case() if node.this is None:
            values = len(_branches(node))
            return _same(parts[:values]) if all(_is(part, pa.bool_()) for part in parts[values:]) else None
        case exp.If():
            return _same(parts[1:]) if _is(parts[0], pa.bool_()) else None
        case exp.Coalesce() | exp.Nullif():
            return _same(parts)
        case exp.Length():
            return pa.int64() if parts == [pa.string()] else None
        case _ if isinstance(node, _STRING_FUNCTIONS):
            return pa.string() if all(part == pa.string() for part in parts) else None
        case _ if isinstance(node, _FLOAT_FUNCTIONS):
            return pa.float64() if all(map(is_number, parts)) else None
    return None


def _is(part: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(part in (wanted, pa.null()))


def _same(parts: list[pa.DataType]) -> pa.DataType | None:
    """The one type that all parts have, nulls aside; None if there are several."""
    kinds = {part for part in parts if part != pa.null()}
    return kinds.pop() if len(kinds) == 1 else pa.null() if not kinds else None


def _comparable(parts: list[pa.DataType]) -> bool:
    """Whether values of these types can be compared with each other."""
    known = [part for part in parts if part != pa.null()]
    alike = all(map(is_number, known)) or all(map(is_time, known))
    return alike or _same(known) in (pa.bool_(), pa.string(), DURATION)


def _arithmetic(node: exp.Expr, parts: list[pa.DataType]) -> pa.DataType | None:
    left, right = parts
    if all(part in _INTEGERS for part in parts):
        return pa.int64() if pa.int64() in parts else pa.int32()
    if pa.float64() in parts and all(map(is_number, parts)):
        return pa.float64()
    if isinstance(node, exp.Sub) and all(map(pa.types.is_timestamp, parts)):
        return DURATION if left.tz is None and right.tz is None else None
    if isinstance(node, exp.Add | exp.Sub) and pa.types.is_timestamp(left) and right == DURATION:
        return pa.timestamp("us") if left.tz is None else None
    return None
