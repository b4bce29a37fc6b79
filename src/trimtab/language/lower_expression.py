"""From a resolved expression to the engine's: hoist what is row-local, and write the rest as calls.

A condition that mixes places becomes `Call`s of the engine's own functions where it has them, and
an `Opaque` piece of DuckDB SQL where it doesn't.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.expression import Aggregate, Call, Const, Expr, Opaque
from trimtab.language.calls import result_type, with_fitting_constants
from trimtab.language.hoist import Hoister
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.intervals import amount
from trimtab.language.marks import CONSTANT, HERE_NUMBER, MIXED, Leaf, ResolvedExpression, marked_value, place_of
from trimtab.language.oracle import type_of
from trimtab.language.scope import Scope
from trimtab.rowwise import duck
from trimtab.rowwise.types import DURATION, is_number, plain

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "div", exp.Mod: "%", exp.Pow: "power",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.Nullif: "nullif",
}  # fmt: skip
# The engine calls these functions by the same names as sqlglot's keys.
_UNARY = (exp.Neg, exp.Abs, exp.Not, exp.Sqrt, exp.Exp, exp.Ln, exp.Floor, exp.Ceil)
_VARIADIC = (exp.Coalesce, exp.Greatest, exp.Least)
_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "<=>", "-")
_CASTS = {exp.DataType.Type.DOUBLE: "to_float", exp.DataType.Type.BIGINT: "to_int", exp.DataType.Type.INT: "to_int32"}


def lower_condition(columns: IntakeColumns, scope: Scope, resolved: ResolvedExpression, label: int) -> Expr:
    """The engine's expression for the condition of a label. Raises QueryError."""
    hoister = Hoister(columns, scope, resolved.places, label)
    return _Lowering(hoister, lower_aggregates(hoister, resolved), own_label=True).lower(resolved.tree)


def lower_aggregates(hoister: Hoister, resolved: ResolvedExpression) -> tuple[Aggregate, ...]:
    """The aggregates of an expression, lowered before the rest of it: intake columns are numbered in this order.

    Raises QueryError `query.type` for arguments that a function doesn't take.
    """
    # Inside an aggregate the current row is any row, and its label isn't known.
    lowering, found = _Lowering(hoister, (), own_label=False), list[Aggregate]()
    for call in resolved.aggregates:
        function, args = call.function, [lowering.lower(arg) for arg in call.args]
        if function == "count" and args and isinstance(args[0], Const):
            # count(0) counts rows: a constant is null either in all of them or in none.
            args = args if args[0].value is None else []
        type_ = aggregate_type(function, [arg.type for arg in args])
        if type_ is None:
            message = f"{function} doesn't take {args[0].type}"
            raise hoister.scope.context.error("query.type", message, call.written)
        found.append(Aggregate(function, call.labels, tuple(args), type_, call.final))
    return tuple(found)


def aggregate_type(function: str, args: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type of an aggregate as in Spark, None for arguments that it doesn't take."""
    if function in ("count", "count_distinct", "approx_count_distinct"):
        return pa.int64()
    arg = args[0]
    kind = plain(arg)
    number = is_number(kind) or kind == pa.null()
    if function in ("sum", "avg"):
        return _total_type(function, kind)
    if function in ("stddev_samp", "stddev_pop", "var_samp", "var_pop"):
        return pa.float64() if number else None
    if function in ("bool_and", "bool_or"):
        return pa.bool_() if kind in (pa.bool_(), pa.null()) else None
    if function in ("array_agg", "collect_list"):
        return pa.list_(arg)
    if function in ("min", "max", "min_by", "max_by") and pa.types.is_nested(plain(args[-1])):
        return None
    return arg


def _total_type(function: str, kind: pa.DataType) -> pa.DataType | None:
    if kind == DURATION:
        return DURATION
    if pa.types.is_decimal(kind):
        if function == "sum":
            return pa.decimal128(min(38, kind.precision + 10), kind.scale)
        return pa.decimal128(min(38, kind.precision + 4), min(kind.scale + 4, 38))
    if pa.types.is_integer(kind):
        return pa.int64() if function == "sum" else pa.float64()
    return pa.float64() if is_number(kind) or kind == pa.null() else None


@dataclass(frozen=True, slots=True)
class _Lowering:
    """Lowers trees of one resolved expression; `own_label` as in `Hoister.hoist`."""

    hoister: Hoister
    aggregates: tuple[Aggregate, ...]
    own_label: bool

    def lower(self, node: exp.Expr) -> Expr:
        place = place_of(node)
        if place == CONSTANT:
            return self.hoister.constant(node)
        if place == HERE_NUMBER or (place != MIXED and not _is_null_test(node)):
            return self._hoisted(node, place)
        return marked_value(node, self.aggregates) or self._mixed(node) or self._opaque(node)

    def _hoisted(self, node: exp.Expr, place: int) -> Expr:
        value = self.hoister.hoist(node, place, own_label=self.own_label)
        if pa.types.is_timestamp(value.type) and value.type.unit != "us":
            # The engine's arithmetic is in microseconds.
            node = _as_timestamp(node, value.type.tz)
            return self.hoister.hoist(node, place, own_label=self.own_label)
        if place == HERE_NUMBER and len(value.sources) == 1 and isinstance(value.sources[0], Const):
            return value.sources[0]
        return value

    def _mixed(self, node: exp.Expr) -> Expr | None:
        """A call for the node, None if the engine has no function for it."""
        kind = type(node)
        if kind in _BINARY:
            return self._binary(_BINARY[kind], node)
        if kind in _UNARY and not (node.args.get("decimals") or node.args.get("to")):
            return self._call(kind.key, [node.this])
        if kind in _VARIADIC:
            return self._call(kind.key, [node.this, *node.expressions])
        rules: dict[type[exp.Expr], Callable[[exp.Expr], Expr | None]] = {
            exp.Paren: lambda each: self.lower(each.this),
            exp.And: lambda each: self._connected("and", each),
            exp.Or: lambda each: self._connected("or", each),
            exp.Is: self._is,
            exp.NullSafeNEQ: self._distinct_from,
            exp.Between: self._between,
            exp.In: self._in,
            exp.If: self._if,
            exp.Case: self._case,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.DateDiff: self._date_difference,
            exp.TimestampDiff: self._time_difference,
        }
        rule = rules.get(kind)
        return rule(node) if rule else None

    def _call(self, function: str, nodes: Sequence[exp.Expr]) -> Expr | None:
        return _made(function, [self.lower(node) for node in nodes])

    def _binary(self, function: str, node: exp.Expr) -> Expr | None:
        sides = [node.this, node.expression]
        args = [self.lower(side) for side in sides]
        zones = [arg.type.tz for arg in args if pa.types.is_timestamp(arg.type)]
        if function in _COMPARED and zones:
            args = [
                self.lower(_as_timestamp(side, zones[0])) if pa.types.is_date(arg.type) else arg
                for side, arg in zip(sides, args, strict=True)
            ]
        return _made(function, args)

    def _connected(self, function: str, node: exp.Expr) -> Expr | None:
        """A chain of AND or OR; the terms that look at the same row are hoisted together."""
        kind = type(node)
        groups: dict[object, list[exp.Expr]] = {}
        for number, term in enumerate(_chain(node, kind)):
            place = place_of(term)
            alone = place in (CONSTANT, MIXED) or _is_null_test(term)
            groups.setdefault(("alone", number) if alone else ("at", place), []).append(term)
        terms = []
        for group in groups.values():
            joined = group[0]
            for term in group[1:]:
                joined = kind(this=_wrapped(joined), expression=_wrapped(term))
            terms.append(self.lower(joined))
        return terms[0] if len(terms) == 1 else _made(function, terms)

    def _is(self, node: exp.Expr) -> Expr | None:
        value = node.expression
        if isinstance(value, exp.Null):
            return self._call("is_null", [node.this])
        return self._call("<=>", [node.this, value]) if isinstance(value, exp.Boolean) else None

    def _distinct_from(self, node: exp.Expr) -> Expr | None:
        same = self._binary("<=>", node)
        return None if same is None else _made("not", [same])

    def _between(self, node: exp.Expr) -> Expr | None:
        if node.args.get("symmetric"):
            return None
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return self._call("and", [low, high])

    def _in(self, node: exp.Expr) -> Expr | None:
        if not node.expressions or set(node.args) - {"this", "expressions"}:
            return None
        return self._call("in", [node.this, *node.expressions])

    def _if(self, node: exp.Expr) -> Expr | None:
        return self._case(exp.Case(ifs=[node.copy()], default=node.args.get("false")))

    def _case(self, node: exp.Expr) -> Expr | None:
        ifs, otherwise = node.args["ifs"], node.args.get("default") or exp.null()
        conditions = [each.this for each in ifs]
        if node.this is not None:
            conditions = [exp.EQ(this=node.this.copy(), expression=c.copy()) for c in conditions]
        tests = [self.lower(condition) for condition in conditions]
        answers = with_fitting_constants([*(self.lower(each.args["true"]) for each in ifs), self.lower(otherwise)])
        type_ = result_type("case", [answer.type for answer in answers])
        if type_ is None or result_type("and", [test.type for test in tests]) is None:
            return None
        pairs = [part for pair in zip(tests, answers[:-1], strict=True) for part in pair]
        return Call("case", (*pairs, answers[-1]), type_)

    def _cast(self, node: exp.Expr) -> Expr | None:
        function = _CASTS.get(node.args["to"].this)
        inner = self.lower(node.this)
        if function is None or not is_number(plain(inner.type)):
            return None
        return _made(function, [inner])

    def _date_difference(self, node: exp.Expr) -> Expr | None:
        unit = node.args.get("unit")
        if unit is not None and unit.name.upper() != "DAY":
            return None
        return self._call("-", [node.this, node.expression])

    def _time_difference(self, node: exp.Expr) -> Expr | None:
        unit = amount("1", node.args["unit"].name) if node.args.get("unit") else None
        span = self._binary("-", node)
        if unit is None or span is None or span.type != DURATION:
            return None
        return _made("div", [span, Const(unit, DURATION)])

    def _opaque(self, node: exp.Expr) -> Expr:
        """The whole node as DuckDB SQL over its pieces."""
        args: list[Expr] = []

        def column(value: Expr) -> exp.Expr:
            args.append(value)
            return exp.column(f"arg{len(args)}")

        tree = self.hoister.over_columns(node, self.aggregates, self._hoisted, column)
        schema = pa.schema([(f"arg{i}", arg.type) for i, arg in enumerate(args, start=1)])
        type_ = type_of(self.hoister.scope.context.sql, tree, schema)
        sql = duck.translate_tree(tree, schema, lambda i: exp.Parameter(this=exp.Literal.number(i + 1)))
        return Opaque(sql, tuple(args), type_)


def _made(function: str, args: Sequence[Expr]) -> Expr | None:
    """The call, None if the engine's function doesn't take these arguments."""
    fitting = args if function in ("and", "or", "not", "is_null") else with_fitting_constants(args)
    type_ = result_type(function, [arg.type for arg in fitting])
    return None if type_ is None else Call(function, tuple(fitting), type_)


def _is_null_test(node: exp.Expr) -> bool:
    """`x IS NULL` of a bare value: the engine tests that without a column computed for it."""
    inner = node.this if isinstance(node, exp.Not) else node
    return isinstance(inner, exp.Is) and isinstance(inner.this, Leaf) and isinstance(inner.expression, exp.Null)


def _as_timestamp(node: exp.Expr, zone: str | None) -> exp.Expr:
    kind = "timestamp_ntz" if zone is None else "timestamp"
    return exp.cast(_wrapped(node), kind, dialect="spark")


def _wrapped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy())


def _chain(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The terms of a chain of the same connector, whatever parentheses are in it."""
    return [term for part in node.flatten() for term in _chain(part, kind)] if isinstance(node, kind) else [node]
