"""Which expressions give the same over columns, by DuckDB, as in Spark: only those that are proven to.

`tests/spark/test_columnar.py` compares each of them with Spark, on values of all types with their edges. Whatever isn't
on the list takes the JVM's way. Left out because they differ, or because nobody has shown that they don't:

    reverse, initcap     DuckDB keeps a letter and its accents together; "word" means something else
    regular expressions  those that Java and RE2 read differently: `java_regex.py` knows the others
    decimals             quotients, and what may have more digits than DuckDB's results: Spark gives null then;
                         - and abs of more than 34 digits, which Spark rounds to so many
    floats as text       1.0E10 and 10000000000.0
    times as text        and text as times: Spark reads '2026-1-1', too
    exp, ln, pow         their last bit is up to a library
    rand, now, uuid      they aren't functions of the row; the language refuses them
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from trimtab.rowwise.columnar_calls import CALLS, NAMED, PASSED_OVER, Operand
from trimtab.rowwise.columnar_forms import (
    days_later,
    later,
    like,
    name_of,
    of_integers,
    part_of_time,
    regular,
    rounding,
    substring,
)
from trimtab.rowwise.operand_kinds import (
    INTEGERS,
    SMALL,
    ObstacleError,
    common,
    compared,
    computed,
    computed_of_parts,
    divided,
    is_exact,
    keeps_digits,
    kind_of_literal,
    remaining,
    times_number,
    unknown,
)
from trimtab.rowwise.types import plain

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_ARITHMETIC: dict[type[exp.Expr], Callable[[pa.DataType, pa.DataType], pa.DataType]] = {
    exp.Add: partial(computed, "+"),
    exp.Sub: partial(computed, "-"),
    exp.Mul: partial(computed, "*"),
    exp.Div: divided,
}
_SIGNS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_TYPES = exp.DataType.Type
_CASTS = {
    _TYPES.TINYINT: pa.int8(),
    _TYPES.SMALLINT: pa.int16(),
    _TYPES.INT: pa.int32(),
    _TYPES.BIGINT: pa.int64(),
    _TYPES.FLOAT: pa.float32(),
    _TYPES.DOUBLE: pa.float64(),
    _TYPES.TEXT: pa.string(),
    _TYPES.BOOLEAN: pa.bool_(),
    _TYPES.DATE: pa.date32(),
    _TYPES.TIMESTAMPNTZ: pa.timestamp("us"),
    _TYPES.TIMESTAMP: pa.timestamp("us", "UTC"),
    _TYPES.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _TYPES.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
}
_OF_TEXT = (pa.int32(), pa.int64(), pa.float64())
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
    >>> obstacle("reverse(s) = 'A'", schema)
    "reverse isn't known to give the same here as in Spark"
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
                if not isinstance(node.this, exp.Column) or self._nested(node.this) is None:
                    self.of(node.this)
                return pa.bool_()
            case exp.Is() if isinstance(node.expression, exp.Boolean):
                self._conditions([node.this])
                return pa.bool_()
            case exp.And() | exp.Or() | exp.Not():
                return self._logical(node)
            case exp.Like() | exp.ILike():
                return like(self.of, node, "\\")
            case exp.Escape() if isinstance(node.this, exp.Like | exp.ILike):
                return like(self.of, node.this, node.expression.name)
            case exp.RegexpLike() | exp.RegexpExtract() | exp.RegexpReplace():
                return regular(self.of, node)
            case exp.IntDiv():
                return of_integers(self.of, node, pa.int64())
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor():
                return of_integers(self.of, node, None)
            case exp.Bracket():
                if not _is_simple(kind := self._element(node)):
                    raise ObstacleError(f"{node.sql('spark')} is {kind}, with which only Spark computes")
                return kind
            case exp.ArraySize():
                self._list(node.this, "size")
                return SMALL
            case exp.ArrayContains():
                return self._contains(node)
            case exp.Round():
                return rounding(self.of, node)
            case exp.Nvl2():
                self.of(node.this)
                return self._same("nvl2", [node.args["true"], node.args["false"]])
            case exp.Extract() | exp.TimestampTrunc():
                return part_of_time(self.of, node)
            case exp.TsOrDsToDate():
                return self._cast_of(node.this, pa.date32())
            case exp.TsOrDsAdd() | exp.AddMonths():
                return days_later(self.of, node)
            case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
                return later(self.of, node)
            case exp.Mod():
                return remaining(self.of(node.this), self.of(node.expression))
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
                return self._same(name_of(node), [node.this, *node.expressions])
            case exp.Abs() | exp.Sqrt() | exp.IsNan():
                return self._of_number(node)
            case exp.Substring():
                return substring(self.of, node)
            case exp.Anonymous() if node.name.lower() in ("isnull", "isnotnull") and len(node.expressions) == 1:
                return self._found(exp.Is(this=node.expressions[0], expression=exp.null()))
            case exp.Cast():
                return self._cast(node)
        if (name := _COMPARISONS.get(type(node))) is not None:
            return compared(name, [self.of(node.this), self.of(node.expression)])
        if (result := _ARITHMETIC.get(type(node))) is not None:
            kinds = [self.of(node.this), self.of(node.expression)]
            given = (_SIGNS.get(type(node)), [node.this, node.expression], kinds)
            return computed_of_parts(*given) or times_number(*given) or result(*kinds)
        call = NAMED.get(node.name.lower()) if isinstance(node, exp.Anonymous) else CALLS.get(type(node))
        if call is not None:
            return self._call(node, *call)
        raise unknown(name_of(node))

    def _call(self, node: exp.Expr, operands: Mapping[str, Operand], result: pa.DataType) -> pa.DataType:
        """A function that takes each operand by itself."""
        passed_over, called = PASSED_OVER.get(type(node), ()), name_of(node)
        for name, given in node.args.items():
            is_name = name == "this" and isinstance(given, str)
            if given in (None, False) or name in passed_over or is_name:
                continue
            if (operand := operands.get(name)) is None:
                raise ObstacleError(f"{called} is written in a way that isn't known to give the same as in Spark")
            for part in given if isinstance(given, list) else [given]:
                # sqlglot writes year(x) as year(date(x))
                inner = part.this if isinstance(part, exp.TsOrDsToDate) else part
                if not operand.takes(kind := self.of(inner)):
                    raise unknown(f"{called} of {kind}")
                if not operand.is_written(inner):
                    raise ObstacleError(f"{called} has {operand.wants()}")
        return result

    def _column(self, node: exp.Column) -> pa.DataType:
        kind = self._kind_of(node)
        if not _is_simple(kind):
            raise ObstacleError(f"{node.name} is {kind}, with which only Spark computes")
        return kind

    def _kind_of(self, node: exp.Column) -> pa.DataType:
        names = self._schema.names
        at = next((i for i, name in enumerate(names) if name == node.name), None)
        if at is None:
            at = next((i for i, name in enumerate(names) if name.lower() == node.name.lower()), None)
        if at is None or node.table:
            raise ObstacleError(f"there is no column {node.sql('spark')}")
        return plain(self._schema.types[at])

    def _nested(self, node: exp.Expr) -> pa.DataType | None:
        """The type of structs, or of lists or maps of simple values; None: it is something else."""
        kind = self._kind_of(node) if isinstance(node, exp.Column) else pa.null()
        types = pa.types
        if isinstance(node, exp.Bracket) and (outer := self._nested(node.this)) is not None and types.is_struct(outer):
            kind = self._element(node)
        if types.is_struct(kind):
            return kind
        if types.is_list(kind) and _is_simple(plain(kind.value_type)):
            return kind
        is_map = types.is_map(kind) and _is_simple(plain(kind.key_type)) and _is_simple(plain(kind.item_type))
        return kind if is_map else None

    def _list(self, node: exp.Expr, name: str) -> pa.DataType:
        """The type of the values of a list."""
        kind = self._nested(node)
        if kind is None or not pa.types.is_list(kind):
            raise unknown(f"{name} of {node.sql('spark')}")
        return plain(kind.value_type)

    def _element(self, node: exp.Bracket) -> pa.DataType:
        kind, key, offset = self._nested(node.this), node.expressions[0], node.args.get("offset") or 0
        if kind is None or len(node.expressions) > 1:
            raise unknown(f"an element of {node.this.sql('spark')}")
        if pa.types.is_struct(kind):
            names = [
                each.name for each in kind if isinstance(key, exp.Literal) and each.name.lower() == key.name.lower()
            ]
            if len(names) != 1 or not key.is_string:
                raise ObstacleError(f"{kind} has not exactly one field {key.sql('spark')}")
            return plain(kind.field(names[0]).type)
        if pa.types.is_map(kind):
            if plain(kind.key_type) == pa.string() and isinstance(key, exp.Literal) and key.is_string:
                return plain(kind.item_type)
            raise ObstacleError("a map is asked for a key that isn't a text that is written out")
        number = key.this if isinstance(key, exp.Neg) and offset else key
        is_place = isinstance(number, exp.Literal) and number.name.isdigit() and int(number.name) + 1 > offset
        if not is_place or int(number.name) >= 1 << 31:
            raise ObstacleError("a list is asked for a place that isn't a number that is written out")
        return plain(kind.value_type)

    def _contains(self, node: exp.ArrayContains) -> pa.DataType:
        values, value = self._list(node.this, "array_contains"), node.expression
        kind = self.of(value)
        is_same = kind == values == pa.string() or (kind in INTEGERS and values in INTEGERS)
        if not is_same or not isinstance(value, exp.Literal):
            raise unknown(f"array_contains of {values} and {value.sql('spark')}")
        return pa.bool_()

    def _negative(self, node: exp.Neg) -> pa.DataType:
        if isinstance(node.this, exp.Literal) and node.this.name in _LOWEST:
            raise ObstacleError(f"-{node.this.name} has another type in Spark")
        kind = self.of(node.this)
        if kind in (*INTEGERS, pa.float32(), pa.float64()) or keeps_digits(kind):
            return kind
        raise unknown(f"- of {kind}")

    def _logical(self, node: exp.Expr) -> pa.DataType:
        self._conditions(list(node.iter_expressions()))
        return pa.bool_()

    def _conditions(self, parts: Sequence[exp.Expr]) -> None:
        for part in parts:
            if (kind := self.of(part)) not in (pa.bool_(), pa.null()):
                raise ObstacleError(f"{part.sql('spark')} is {kind}, and only Spark takes it for a condition")

    def _of_number(self, node: exp.Expr) -> pa.DataType:
        kind = self.of(node.this)
        is_known = kind == pa.float64() or (kind in INTEGERS and not isinstance(node, exp.IsNan))
        if not is_known and not (isinstance(node, exp.Abs) and keeps_digits(kind)):
            raise unknown(f"{name_of(node)} of {kind}")
        if isinstance(node, exp.IsNan):
            return pa.bool_()
        return kind if isinstance(node, exp.Abs) else pa.float64()

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
        wanted = _CASTS.get(node.to.this)
        if wanted is None or node.args.get("format"):
            raise unknown(f"CAST of {self.of(node.this)} to {node.to.sql('spark').lower()}")
        return self._cast_of(node.this, wanted, is_try=bool(node.args.get("safe")))

    def _cast_of(self, part: exp.Expr, wanted: pa.DataType, *, is_try: bool = False) -> pa.DataType:
        kind = self.of(part)
        if not _is_same_cast(kind, wanted) and (is_try or not _is_lossy_cast(kind, wanted)):
            raise unknown(f"CAST of {kind} to {wanted}")
        return wanted


def _is_same_cast(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if kind == wanted:
        return True
    if kind in INTEGERS:
        is_wider = wanted in INTEGERS and INTEGERS.index(wanted) >= INTEGERS.index(kind)
        return bool(is_wider or wanted in (pa.float32(), pa.float64(), pa.string(), pa.bool_()))
    if wanted == pa.float64():
        return bool(kind == pa.float32() or is_exact(kind))
    if pa.types.is_timestamp(kind):
        return bool(pa.types.is_timestamp(wanted) or wanted == pa.date32())
    return bool(kind == pa.bool_() and wanted in (pa.int32(), pa.int64(), pa.float64(), pa.string()))


def _is_lossy_cast(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast gives the same that is something else in TRY_CAST, where it doesn't fit."""
    if kind == pa.string():
        return wanted in _OF_TEXT
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return wanted in (pa.int64(), pa.float64())
    return kind in (pa.float32(), pa.float64()) and wanted in (pa.int32(), pa.int64())


def _is_simple(kind: pa.DataType) -> bool:
    """Whether values of the type are computed with."""
    types = pa.types
    if types.is_timestamp(kind):
        return bool(kind.unit == "us")
    simple = (*INTEGERS, pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.date32())
    return bool(types.is_decimal128(kind) or kind in simple)
