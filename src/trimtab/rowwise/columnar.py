"""Which expressions give the same over columns, by DuckDB, as in Spark: only those that are proven to.

`tests/spark/test_columnar.py` compares each of them with Spark, on values of all types with their edges. Whatever isn't
on the list takes the JVM's way. Left out because they differ:

    upper, lower        Spark maps one letter to several (ß to SS), DuckDB one to one
    decimals + - *      their results have other precisions, and Spark gives null where one doesn't fit
    /, %, division      of decimals as above, and a remainder of floats by zero
    floats to integers  Spark takes the nearest that fits, where DuckDB fails
    numbers as text     1.0E10 in Spark is 10000000000.0 in DuckDB; and text as numbers, which the two trim otherwise
    substring from -n   beyond the first letter
    text and times      Spark reads '2026-1-1' and 'now' as times
    rand, now, uuid     they aren't functions of the row
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from trimtab.rowwise.types import literal_type, plain

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = dict(zip(INTEGERS, (3, 5, 10, 19), strict=True))
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_CASTS = {
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: pa.float64(),
}
_LOWEST = ("2147483648", "9223372036854775808")
"""With a minus in front, Spark reads these as numbers of fewer bits."""
_EXACT_DIGITS = 15
"""Decimals of up to this many digits are the same double everywhere."""
_MAX_DIGITS = 38
LENGTH = pa.uint32()
"""Stands for the type of a length, an int in Spark and a bigint in DuckDB: it can be compared, and nothing else."""


class _ObstacleError(Exception):
    """Why an expression can't be computed here."""


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
    except _ObstacleError as found:
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
    """Finds the types of an expression's parts, and raises _ObstacleError for what isn't on the list."""

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
                return _literal(node)
            case exp.Boolean():
                return pa.bool_()
            case exp.Null():
                return pa.null()
            case exp.Neg():
                return self._negative(node)
            case exp.In() if node.expressions:
                return _compared("IN", [self.of(part) for part in (node.this, *node.expressions)])
            case exp.Between() if not node.args.get("symmetric"):
                return _compared("BETWEEN", [self.of(node.this), self.of(node.args["low"]), self.of(node.args["high"])])
            case exp.Is() if isinstance(node.expression, exp.Null):
                self.of(node.this)
                return pa.bool_()
            case exp.And() | exp.Or() | exp.Not():
                return self._logical(node)
            case exp.Like() if not isinstance(node.parent, exp.Escape):
                return self._like(node)
            case exp.Case() if node.this is None:
                branches = node.args["ifs"]
                self._conditions([branch.this for branch in branches])
                default = node.args.get("default")
                return self._same(
                    "CASE", [*(branch.args["true"] for branch in branches), *([default] if default else [])]
                )
            case exp.If():
                self._conditions([node.this])
                default = node.args.get("false")
                return self._same("if", [node.args["true"], *([default] if default else [])])
            case exp.Coalesce():
                return self._same("coalesce", [node.this, *node.expressions])
            case exp.Length():
                return self._text("length", [node.this], LENGTH)
            case exp.Substring():
                return self._substring(node)
            case exp.DPipe():
                return self._text("||", [node.this, node.expression], pa.string())
            case exp.Cast():
                return self._cast(node)
        if (name := _COMPARISONS.get(type(node))) is not None:
            return _compared(name, [self.of(node.this), self.of(node.expression)])
        if (name := ARITHMETIC.get(type(node))) is not None:
            return _arithmetic(name, self.of(node.this), self.of(node.expression))
        raise _ObstacleError(f"{_name(node)} isn't known to give the same here as in Spark")

    def _column(self, node: exp.Column) -> pa.DataType:
        names = self._schema.names
        at = next((i for i, name in enumerate(names) if name == node.name), None)
        if at is None:
            at = next((i for i, name in enumerate(names) if name.lower() == node.name.lower()), None)
        if at is None or node.table:
            raise _ObstacleError(f"there is no column {node.sql('spark')}")
        kind = plain(self._schema.types[at])
        types = pa.types
        if types.is_timestamp(kind) and kind.unit == "us":
            return kind
        is_decimal = types.is_decimal128(kind)
        if is_decimal or kind in (*INTEGERS, pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.date32()):
            return kind
        raise _ObstacleError(f"{node.name} is {kind}, with which only Spark computes")

    def _negative(self, node: exp.Neg) -> pa.DataType:
        if isinstance(node.this, exp.Literal) and node.this.name in _LOWEST:
            raise _ObstacleError(f"-{node.this.name} has another type in Spark")
        kind = self.of(node.this)
        if kind in (*INTEGERS, pa.float32(), pa.float64()) or pa.types.is_decimal(kind):
            return kind
        raise _ObstacleError(f"- of {kind} isn't known to give the same here as in Spark")

    def _logical(self, node: exp.Expr) -> pa.DataType:
        self._conditions(list(node.iter_expressions()))
        return pa.bool_()

    def _conditions(self, parts: Sequence[exp.Expr]) -> None:
        for part in parts:
            if (kind := self.of(part)) not in (pa.bool_(), pa.null()):
                raise _ObstacleError(f"{part.sql('spark')} is {kind}, and only Spark takes it for a condition")

    def _like(self, node: exp.Like) -> pa.DataType:
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string and "\\" not in pattern.name):
            raise _ObstacleError("LIKE has a pattern that isn't a plain text, or that has a backslash")
        return self._text("LIKE", [node.this, pattern], pa.bool_())

    def _text(self, name: str, parts: Sequence[exp.Expr], result: pa.DataType) -> pa.DataType:
        for part in parts:
            if (kind := self.of(part)) != pa.string():
                raise _ObstacleError(f"{name} of {kind} isn't known to give the same here as in Spark")
        return result

    def _substring(self, node: exp.Substring) -> pa.DataType:
        start, length = node.args.get("start"), node.args.get("length")
        for part in (start, length):
            if part is not None and not (isinstance(part, exp.Literal) and part.name.isdigit()):
                raise _ObstacleError("substring has a place or a length that isn't a plain number from 1 on")
        if start is None or not int(start.name):
            raise _ObstacleError("substring has a place or a length that isn't a plain number from 1 on")
        return self._text("substring", [node.this], pa.string())

    def _same(self, name: str, parts: Sequence[exp.Expr]) -> pa.DataType:
        """The type that all parts have; of integers the widest."""
        kinds = {kind for part in parts if (kind := self.of(part)) != pa.null()}
        if kinds and kinds <= set(INTEGERS):
            return max(kinds, key=INTEGERS.index)
        if len(kinds) == 1 and LENGTH not in kinds:
            return kinds.pop()
        raise _ObstacleError(f"{name} has results of several types, or of none that is known to be the same in Spark")

    def _cast(self, node: exp.Cast) -> pa.DataType:
        kind, wanted = self.of(node.this), _CASTS.get(node.to.this)
        widens = kind in INTEGERS and wanted in INTEGERS and INTEGERS.index(wanted) >= INTEGERS.index(kind)
        is_float = wanted == pa.float64() and kind in (*INTEGERS, pa.float32(), pa.float64())
        if wanted is None or node.args.get("format") or not (widens or is_float or wanted == kind):
            target = node.to.sql("spark").lower()
            raise _ObstacleError(f"CAST of {kind} to {target} isn't known to give the same here as in Spark")
        return wanted


def _literal(node: exp.Literal) -> pa.DataType:
    kind = literal_type(node)
    if kind is None or (pa.types.is_decimal(kind) and kind.precision > _EXACT_DIGITS):
        raise _ObstacleError(f"{node.sql('spark')} has more digits than are known to be read the same")
    return kind


def _compared(name: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    known = [kind for kind in kinds if kind != pa.null()]
    for left in known:
        for right in known:
            if left != right and not _are_comparable(left, right):
                raise _ObstacleError(f"{name} of {left} and {right} isn't known to give the same here as in Spark")
    return pa.bool_()


def _are_comparable(left: pa.DataType, right: pa.DataType) -> bool:
    whole = (*INTEGERS, LENGTH)
    if left in whole and right in whole:
        return True
    if pa.float64() in (left, right):
        return all(kind in (*INTEGERS, pa.float64()) or _is_exact(kind) for kind in (left, right))
    sizes = [_size(kind) for kind in (left, right)]
    return all(size[0] >= 0 for size in sizes) and max(s[0] for s in sizes) + max(s[1] for s in sizes) <= _MAX_DIGITS


def _size(kind: pa.DataType) -> tuple[int, int]:
    """How many digits there are before and after the point; -1 before it: the type has none."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return _DIGITS.get(kind, -1), 0


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.precision <= _EXACT_DIGITS)


def _arithmetic(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    kinds = (left, right)
    if all(kind in INTEGERS for kind in kinds):
        return max(kinds, key=INTEGERS.index)
    if pa.float64() in kinds and all(kind in (*INTEGERS, pa.float64()) or _is_exact(kind) for kind in kinds):
        return pa.float64()
    if left == right == pa.float32():
        return left
    raise _ObstacleError(f"{name} of {left} and {right} isn't known to give the same here as in Spark")


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key
