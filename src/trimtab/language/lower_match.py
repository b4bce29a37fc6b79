"""MATCH_RECOGNIZE, lowered: what the engine runs, and the columns of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.expression import Const, Expr, MatchNumber
from trimtab.engine.match.ir.query import MatchQuery, Rows, Slot
from trimtab.language.hoist import Hoister
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.keys import add_order, add_partition
from trimtab.language.lower_expression import lower_aggregates, lower_condition
from trimtab.language.marks import ResolvedExpression
from trimtab.language.merge import Context
from trimtab.language.oracle import type_of
from trimtab.language.relation import Definition, Relation
from trimtab.language.resolve_match import ResolvedMatch
from trimtab.language.scope import Scope
from trimtab.rowwise.types import is_time


@dataclass(frozen=True, slots=True)
class MeasureSlots:
    """The slots of a query so far, without repeats."""

    found: list[Slot] = field(default_factory=list)

    def column(self, slot: Slot) -> exp.Expr:
        """A reference to the slot, which is added if it is new."""
        if slot not in self.found:
            self.found.append(slot)
        return exp.column(f"slot{self.found.index(slot)}")

    @property
    def schema(self) -> list[tuple[str, pa.DataType]]:
        """The columns that the engine's output has for them."""
        return [(f"slot{i}", slot.type) for i, slot in enumerate(self.found)]


def lower_match(context: Context, columns: IntakeColumns, match: ResolvedMatch) -> tuple[MatchQuery, Relation]:
    """The operator, and its output.

    Which input columns the SELECTs around it use isn't known yet: the output's base has all of them, as `__k0`,
    `__k1` ..., and the operator keeps none.
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
    condition = lower_condition(columns, scope, resolved, label)
    if condition.type not in (pa.bool_(), pa.null()):
        message = f"DEFINE needs a condition, this is {condition.type}"
        raise scope.context.error("query.type", message, resolved.written, "compare it with something")
    if isinstance(condition, Const):
        return None if condition.value is True else Const(False, pa.bool_())
    return condition


def _measures(columns: IntakeColumns, match: ResolvedMatch, slots: MeasureSlots) -> list[tuple[str, exp.Expr]]:
    """The measures as expressions over slots.

    `(LAST(B.price) - A.price) / A.price` is three slots at most: maximal pieces that look at one row are hoisted, equal
    slots are shared, and the arithmetic between them is plain SQL over `slot0`, `slot1` ..., left for the finish.
    """
    found = []
    for name, resolved in match.measures:
        hoister = Hoister(columns, match.scope, resolved.places)
        aggregates = lower_aggregates(hoister, resolved)
        found.append((name, hoister.over_columns(resolved.tree, aggregates, hoister.hoist, slots.column)))
    if match.rows is not Rows.ALL_WITH_UNMATCHED:
        return found
    return [(name, _null_if_unmatched(tree, slots)) for name, tree in found]


def _null_if_unmatched(expression: exp.Expr, slots: MeasureSlots) -> exp.Expr:
    """The measure, changed to be null in rows that belong to no match.

    Slots are null there already, so a bare slot needs no change; a constant, for instance, does.
    """
    if isinstance(expression, exp.Column):
        return expression
    matched = exp.Is(this=slots.column(MatchNumber()), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=exp.Not(this=matched), true=expression)])


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
