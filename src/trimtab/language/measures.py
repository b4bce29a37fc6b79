"""Measures: the engine computes slots, and a scalar expression over them is left for the finish.

`(LAST(B.price) - A.price) / A.price` is three slots at most: maximal pieces that look at one row
are hoisted, equal slots are shared, and the arithmetic between them is plain SQL over `slot0`,
`slot1` ... .
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.expression import Aggregate, MatchNumber
from trimtab.engine.match.ir.query import Slot
from trimtab.language.hoist import Hoister, check_lambda
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.lower_expression import lower_aggregates
from trimtab.language.marks import CallMark, MatchNumberMark, ResolvedExpression, facts_of, rebuilt
from trimtab.language.mistakes import placed
from trimtab.language.scope import Scope


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


def lower_measure(columns: IntakeColumns, scope: Scope, resolved: ResolvedExpression, slots: MeasureSlots) -> exp.Expr:
    """The measure as an expression over slots."""
    hoister = Hoister(columns, scope, resolved.places)
    return _over_slots(resolved.tree, hoister, lower_aggregates(hoister, resolved), slots)


def null_if_unmatched(expression: exp.Expr, slots: MeasureSlots) -> exp.Expr:
    """The measure, changed to be null in rows that belong to no match.

    Slots are null there already, so a bare slot needs no change; a constant, for instance, does.
    """
    if isinstance(expression, exp.Column):
        return expression
    matched = exp.Is(this=slots.column(MatchNumber()), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=exp.Not(this=matched), true=expression)])


def _over_slots(node: exp.Expr, hoister: Hoister, aggregates: tuple[Aggregate, ...], slots: MeasureSlots) -> exp.Expr:
    facts = facts_of(node)
    if facts.constant:
        return node.copy()
    check_lambda(hoister.scope.context, node)
    if facts.only_place is not None:
        return placed(slots.column(hoister.hoist(node, facts.only_place)), node)
    if isinstance(node, CallMark):
        return placed(slots.column(aggregates[node.args["number"]]), node)
    if isinstance(node, MatchNumberMark):
        return placed(slots.column(MatchNumber()), node)
    return rebuilt(node, lambda part: _over_slots(part, hoister, aggregates, slots))
