"""MATCH_RECOGNIZE: check its clauses against each other and build what the engine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.expression import Const, Expr, MatchNumber, Side
from trimtab.engine.match.ir.query import (
    MatchQuery,
    Rows,
    Skip,
    SkipPastLast,
    SkipTo,
    SkipToNext,
)
from trimtab.language.context import Context
from trimtab.language.dialect import Define, MatchRecognize
from trimtab.language.dialect import Skip as SkipClause
from trimtab.language.hoist import Hoister
from trimtab.language.keys import order_columns, partition_columns
from trimtab.language.lower import Lowerer
from trimtab.language.measures import Slots, measure_definitions, null_if_unmatched
from trimtab.language.oracle import type_of
from trimtab.language.patterns import ParsedPattern, parse_pattern
from trimtab.language.relation import Definition, Relation, column, substitute
from trimtab.language.resolve import Resolver
from trimtab.language.scope import Scope, make_scope
from trimtab.language.within import check_event_time, within_us
from trimtab.rowwise.types import is_time


@dataclass(frozen=True, slots=True)
class Matched:
    """The operator before it is known which input columns are asked for, and its output.

    The output's base has the input columns as `__k0`, `__k1` ... and the slots.
    """

    operator: MatchQuery
    output: Relation
    inputs: tuple[str, ...]

    def keeping(self, context: Context, output: Relation) -> tuple[MatchQuery, Relation]:
        """The operator that keeps the columns which `output`, made of this one's, is made of."""
        used = {name.name for root in _roots(output) for name in root.find_all(exp.Column)}
        names = {
            f"__k{i}": context.add(column(name))
            for i, name in enumerate(self.inputs)
            if f"__k{i}" in used or (self.operator.rows is Rows.ONE and name in self.operator.partition)
        }

        def renamed(node: exp.Expr) -> exp.Expr:
            return substitute(node, lambda c: column(names[c.name]) if c.name in names else None)

        definitions = tuple(replace(each, expression=renamed(each.expression)) for each in output.definitions)
        where = None if output.where is None else renamed(output.where)
        keep = tuple(dict.fromkeys(names.values()))
        # Without any column a table has no rows either: constants alone still need to know how
        # many.
        slots = self.operator.slots or (() if keep else (MatchNumber(),))
        operator = replace(self.operator, keep=keep, slots=slots)
        return operator, replace(output, definitions=definitions, where=where)


def _roots(output: Relation) -> list[exp.Expr]:
    where = [output.where] if output.where is not None else []
    return [each.expression for each in output.definitions] + where


def compile_match(context: Context, node: MatchRecognize, patterns: Mapping[int, str]) -> Matched:
    """Compile the clause; `patterns` are the texts that were cut out, by offset."""
    parsed = _pattern(context, node, patterns)
    scope = make_scope(context, parsed.labels, node.args.get("subset") or ())
    rows = Rows(node.args["rows"].name) if node.args.get("rows") else Rows.ONE
    if rows is Rows.ALL_WITH_UNMATCHED and parsed.exclusion:
        message = "a pattern with {- -} can't be shown WITH UNMATCHED ROWS"
        hint = "use SHOW EMPTY MATCHES or OMIT EMPTY MATCHES"
        raise context.error("query.exclusion-unmatched", message, parsed.exclusion, hint)
    partition = partition_columns(context, node.args.get("partition_by") or ())
    ordered = node.args["order"].expressions if node.args.get("order") else []
    order, keys = order_columns(context, ordered)
    check_event_time(context, order, ordered, node)
    conditions = _conditions(scope, node.args.get("define") or ())
    slots = Slots()
    measures = _measures(scope, rows, node, slots)
    operator = MatchQuery(
        labels=scope.shown,
        pattern=parsed.pattern,
        conditions=conditions,
        slots=tuple(slots.found),
        rows=rows,
        skip=_skip(scope, node.args.get("skip")),
        partition=tuple(context.add(column(each.name)) for each in partition),
        order=keys,
        keep=(),
        time_column=keys[0].column if order and is_time(order[0].type) else None,
        within_us=within_us(context, node, parsed, order, ordered),
    )
    output = _output(context, rows, node, [partition, order], measures, slots)
    return Matched(operator, output, tuple(each.name for each in context.relation.definitions))


def _pattern(context: Context, node: MatchRecognize, patterns: Mapping[int, str]) -> ParsedPattern:
    place = node.args.get("pattern")
    if place is None:
        message = "MATCH_RECOGNIZE needs a PATTERN"
        raise context.error("query.pattern-empty", message, node_start(node), "as in PATTERN (A B+)")
    start = int(place.name)
    return parse_pattern(context.sql, start, patterns.get(start, ""))


def node_start(node: exp.Expr) -> tuple[int, int]:
    """The first word of a clause."""
    return node.meta["start"], node.meta["end"] + 1


def _conditions(scope: Scope, defines: Sequence[Define]) -> tuple[Expr | None, ...]:
    found: dict[int, Expr | None] = {}
    for define in defines:
        name = define.this
        label = scope.number(name)
        if label is None:
            message = f"{name.name} is defined but not in the pattern"
            raise scope.context.error("query.define-unused", message, name, scope.hint(name.name))
        if label in found:
            message = f"{name.name} is defined twice"
            raise scope.context.error("query.define-duplicate", message, name, "join them with AND")
        found[label] = _condition(scope, label, define.args["condition"])
    return tuple(found.get(label) for label in range(len(scope.labels)))


def _condition(scope: Scope, label: int, node: exp.Expr) -> Expr | None:
    lowerer = Lowerer(Hoister(scope, label))
    resolver = Resolver(scope.context, scope, lowerer.aggregate, label)
    condition = lowerer.lower(resolver.resolve(node))
    if condition.type not in (pa.bool_(), pa.null()):
        message = f"DEFINE needs a condition, this is {condition.type}"
        raise scope.context.error("query.type", message, node, "compare it with something")
    if isinstance(condition, Const):
        return None if condition.value is True else Const(False, pa.bool_())
    return condition


def _measures(scope: Scope, rows: Rows, node: MatchRecognize, slots: Slots) -> list[tuple[str, exp.Expr]]:
    lowerer = Lowerer(Hoister(scope))
    one_row = rows is Rows.ONE
    resolver = Resolver(scope.context, scope, lowerer.aggregate, one_row=one_row)
    found = measure_definitions(scope, resolver, node.args.get("measures") or (), slots)
    if rows is not Rows.ALL_WITH_UNMATCHED:
        return found
    return [(name, null_if_unmatched(tree, slots)) for name, tree in found]


def _skip(scope: Scope, node: SkipClause | None) -> Skip:
    if node is None or node.args["kind"] == "PAST LAST ROW":
        return SkipPastLast()
    if node.args["kind"] == "TO NEXT ROW":
        return SkipToNext()
    labels = scope.find(node.this)
    if labels is None:
        name = node.this.name
        message = f"the pattern has no variable {name} to skip to"
        raise scope.context.error("query.skip-target", message, node.this, scope.hint(name))
    return SkipTo(Side[node.args["kind"]], labels, node.this.name)


def _output(
    context: Context,
    rows: Rows,
    node: MatchRecognize,
    leading: Sequence[Sequence[Definition]],
    measures: Sequence[tuple[str, exp.Expr]],
    slots: Slots,
) -> Relation:
    """The columns in ISO's order: partition, (order,) measures (, the rest of the input)."""
    inputs = context.relation.definitions
    base = pa.schema([*((f"__k{i}", each.type) for i, each in enumerate(inputs)), *slots.schema])

    def kept(each: Definition) -> Definition:
        return replace(each, expression=exp.column(f"__k{inputs.index(each)}"))

    partition, order = leading
    first = list(dict.fromkeys(each.name for each in (partition if rows is Rows.ONE else [*partition, *order])))
    by_name = {each.name: each for each in inputs}
    columns = [kept(by_name[name]) for name in first]
    columns += [Definition(name, tree, type_of(context.sql, tree, base)) for name, tree in measures]
    if rows is not Rows.ONE:
        columns += [kept(each) for each in inputs if each.name not in first]
    alias = node.args.get("alias")
    aliases = frozenset({alias.name.lower()}) if alias and alias.name else context.relation.aliases
    return Relation(context.sql, base, tuple(columns), aliases=aliases)
