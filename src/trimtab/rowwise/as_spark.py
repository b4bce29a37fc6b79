"""Where the same words mean something else in DuckDB: rewrite them so that the answer is Spark's.

sqlglot translates syntax and names; these are the differences in meaning that it leaves. One case each.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import UnsupportedError

from trimtab.rowwise.java_regex import translated
from trimtab.rowwise.own_functions import MOST_DIGITS
from trimtab.rowwise.types import TypeOf, infer, is_number, is_time, plain

_WHOLE = (exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT)
_CASTS = frozenset({"TINYINT", "SMALLINT", "BIGINT", "FLOAT", "BOOLEAN"})
Described = Callable[[exp.Expr], pa.DataType | None]

_TIMES = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
_TEXTS = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)
_DIFFERENT = frozenset({"HASH"})
_ZERO = exp.Literal.number(0)
_UTC = exp.Literal.string("UTC")
_NUMERIC = (exp.Add, exp.Sub, exp.Mul, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NARROW = (pa.int8(), pa.int16())
_SATURATING = {exp.DataType.Type.INT: "SPARK_INT", exp.DataType.Type.BIGINT: "SPARK_LONG"}
_SPACE = r"[\x00-\x20\x7f]*"
_INTEGER = rf"\A{_SPACE}([+-]?[0-9]+)(?:\.[0-9]*)?{_SPACE}\z"
_FRACTION = rf"\A{_SPACE}[+-]?\.[0-9]*{_SPACE}\z"
_NUMBER = r"\A[\x00-\x20]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?[\x00-\x20]*\z"
_INFINITE = r"(?i)\A[\x00-\x20]*([+-]?inf|[+-]?infinity|nan)[\x00-\x20]*\z"
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
        case exp.Cast() if node.to.this is exp.DataType.Type.DOUBLE:
            return _double(node, described(node.this))
        case exp.Floor() | exp.Ceil() if len(list(node.iter_expressions())) == 1:
            return _whole_beside(node, described(node.this))
        case exp.Round() if _is_places(node.args.get("decimals")) and _is_double(described(node.this)):
            return _call("SPARK_ROUND", node.this, node.args.get("decimals") or _ZERO)
        case exp.Upper() | exp.Lower():
            return _call(f"SPARK_{node.sql_name()}", node.this)
        case exp.Trim() if not node.args.get("collation"):
            # Spark only takes plain spaces off.
            name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(str(node.args.get("position")), "TRIM")
            return _call(name, node.this, node.expression or exp.Literal.string(" "))
        case exp.RegexpLike() | exp.RegexpExtract() | exp.RegexpReplace():
            return _regular(node)
        case exp.ArraySize():
            return exp.Coalesce(this=node.copy(), expressions=[exp.Literal.number(-1)])
        case exp.ArrayContains():
            return _contains(node)
        case exp.Ln() | exp.Log():
            # Null where there is no logarithm.
            parts = [part.copy() for part in (node.this, node.expression) if part]
            positive: exp.Expr = exp.and_(*(exp.GT(this=part, expression=_ZERO.copy()) for part in parts))
            return exp.Case(ifs=[exp.If(this=positive, true=node.copy())])
        case exp.IsNan():
            return exp.Coalesce(this=node.copy(), expressions=[exp.false()])
        case exp.ILike() if not isinstance(node.expression, exp.Any | exp.All):
            parts = [_call("SPARK_LOWER", part) for part in (node.this, node.expression)]
            return _escaped(exp.Like(this=parts[0], expression=parts[1]), node)
        case exp.Like():
            return _escaped(node.copy(), node)
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
        case exp.StrToUnix() if not _is(is_time, node.this, type_of):
            return exp.cast(node.copy(), "bigint")
        case exp.StrToUnix():
            # Towards zero, where unix_seconds goes down.
            return exp.IntDiv(this=_call("EPOCH_US", node.this), expression=exp.Literal.number(1_000_000))
        case exp.UnixSeconds():
            return _seconds(node.this)
        case exp.UnixMillis():
            return exp.Paren(this=_floored(_call("EPOCH_US", node.this), 1000))
        case exp.Cast() if node.to.this in _TIMES and _is(is_number, node.this, type_of):
            # Seconds since the epoch.
            micros = exp.Mul(this=_paren(node.this), expression=exp.Literal.number(1_000_000))
            return exp.TryCast(this=_call("MAKE_TIMESTAMP", exp.cast(micros, "bigint")), to=node.to.copy())
        case exp.AtTimeZone():
            # from_utc_timestamp: the clock there at this moment.
            return _as_moment(_call("TIMEZONE", node.args["zone"], _call("TIMEZONE", _UTC, _clock(node.this))))
        case exp.FromTimeZone():
            # to_utc_timestamp: the moment at which the clock there shows this.
            return _as_moment(_call("TIMEZONE", _UTC, _call("TIMEZONE", node.args["zone"], _clock(node.this))))
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
    if name == "BTRIM":
        return _call("TRIM", args[0], args[1] if len(args) > 1 else exp.Literal.string(" "))
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
        return exp.TryCast(this=_seconds(node.this), to=node.to.copy())
    if kind in (pa.float32(), pa.float64()) and node.to.this in _SATURATING and not node.args.get("safe"):
        return _call(_SATURATING[node.to.this], node.this)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return type(node)(this=_call("TRUNC", node.this), to=node.to.copy())
    return node


def _whole_beside(node: exp.Floor | exp.Ceil, type_: pa.DataType | None) -> exp.Expr:
    """The nearest whole number below or above, as a bigint."""
    if type_ is not None and pa.types.is_floating(type_):
        return _call("SPARK_LONG", node)
    if type_ is not None and pa.types.is_integer(type_):
        return exp.cast(_paren(node.this), "bigint")  # DuckDB's floor makes doubles of integers
    return exp.TryCast(this=node.copy(), to=exp.DataType.build("bigint"))


def _double(node: exp.Cast, type_: pa.DataType | None) -> exp.Expr:
    """A cast to a double; of text as Java reads it, and of a time in seconds."""
    if type_ is None:
        return node
    kind = plain(type_)
    if pa.types.is_timestamp(kind):
        return exp.Paren(this=exp.Div(this=_call("EPOCH_US", node.this), expression=exp.Literal.number("1e6")))
    if kind != pa.string():
        return node
    number = exp.TryCast(this=_matched(node.this, _NUMBER), to=node.to.copy())
    if node.args.get("safe"):
        return number
    word = exp.TryCast(this=_matched(node.this, _INFINITE), to=node.to.copy())
    return exp.Coalesce(this=number, expressions=[word])


def _clock(moment: exp.Expr) -> exp.Expr:
    """A time without its zone; in DuckDB one with a zone is moved the other way."""
    return exp.cast(_paren(moment), "timestamp")


def _as_moment(clock: exp.Expr) -> exp.Expr:
    """A time with a zone, if the table has such times."""
    return exp.Cast(this=clock, to=exp.DataType(this=exp.DataType.Type.TIMESTAMPTZ))


def _seconds(moment: exp.Expr) -> exp.Expr:
    """The whole seconds since the epoch: those of a double of seconds would be rounded."""
    return exp.Paren(this=_floored(_call("EPOCH_US", moment), 1_000_000))


def _floored(number: exp.Expr, divisor: int) -> exp.Expr:
    """The quotient of a bigint, rounded down also below zero."""
    size = exp.Literal.number(divisor)
    rest = exp.Mod(this=number.copy(), expression=size.copy())
    positive = exp.Mod(this=_paren(exp.Add(this=_paren(rest), expression=size.copy())), expression=size.copy())
    return exp.IntDiv(this=_paren(exp.Sub(this=number, expression=_paren(positive))), expression=size)


def _escaped(like: exp.Expr, node: exp.Expr) -> exp.Expr:
    """A LIKE with Spark's escape character: DuckDB has none unless one is named."""
    if isinstance(node.parent, exp.Escape) or not _has_backslash(node.expression):
        return like
    return exp.Paren(this=exp.Escape(this=like, expression=exp.Literal.string("\\")))


def _regular(node: exp.RegexpLike | exp.RegexpExtract | exp.RegexpReplace) -> exp.Expr:
    """The same with the regular expression as RE2 has it, if it is known to mean the same."""
    pattern = node.expression
    found = translated(pattern.name) if isinstance(pattern, exp.Literal) and pattern.is_string else None
    if found is None or (found.has_end and not isinstance(node, exp.RegexpLike)):
        return node
    changed = node.copy()
    changed.set("expression", exp.Literal.string(found.text))
    return changed


def _contains(node: exp.ArrayContains) -> exp.Expr:
    """Whether a list has a value: null if it isn't found among values of which some are null."""
    values = node.this
    is_shorter = exp.LT(this=_call("LIST_COUNT", values), expression=_call("LEN", values))
    unknown = exp.or_(exp.Is(this=values.copy(), expression=exp.null()), is_shorter)
    branches = [exp.If(this=node.copy(), true=exp.true()), exp.If(this=unknown, true=exp.null())]
    return exp.Case(ifs=branches, default=exp.false())


def _is_zoned(type_: pa.DataType | None) -> bool:
    return type_ is not None and pa.types.is_timestamp(type_) and type_.tz is not None


def _digits(node: exp.Expr) -> exp.Expr:
    """The whole part of a number written as text, NULL for other text."""
    is_fraction = _call("REGEXP_MATCHES", node, exp.Literal.string(_FRACTION))
    return exp.Case(ifs=[exp.If(this=is_fraction, true=exp.Literal.string("0"))], default=_matched(node, _INTEGER))


def _matched(node: exp.Expr, pattern: str) -> exp.Expr:
    """The first group of a pattern that matches, "" if it doesn't."""
    return _call("REGEXP_EXTRACT", node, exp.Literal.string(pattern), exp.Literal.number(1))


def _is_places(decimals: exp.Expr | None) -> bool:
    """Whether so many digits after the point can be kept."""
    return decimals is None or (
        isinstance(decimals, exp.Literal) and decimals.name.isdigit() and int(decimals.name) <= MOST_DIGITS
    )


def _is_double(type_: pa.DataType | None) -> bool:
    return bool(type_ == pa.float64())


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
