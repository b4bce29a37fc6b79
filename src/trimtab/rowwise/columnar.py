"""Which expressions give the same over columns, by DuckDB, as in Spark: only those that are proven to.

`tests/spark/test_columnar.py` compares each of them with Spark, on values of all types with their edges. Whatever isn't
on the list takes the JVM's way. Left out because they differ:

    upper, lower         Spark maps one letter to several (ß to SS) and knows the final ς, DuckDB maps one to one
    trim                 DuckDB takes all of Unicode's spaces off, Spark only the plain one
    reverse              DuckDB keeps a letter and its accents together
    regular expressions  Java's and RE2 are two languages
    decimals + - * /     their results have other precisions, and Spark gives null where one doesn't fit
    floats to integers   Spark takes the nearest that fits and 0 for NaN, where DuckDB has null; so do floor and ceil
    round                -0.0 is 0.0 in Spark
    abs of integers      the lowest has no opposite: Spark leaves it as it is, DuckDB fails; likewise its rest by -1
    floats as text       1.0E10 and 10000000000.0; and text as numbers, which the two trim otherwise
    exp, ln, pow         their last bit is up to a library
    text beside times    Spark reads '2026-1-1' as a time, too
    rand, now, uuid      they aren't functions of the row
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from trimtab.rowwise.operand_kinds import (
    INTEGERS,
    SMALL,
    ObstacleError,
    common,
    compared,
    computed,
    divided,
    is_exact,
    kind_of_literal,
    remaining,
    unknown,
)
from trimtab.rowwise.types import is_time, plain

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[type[exp.Expr], Callable[[pa.DataType, pa.DataType], pa.DataType]] = {
    exp.Add: partial(computed, "+"),
    exp.Sub: partial(computed, "-"),
    exp.Mul: partial(computed, "*"),
    exp.Div: divided,
}
_SEARCHES: dict[type[exp.Expr], str] = {
    exp.StartsWith: "startswith",
    exp.EndsWith: "endswith",
    exp.Contains: "contains",
}
_FIELDS: dict[type[exp.Expr], str] = {
    each: each.__name__.lower() for each in (exp.Year, exp.Month, exp.Day, exp.Hour, exp.Minute)
}
_TYPES = exp.DataType.Type
_CASTS = {
    _TYPES.TINYINT: pa.int8(),
    _TYPES.SMALLINT: pa.int16(),
    _TYPES.INT: pa.int32(),
    _TYPES.BIGINT: pa.int64(),
    _TYPES.FLOAT: pa.float32(),
    _TYPES.DOUBLE: pa.float64(),
    _TYPES.TEXT: pa.string(),
}
_MOMENTS = {
    _TYPES.DATE: pa.date32(),
    _TYPES.TIMESTAMPNTZ: pa.timestamp("us"),
    _TYPES.TIMESTAMP: pa.timestamp("us", "UTC"),
    _TYPES.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _TYPES.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_LOWEST = ("2147483648", "9223372036854775808")
"""With a minus in front, Spark reads these as numbers of fewer bits."""


@lru_cache(maxsize=4096)
def obstacle(text: str, schema: pa.Schema) -> str | None:
    """Why a Spark SQL expression over a table can't be computed column-wise; None: it can.

    >>> schema = pa.schema({"x": pa.int64(), "s": pa.string()})
    >>> obstacle("x + 1 > 3 AND s LIKE 'a%'", schema)
    >>> obstacle("upper(s) = 'A'", schema)
    "upper isn't known to give the same here as in Spark"
    """
    try:
        kinds_of(parse_one(text, read="spark"), schema)
    except ObstacleError as found:
        return str(found)
    except SqlglotError as error:
        return str(error).split("\n", 1)[0]
    return None


def kinds_of(tree: exp.Expr, schema: pa.Schema) -> dict[int, pa.DataType]:
    """The type that Spark gives each part of an expression that has no obstacle, by the id of its node."""
    kinds = _Kinds(schema)
    kinds.of(tree)
    return kinds.known


class _Kinds:
    """Finds the types of an expression's parts, and raises ObstacleError for what isn't on the list."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema, self.known = schema, dict[int, pa.DataType]()

    def of(self, node: exp.Expr) -> pa.DataType:
        """The type of a part."""
        kind = self._found(node)
        self.known[id(node)] = kind
        return kind

    def _found(self, node: exp.Expr) -> pa.DataType:  # noqa: C901 - one case for each expression on the list
        match node:
            case exp.Paren():
                return self.of(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return kind_of_literal(node)
            case exp.Boolean():
                return pa.bool_()
            case exp.Null():
                return pa.null()
            case exp.Neg():
                return self._negative(node)
            case exp.In() if node.expressions:
                return compared("IN", [self.of(part) for part in (node.this, *node.expressions)])
            case exp.Between() if not node.args.get("symmetric"):
                return compared("BETWEEN", [self.of(node.this), self.of(node.args["low"]), self.of(node.args["high"])])
            case exp.Is() if isinstance(node.expression, exp.Null):
                self.of(node.this)
                return pa.bool_()
            case exp.And() | exp.Or() | exp.Not():
                return self._logical(node)
            case exp.Like() if not isinstance(node.parent, exp.Escape):
                return self._like(node)
            case exp.Mod():
                return remaining(self.of(node.this), self.of(node.expression), node.expression)
            case exp.Case():
                branches, default = node.args["ifs"], node.args.get("default")
                if node.this is None:
                    self._conditions([branch.this for branch in branches])
                else:
                    compared("CASE", [self.of(part) for part in (node.this, *(branch.this for branch in branches))])
                return self._same(
                    "CASE", [*(branch.args["true"] for branch in branches), *([default] if default else [])]
                )
            case exp.If():
                self._conditions([node.this])
                default = node.args.get("false")
                return self._same("if", [node.args["true"], *([default] if default else [])])
            case exp.Coalesce():
                return self._same("coalesce", [node.this, *node.expressions])
            case exp.Nullif():
                return self._same("nullif", [node.this, node.expression])
            case exp.Greatest() | exp.Least():
                return self._same(_name(node), [node.this, *node.expressions])
            case exp.Abs() | exp.Sqrt() | exp.IsNan():
                return self._of_float(node)
            case exp.Length():
                return self._text("length", [node.this], SMALL)
            case exp.Concat() if not node.args.get("coalesce"):
                return self._text("concat", node.expressions, pa.string())
            case exp.Substring():
                return self._substring(node)
            case exp.DPipe():
                return self._text("||", [node.this, node.expression], pa.string())
            case exp.Cast():
                return self._cast(node)
        if (name := _COMPARISONS.get(type(node))) is not None:
            return compared(name, [self.of(node.this), self.of(node.expression)])
        if (result := _ARITHMETIC.get(type(node))) is not None:
            return result(self.of(node.this), self.of(node.expression))
        if (name := _SEARCHES.get(type(node))) is not None:
            return self._text(name, [node.this, node.expression], pa.bool_())
        if (name := _FIELDS.get(type(node))) is not None:
            return self._field(name, node.this)
        raise unknown(_name(node))

    def _column(self, node: exp.Column) -> pa.DataType:
        names = self._schema.names
        at = next((i for i, name in enumerate(names) if name == node.name), None)
        if at is None:
            at = next((i for i, name in enumerate(names) if name.lower() == node.name.lower()), None)
        if at is None or node.table:
            raise ObstacleError(f"there is no column {node.sql('spark')}")
        kind = plain(self._schema.types[at])
        types = pa.types
        if types.is_timestamp(kind) and kind.unit == "us":
            return kind
        is_decimal = types.is_decimal128(kind)
        if is_decimal or kind in (*INTEGERS, pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.date32()):
            return kind
        raise ObstacleError(f"{node.name} is {kind}, with which only Spark computes")

    def _negative(self, node: exp.Neg) -> pa.DataType:
        if isinstance(node.this, exp.Literal) and node.this.name in _LOWEST:
            raise ObstacleError(f"-{node.this.name} has another type in Spark")
        kind = self.of(node.this)
        if kind in (*INTEGERS, pa.float32(), pa.float64()) or pa.types.is_decimal(kind):
            return kind
        raise unknown(f"- of {kind}")

    def _logical(self, node: exp.Expr) -> pa.DataType:
        self._conditions(list(node.iter_expressions()))
        return pa.bool_()

    def _conditions(self, parts: Sequence[exp.Expr]) -> None:
        for part in parts:
            if (kind := self.of(part)) not in (pa.bool_(), pa.null()):
                raise ObstacleError(f"{part.sql('spark')} is {kind}, and only Spark takes it for a condition")

    def _like(self, node: exp.Like) -> pa.DataType:
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.name):
            raise ObstacleError("LIKE has a pattern that isn't a plain text, or that has a backslash")
        return self._text("LIKE", [node.this, pattern], pa.bool_())

    def _text(self, name: str, parts: Sequence[exp.Expr], result: pa.DataType) -> pa.DataType:
        for part in parts:
            if (kind := self.of(part)) != pa.string():
                raise unknown(f"{name} of {kind}")
        return result

    def _of_float(self, node: exp.Expr) -> pa.DataType:
        if (kind := self.of(node.this)) != pa.float64():
            raise unknown(f"{_name(node)} of {kind}")
        return pa.bool_() if isinstance(node, exp.IsNan) else kind

    def _field(self, name: str, part: exp.Expr) -> pa.DataType:
        inner = part.this if isinstance(part, exp.TsOrDsToDate) else part  # sqlglot writes year(x) as year(date(x))
        if not is_time(kind := self.of(inner)):
            raise unknown(f"{name} of {kind}")
        return SMALL

    def _substring(self, node: exp.Substring) -> pa.DataType:
        start, length = node.args.get("start"), node.args.get("length")
        for part in (start, length):
            if part is not None and not (isinstance(part, exp.Literal) and part.name.isdigit()):
                raise ObstacleError("substring has a place or a length that isn't a plain number from 1 on")
        if start is None or not int(start.name):
            raise ObstacleError("substring has a place or a length that isn't a plain number from 1 on")
        return self._text("substring", [node.this], pa.string())

    def _same(self, name: str, parts: Sequence[exp.Expr]) -> pa.DataType:
        return common(name, [self.of(part) for part in parts])

    def _cast(self, node: exp.Cast) -> pa.DataType:
        literal = node.this
        if (
            isinstance(literal, exp.Literal)
            and literal.is_string
            and (moment := _MOMENTS.get(node.to.this)) is not None
        ):
            if (_DATE if moment == pa.date32() else _TIME).fullmatch(literal.name):
                return moment
            raise ObstacleError(f"{literal.sql('spark')} isn't a time as YYYY-MM-DD hh:mm:ss, or a date as YYYY-MM-DD")
        kind, wanted = self.of(node.this), _CASTS.get(node.to.this)
        if wanted is None or node.args.get("format") or not _is_same_cast(kind, wanted):
            raise unknown(f"CAST of {kind} to {node.to.sql('spark').lower()}")
        return wanted


def _is_same_cast(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if kind == wanted:
        return True
    if kind in INTEGERS:
        is_wider = wanted in INTEGERS and INTEGERS.index(wanted) >= INTEGERS.index(kind)
        return bool(is_wider or wanted in (pa.float32(), pa.float64(), pa.string()))
    if wanted == pa.float64():
        return bool(kind == pa.float32() or is_exact(kind))
    return bool(kind == pa.bool_() and wanted in (pa.int32(), pa.string()))


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key
