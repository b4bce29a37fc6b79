"""Where the same words mean something else in DuckDB: rewrite them so that the answer is Spark's.

sqlglot translates syntax and names; these are the differences in meaning that it leaves. One case
each.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from trimtab.language.types import TypeOf, infer, is_time

_WHOLE = (
    exp.DataType.Type.TINYINT,
    exp.DataType.Type.SMALLINT,
    exp.DataType.Type.INT,
    exp.DataType.Type.BIGINT,
)
_CASTS = frozenset({"TINYINT", "SMALLINT", "BIGINT", "FLOAT", "BOOLEAN"})
_ZERO = exp.Literal.number(0)


def as_spark(node: exp.Expr, type_of: TypeOf) -> exp.Expr:  # noqa: C901 - one case per difference
    """The node itself, or a new one that means in DuckDB what the node means in Spark.

    Operands are done already; `type_of` knows the columns.
    """
    match node:
        case exp.Mod() if not (isinstance(node.expression, exp.Literal) and node.expression.name.strip("0.")):
            # DuckDB makes NaN of a float's remainder by zero.
            divisor = exp.Nullif(this=exp.Paren(this=node.expression.copy()), expression=_ZERO.copy())
            return exp.Mod(this=node.this.copy(), expression=divisor)
        case exp.IntDiv():
            # DuckDB's // keeps the fraction of anything but integers.
            return exp.cast(_call("TRUNC", node), "bigint")
        case exp.Cast() if node.to.this in _WHOLE and _has_fraction(node.this, type_of):
            # DuckDB rounds to the nearest, Spark cuts the fraction off.
            return type(node)(this=_call("TRUNC", node.this), to=node.to.copy())
        case exp.Floor() | exp.Ceil() if len(list(node.iter_expressions())) == 1:
            return exp.TryCast(this=node.copy(), to=exp.DataType.build("bigint"))
        case exp.Ln():
            positive = exp.GT(this=node.this.copy(), expression=_ZERO.copy())
            return exp.Case(ifs=[exp.If(this=positive, true=node.copy())])
        case exp.Sqrt():
            negative = exp.LT(this=node.this.copy(), expression=_ZERO.copy())
            nan = exp.cast(exp.Literal.string("NaN"), "double")
            return exp.Case(ifs=[exp.If(this=negative, true=nan)], default=node.copy())
        case exp.DayOfWeek():
            # Sunday is 1 in Spark and 0 in DuckDB.
            return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
        case exp.TsOrDsAdd():
            # DuckDB makes a timestamp of a date and an interval.
            return exp.cast(node.copy(), "date")
        case exp.StrToUnix() if _is_time(node.this, type_of):
            return exp.cast(_call("EPOCH", node.this), "bigint")
        case exp.Anonymous():
            return _named(node)
    return node


def _named(node: exp.Anonymous) -> exp.Expr:
    """Functions of Spark's that sqlglot passes on by name."""
    name, args = node.name.upper(), node.expressions
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


def _call(name: str, argument: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[argument.copy()])


def _has_fraction(node: exp.Expr, type_of: TypeOf) -> bool:
    type_ = infer(node, type_of)
    return type_ is not None and bool(pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _is_time(node: exp.Expr, type_of: TypeOf) -> bool:
    type_ = infer(node, type_of)
    return type_ is not None and is_time(type_)
