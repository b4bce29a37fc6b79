"""From names to places: which row each column of an expression of MEASURES or DEFINE is read at.

FIRST, LAST, PREV, NEXT, RUNNING and FINAL are gone from a resolved expression, and the inside of its leaves is
row-local. Types haven't been checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from trimtab.engine.match.ir.expression import HERE, Place, Side
from trimtab.errors import QueryError
from trimtab.language.dialect import AGGREGATE_NAMES, Framed
from trimtab.language.marks import (
    HERE_NUMBER,
    AggregateCall,
    CallMark,
    LabelOf,
    Leaf,
    MatchNumberMark,
    ResolvedExpression,
    rebuilt,
)
from trimtab.language.merge import Context
from trimtab.language.mistakes import did_you_mean, listing, placed
from trimtab.language.oracle import check_node
from trimtab.language.relation import column
from trimtab.language.scope import Labels, Scope

LOGICAL = {"FIRST": Side.FIRST, "LAST": Side.LAST}
PHYSICAL = {"PREV": -1, "NEXT": 1}
SKIPPING_NULLS = frozenset(AGGREGATE_NAMES.values()) - {*("array_agg", "first_value", "last_value", "max_by", "min_by")}
MAX_OFFSET = 1 << 31
MAX_REMEMBERED = 1_000


def resolve_expression(
    scope: Scope, node: exp.Expr, *, label: int | None = None, one_row: bool = False
) -> ResolvedExpression:
    """The expression with places instead of names.

    `label` is the label under definition, None in MEASURES. `one_row`: measures are shown on the last row only, where
    RUNNING and FINAL are the same. Raises QueryError.
    """
    resolver = _Resolver(scope, label, one_row)
    tree = resolver.resolve(node)
    return ResolvedExpression(tree, tuple(resolver.places), tuple(resolver.aggregates), node)


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Resolves one expression; `places` and `aggregates` are the tables that its marks point into."""

    scope: Scope
    label: int | None
    one_row: bool
    places: dict[Place, int] = field(default_factory=lambda: {HERE: HERE_NUMBER})
    aggregates: list[AggregateCall] = field(default_factory=list)

    @property
    def context(self) -> Context:
        return self.scope.context

    def resolve(self, node: exp.Expr, frame: Framed | None = None) -> exp.Expr:
        final = frame is not None and frame.args["kind"] == "FINAL"
        if final and self.label is not None:
            message = "FINAL isn't allowed in DEFINE: the match isn't complete yet"
            raise self.context.error("query.final-define", message, frame, "leave FINAL out")
        name = call_name(node)
        if isinstance(node, Framed):
            return self._framed(node)
        if isinstance(node, exp.Filter):
            return self.resolve(self._unfiltered(node), frame)
        if name in LOGICAL or name in PHYSICAL:
            return placed(self._navigation(node, name, final), node)
        if name in AGGREGATE_NAMES:
            return placed(self._aggregate(node, AGGREGATE_NAMES[name], final), node)
        if name == "MATCH_NUMBER":
            self._count_args(node, 0, 0)
            return placed(MatchNumberMark(), node)
        if name == "CLASSIFIER" or isinstance(node, exp.Column):
            place = self._place(self._variables(node), Side.LAST)
            return placed(self._leaf(node, place), node)
        self._check(node)
        return rebuilt(node, self.resolve)

    def _framed(self, node: Framed) -> exp.Expr:
        inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
        name = call_name(inner)
        if name not in LOGICAL and name not in AGGREGATE_NAMES:
            raise self._misplaced_frame(node)
        return self.resolve(node.this, node)

    def _misplaced_frame(self, node: Framed) -> QueryError:
        message = f"{node.args['kind']} goes with FIRST, LAST or an aggregate"
        return self.context.error("query.nested", message, node, "as in FINAL LAST(A.price)")

    def _navigation(self, node: exp.Expr, name: str, final: bool) -> exp.Expr:
        self._count_args(node, 1, 2)
        args = node.expressions
        offset = self._offset(args[1]) if len(args) == 2 else 1 if name in PHYSICAL else 0
        if name in LOGICAL and offset > MAX_REMEMBERED:
            message = f"{name} counts at most {MAX_REMEMBERED} rows: a partial match remembers each of them"
            raise self.context.error("query.too-large", message, args[1], "PREV and NEXT count rows of the partition")
        inner = args[0]
        if name in LOGICAL:
            self._no_nesting(inner, name)
            place = self._place(self._variables(inner), LOGICAL[name], offset, final=final)
            return self._read(inner, place)
        shift = offset * PHYSICAL[name]
        framed = inner if isinstance(inner, Framed) else None
        call = inner.this if framed else inner
        if call_name(call) in LOGICAL:
            return self._moved(self.resolve(call, framed), shift)
        self._no_nesting(inner, name)
        return self._read(inner, self._place(self._variables(inner), Side.LAST, shift=shift))

    def _read(self, inner: exp.Expr, place: Place) -> exp.Expr:
        """The expression at a place: one leaf, or several around MATCH_NUMBER(), which isn't a value of a row."""
        if any(call_name(part) == "MATCH_NUMBER" for part in inner.walk()):
            return self._spread(inner, place)
        return self._leaf(inner, place)

    def _leaf(self, node: exp.Expr, place: Place) -> Leaf:
        return Leaf(this=self._bare(node), place=self.places.setdefault(place, len(self.places)))

    def _spread(self, node: exp.Expr, place: Place) -> exp.Expr:
        """The expression with each reference as a leaf of its own at the place."""
        if call_name(node) == "MATCH_NUMBER":
            return self.resolve(node)
        if call_name(node) == "CLASSIFIER" or isinstance(node, exp.Column):
            return placed(self._leaf(node, place), node)
        self._check(node)
        return rebuilt(node, lambda part: self._spread(part, place))

    def _moved(self, node: exp.Expr, shift: int) -> exp.Expr:
        """The resolved expression with its leaves moved by some rows."""
        if isinstance(node, Leaf):
            place = replace(list(self.places)[node.args["place"]], shift=shift)
            number = self.places.setdefault(self._normal(place), len(self.places))
            return placed(Leaf(this=node.this.copy(), place=number), node)
        if isinstance(node, MatchNumberMark):
            return node.copy()
        return rebuilt(node, lambda part: self._moved(part, shift))

    def _bare(self, node: exp.Expr) -> exp.Expr:
        """The row-local expression itself: columns by their own names, `LabelOf` for CLASSIFIER."""
        if isinstance(node, exp.Column):
            return placed(column(self.context.relation.find(node.this).name), node)
        if call_name(node) == "CLASSIFIER":
            return placed(LabelOf(), node)
        self._check(node)
        return rebuilt(node, self._bare)

    def _aggregate(self, node: exp.Expr, function: str, final: bool) -> exp.Expr:
        args = list(node.expressions) if isinstance(node, exp.Anonymous) else [node.this]
        if len(args) == 1 and isinstance(args[0], exp.Distinct):
            function, args = self._distinct(function, args[0])
        if function == "count" and len(args) == 1 and args[0].is_star:
            labels = self._qualifier(args[0])
            args = []
        else:
            least = 0 if function == "count" else 2 if function in ("max_by", "min_by") else 1
            self._count_args(node, least, max(least, 1), len(args))
            for arg in args:
                self._no_nesting(arg, "an aggregate")
            labels = self._variables(*args)
        spread = tuple(self._spread(arg, HERE) for arg in args)
        final = final and not self.one_row
        self.aggregates.append(AggregateCall(function, self.scope.normal(labels), spread, final, node))
        return CallMark(number=len(self.aggregates) - 1)

    def _unfiltered(self, node: exp.Filter) -> exp.Expr:
        """`sum(x) FILTER (WHERE c)` as the sum of x where c holds and of null elsewhere."""
        call = node.this
        function = AGGREGATE_NAMES.get(call_name(call), "")
        condition = node.expression.this
        args = call.expressions if isinstance(call, exp.Anonymous) else []
        starred = function == "count" and (not args or args[0].is_star)
        if function not in SKIPPING_NULLS or (len(args) != 1 and not starred):
            message = "FILTER goes with an aggregate that leaves nulls out"
            raise self.context.error("query.function", message, node, "as in sum(x) FILTER (WHERE y > 0)")
        value = exp.Literal.number(1) if starred else args[0]
        distinct = isinstance(value, exp.Distinct)
        kept: exp.Expr = exp.If(this=condition.copy(), true=(value.expressions[0] if distinct else value).copy())
        kept = exp.Distinct(expressions=[kept]) if distinct else kept
        return placed(exp.Anonymous(this=call.this, expressions=[kept]), call)

    def _distinct(self, function: str, node: exp.Distinct) -> tuple[str, list[exp.Expr]]:
        if function in ("min", "max"):
            return function, node.expressions
        if function != "count" or len(node.expressions) != 1:
            raise self.context.error("query.function", "DISTINCT goes with count of one argument", node.parent)
        return "count_distinct", node.expressions

    def _qualifier(self, node: exp.Expr) -> Labels:
        """The labels of `variable.column` or `variable.*`; all of them without a variable, or for the table's name."""
        qualifier = node.args.get("table")
        if qualifier is None:
            return None
        is_alias = qualifier.name.lower() in self.context.relation.aliases
        return None if is_alias and self.scope.find(qualifier) is None else self.scope.variable(qualifier)

    def _variables(self, *nodes: exp.Expr) -> Labels:
        """The one variable that the expressions are over. Raises QueryError `query.two-variables` at the second one."""
        found: list[Labels] = []
        for node in nodes:
            # The argument of CLASSIFIER is a variable, not a column.
            for part in node.walk(prune=lambda each: call_name(each) == "CLASSIFIER"):
                labels = self._variable_of(part)
                if labels is False:
                    continue
                if found and found[0] != labels:
                    message = "an expression reads one row, and so one variable: here are two"
                    hint = "navigate or aggregate each variable by itself"
                    raise self.context.error("query.two-variables", message, part, hint)
                found.append(labels)
        return found[0] if found else None

    def _variable_of(self, part: exp.Expr) -> Any:
        """The labels that a reference is over, False for any other node."""
        if isinstance(part, exp.Column):
            self._check(part.this)
            if part.args.get("db") is not None:
                raise self.context.error("query.column", "a column is written name or variable.name", part)
            return self._qualifier(part)
        if call_name(part) != "CLASSIFIER":
            return False
        self._count_args(part, 0, 1)
        if not part.expressions:
            return None
        argument = part.expressions[0]
        if not isinstance(argument, exp.Column) or argument.table:
            message = "CLASSIFIER takes a variable of the pattern, or nothing"
            raise self.context.error("query.variable", message, argument)
        return self.scope.variable(argument.this)

    def _check(self, node: exp.Expr) -> None:
        if isinstance(node, Framed):
            raise self._misplaced_frame(node)
        if isinstance(node, exp.AggFunc):
            known = sorted({name.lower() for name in AGGREGATE_NAMES})
            message = f"{node.sql_name().lower()} is not an aggregate that a pattern can compute"
            hint = did_you_mean(node.sql_name(), known, otherwise=f"there are {listing(known, 40)}")
            raise self.context.error("query.function", message, node, hint)
        check_node(self.context.sql, node)

    def _place(self, labels: Labels, side: Side, offset: int = 0, *, shift: int = 0, final: bool = False) -> Place:
        final = final and not self.one_row
        return self._normal(Place(self.scope.normal(labels), side, offset, shift, final))

    def _normal(self, place: Place) -> Place:
        """The place written in one way: in DEFINE the current row is the last of its label, so both become the same."""
        own = self.label is not None and place.labels is not None and self.label in place.labels
        if own and place.side is Side.LAST and place.offset == 0:
            return replace(place, labels=None)
        return place

    def _offset(self, node: exp.Expr) -> int:
        text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
        if not text.isdigit() or len(text) > 10 or int(text) >= MAX_OFFSET:
            message = "an offset is a whole number, written out and not negative"
            raise self.context.error("query.offset", message, node, "as in LAST(A.price, 1)")
        return int(text)

    def _no_nesting(self, inner: exp.Expr, outer: str) -> None:
        for part in inner.walk():
            name = call_name(part)
            if name in LOGICAL or name in PHYSICAL or name in AGGREGATE_NAMES:
                hint = "only PREV and NEXT take FIRST or LAST, as in PREV(LAST(A.price), 2)"
                raise self.context.error("query.nested", f"{name} isn't allowed inside {outer}", part, hint)

    def _count_args(self, node: exp.Expr, least: int, most: int, given: int | None = None) -> None:
        given = len(node.expressions) if given is None else given
        if least <= given <= most:
            return
        wanted = str(least) if least == most else f"{least} to {most}"
        message = f"{call_name(node)} takes {wanted} argument{'' if wanted == '1' else 's'}, not {given}"
        raise self.context.error("query.function", message, node)


def call_name(node: exp.Expr) -> str:
    """The upper-case name of a plain call, "" for any other node."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return "ANY" if isinstance(node, exp.Any) else ""
