"""Where the same words mean something else in DuckDB: rewrite them so that the answer is Spark's.

sqlglot translates syntax and names; these are the differences in meaning that it leaves. One case each.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import UnsupportedError

from trimtab.rowwise.types import TypeOf, infer, is_number, is_time, plain

_WHOLE = (exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT)
_CASTS = frozenset({"TINYINT", "SMALLINT", "BIGINT", "FLOAT", "BOOLEAN"})
Described = Callable[[exp.Expr], pa.DataType | None]

_TIMES = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
_TEXTS = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)
_DIFFERENT = frozenset({"HASH"})
_ZERO = exp.Literal.number(0)
_NUMERIC = (exp.Add, exp.Sub, exp.Mul, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NARROW = (pa.int8(), pa.int16())
_DAYS = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})


def as_spark(node: exp.Expr, type_of: TypeOf, described: Described) -> exp.Expr:  # noqa: C901 - one per difference
    """The node itself, or a new one that means in DuckDB what the node means in Spark.

    Operands are rewritten already. `type_of` knows columns; `described` knows any expression, but may ask DuckDB.
    """
    match node:
        case exp.Mod() if not (isinstance(node.expression, exp.Literal) and node.expression.name.strip("0.")):
            # In DuckDB the remainder of a float by zero is NaN.
            divisor = exp.Nullif(this=exp.Paren(this=node.expression.copy()), expression=_ZERO.copy())
            return exp.Mod(this=node.this.copy(), expression=divisor)
        case exp.IntDiv():
            # DuckDB's // keeps the fraction of anything but integers.
            return exp.cast(_call("TRUNC", node), "bigint")
        case exp.Cast() if node.to.this in _WHOLE:
            return _whole(node, described(node.this))
        case exp.Cast() if node.to.this in _TEXTS and _is_zoned(described(node.this)):
            # DuckDB would add the offset.
            return exp.cast(exp.cast(node.this.copy(), "timestamp"), "text")
        case exp.Floor() | exp.Ceil() if len(list(node.iter_expressions())) == 1:
            return exp.TryCast(this=node.copy(), to=exp.DataType.build("bigint"))
        case exp.Ln() | exp.Log():
            # Null where there is no logarithm.
            parts = [part.copy() for part in (node.this, node.expression) if part]
            positive: exp.Expr = exp.and_(*(exp.GT(this=part, expression=_ZERO.copy()) for part in parts))
            return exp.Case(ifs=[exp.If(this=positive, true=node.copy())])
        case exp.IsNan():
            return exp.Coalesce(this=node.copy(), expressions=[exp.false()])
        case exp.Like() | exp.ILike() if not isinstance(node.parent, exp.Escape) and _has_backslash(node.expression):
            # DuckDB has no escape character unless one is named.
            return exp.Paren(this=exp.Escape(this=node.copy(), expression=exp.Literal.string("\\")))
        case exp.Substring() if node.args.get("start") and not _is_above_zero(node.args["start"]):
            # The first character is 1, and 0 means 1 too.
            start = node.args["start"]
            first = exp.If(this=exp.EQ(this=_paren(start), expression=_ZERO.copy()), true=exp.Literal.number(1))
            changed = node.copy()
            changed.set("start", exp.Case(ifs=[first], default=start.copy()))
            return changed
        case exp.Format():
            return _call("PRINTF", node.this, *node.expressions)
        case exp.Add() | exp.Sub() if _is(pa.types.is_date, node.this, type_of) and _is_days(node.expression):
            # In DuckDB a date plus an interval is a timestamp, even if the interval has whole days.
            return exp.cast(exp.Paren(this=node.copy()), "date")
        case exp.Binary() if isinstance(node, _NUMERIC):
            return _numeric(node, type_of)
        case exp.Sqrt():
            negative = exp.LT(this=node.this.copy(), expression=_ZERO.copy())
            nan = exp.cast(exp.Literal.string("NaN"), "double")
            return exp.Case(ifs=[exp.If(this=negative, true=nan)], default=node.copy())
        case exp.DayOfWeek():
            # Sunday is 1 in Spark and 0 in DuckDB.
            return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
        case exp.AddMonths() | exp.TsOrDsAdd():
            # In DuckDB a date plus an interval is a timestamp.
            return exp.cast(node.copy(), "date")
        case exp.StrToUnix():
            return exp.cast(_call("EPOCH", node.this) if _is(is_time, node.this, type_of) else node.copy(), "bigint")
        case exp.Cast() if node.to.this in _TIMES and _is(is_number, node.this, type_of):
            # Seconds since the epoch.
            micros = exp.Mul(this=_paren(node.this), expression=exp.Literal.number(1_000_000))
            return exp.TryCast(this=_call("MAKE_TIMESTAMP", exp.cast(micros, "bigint")), to=node.to.copy())
        case exp.Typeof():
            raise UnsupportedError("typeof gives something else here than in Spark")
        case exp.Anonymous():
            return _named(node)
    return node


def _named(node: exp.Anonymous) -> exp.Expr:
    """Functions of Spark that sqlglot passes on by name."""
    name, args = node.name.upper(), node.expressions
    if name in _DIFFERENT:
        raise UnsupportedError(f"{name.lower()} gives something else here than in Spark")
    if len(args) != 1:
        return node
    if name in ("ISNULL", "ISNOTNULL"):
        test = exp.Paren(this=exp.Is(this=args[0].copy(), expression=exp.null()))
        return test if name == "ISNULL" else exp.Paren(this=exp.Not(this=test))
    if name == "WEEKDAY":
        # Monday is 0 in Spark; DuckDB counts its ISO days from 1.
        iso = _call("ISODOW", args[0])
        return exp.Paren(this=exp.Sub(this=iso, expression=exp.Literal.number(1)))
    return exp.cast(args[0].copy(), name.lower()) if name in _CASTS else node


def _numeric(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    """A float beside a decimal is a double, and a literal is an int beside something narrower."""
    sides = [node.this, node.expression]
    types = [infer(side, type_of) for side in sides]
    if pa.float32() in types and any(type_ is not None and pa.types.is_decimal(type_) for type_ in types):
        old, new = pa.float32(), "double"
    elif any(type_ in _NARROW for type_ in types):
        old, new = pa.int32(), "int"
    else:
        return node
    left, right = (exp.cast(s.copy(), new) if t == old else s.copy() for s, t in zip(sides, types, strict=True))
    return type(node)(this=left, expression=right)


def _whole(node: exp.Cast, type_: pa.DataType | None) -> exp.Expr:
    """A cast to an integer: Spark cuts the fraction off, where DuckDB rounds to the nearest."""
    if type_ is None:
        return node
    kind = plain(type_)
    if kind == pa.string():
        return exp.TryCast(this=_digits(node.this), to=node.to.copy())
    if pa.types.is_timestamp(kind):
        # Whole seconds since the epoch.
        return exp.TryCast(this=_call("FLOOR", _call("EPOCH", node.this)), to=node.to.copy())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return type(node)(this=_call("TRUNC", node.this), to=node.to.copy())
    return node


def _is_zoned(type_: pa.DataType | None) -> bool:
    return type_ is not None and pa.types.is_timestamp(type_) and type_.tz is not None


def _digits(node: exp.Expr) -> exp.Expr:
    """The whole part of a number written as text, NULL for other text."""
    pattern = r"^\s*([+-]?[0-9]+)(\.[0-9]*)?\s*$"
    return _call("REGEXP_EXTRACT", node, exp.Literal.string(pattern), exp.Literal.number(1))


def _paren(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy())


def _has_backslash(pattern: exp.Expr) -> bool:
    """Whether a pattern may have an escape: not if it is written out without one."""
    return not (isinstance(pattern, exp.Literal) and "\\" not in pattern.name)


def _is_above_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.name.strip("0").isdigit()


def _is(test: Callable[[pa.DataType], bool], node: exp.Expr, type_of: TypeOf) -> bool:
    type_ = infer(node, type_of)
    return type_ is not None and bool(test(type_))


def _is_days(node: exp.Expr) -> bool:
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    return unit is not None and unit.name.upper().removesuffix("S") in _DAYS


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])
