"""MATCH_RECOGNIZE, lowered: what the engine runs, and the columns of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.expression import Const, Expr
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.keys import add_order, add_partition
from trimtab.language.lower_expression import lower_expression
from trimtab.language.marks import ResolvedExpression
from trimtab.language.measures import MeasureSlots, lower_measure, null_if_unmatched
from trimtab.language.merge import Context
from trimtab.language.oracle import type_of
from trimtab.language.relation import Definition, Relation
from trimtab.language.resolve_match import ResolvedMatch
from trimtab.language.scope import Scope
from trimtab.rowwise.types import is_time


def lower_match(context: Context, columns: IntakeColumns, match: ResolvedMatch) -> tuple[MatchQuery, Relation]:
    """The operator, and its output.

    Which input columns the SELECTs around it use isn't known yet: the output's base has all of them, as `__k0`,
    `__k1` ..., and the operator keeps none.

    Raises QueryError `query.type` or `query.function`.
    """
    order = add_order(columns, match.order)
    conditions = {
        label: _condition(columns, match.scope, label, resolved) for label, resolved in match.conditions.items()
    }
    slots = MeasureSlots()
    measures = _measures(columns, match, slots)
    operator = MatchQuery(
        labels=match.scope.shown,
        pattern=match.pattern,
        conditions=tuple(conditions.get(label) for label in range(len(match.scope.labels))),
        slots=tuple(slots.found),
        rows=match.rows,
        skip=match.skip,
        partition=add_partition(columns, match.partition),
        order=order,
        keep=(),
        time_column=order[0].column if order and is_time(match.order[0].definition.type) else None,
        within_us=match.within_us,
    )
    return operator, _output(context, match, measures, slots)


def _condition(columns: IntakeColumns, scope: Scope, label: int, resolved: ResolvedExpression) -> Expr | None:
    condition = lower_expression(columns, scope, resolved, label)
    if condition.type not in (pa.bool_(), pa.null()):
        message = f"DEFINE needs a condition, this is {condition.type}"
        raise scope.context.error("query.type", message, resolved.written, "compare it with something")
    if isinstance(condition, Const):
        return None if condition.value is True else Const(False, pa.bool_())
    return condition


def _measures(columns: IntakeColumns, match: ResolvedMatch, slots: MeasureSlots) -> list[tuple[str, exp.Expr]]:
    found = [(name, lower_measure(columns, match.scope, resolved, slots)) for name, resolved in match.measures]
    if match.rows is not Rows.ALL_WITH_UNMATCHED:
        return found
    return [(name, null_if_unmatched(tree, slots)) for name, tree in found]


def _output(
    context: Context, match: ResolvedMatch, measures: Sequence[tuple[str, exp.Expr]], slots: MeasureSlots
) -> Relation:
    """The columns in ISO's order: partition, (order,) measures (, the rest of the input)."""
    inputs = context.relation.definitions
    base = pa.schema([*((f"__k{i}", each.type) for i, each in enumerate(inputs)), *slots.schema])

    def kept(each: Definition) -> Definition:
        return replace(each, expression=exp.column(f"__k{inputs.index(each)}"))

    one_row = match.rows is Rows.ONE
    leading = [*match.partition, *(() if one_row else (each.definition for each in match.order))]
    first = list(dict.fromkeys(each.name for each in leading))
    by_name = {each.name: each for each in inputs}
    found = [kept(by_name[name]) for name in first]
    found += [Definition(name, tree, type_of(context.sql, tree, base)) for name, tree in measures]
    if not one_row:
        found += [kept(each) for each in inputs if each.name not in first]
    return Relation(context.sql, base, tuple(found), aliases=match.aliases)
