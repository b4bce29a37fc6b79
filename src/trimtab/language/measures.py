"""Measures: the engine computes slots, and a scalar expression over them is left for the finish.

`(LAST(B.price) - A.price) / A.price` is three slots at most: maximal pieces that look at one row
are hoisted, equal slots are shared, and the arithmetic between them is plain SQL over `slot0`,
`slot1` ... .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.expression import MatchNumber
from trimtab.engine.match.ir.query import Slot
from trimtab.language.dialect import Measure
from trimtab.language.hoist import Hoister, check_lambda, facts_of
from trimtab.language.mistakes import placed
from trimtab.language.resolve import Computed, Resolver, rebuilt
from trimtab.language.scope import Scope


@dataclass(frozen=True, slots=True)
class Slots:
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


def measure_definitions(
    scope: Scope, resolver: Resolver, measures: Sequence[Measure], slots: Slots
) -> list[tuple[str, exp.Expr]]:
    """Names of the measures with their expressions over slots."""
    hoister = Hoister(scope)
    seen: set[str] = set()
    return [
        (_name(scope, measure, seen), _over_slots(resolver.resolve(measure.this), hoister, slots))
        for measure in measures
    ]


def null_if_unmatched(expression: exp.Expr, slots: Slots) -> exp.Expr:
    """The measure for rows of which some belong to no match: those have no measures.

    The slots are null there, so what is a slot already is right; a constant, for instance, isn't.
    """
    if isinstance(expression, exp.Column):
        return expression
    matched = exp.Is(this=slots.column(MatchNumber()), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=exp.Not(this=matched), true=expression)])


def _name(scope: Scope, measure: Measure, seen: set[str]) -> str:
    alias = measure.args.get("alias")
    if alias is None:
        message = "a measure needs a name"
        raise scope.context.error("query.measure-name", message, measure.this, "add AS name")
    name: str = alias.name
    if name.lower() in seen:
        message = f"there are two measures named {name}"
        raise scope.context.error("query.measure-name", message, alias, "rename one of them")
    seen.add(name.lower())
    return name


def _over_slots(node: exp.Expr, hoister: Hoister, slots: Slots) -> exp.Expr:
    facts = facts_of(node)
    if facts.constant:
        return node.copy()
    check_lambda(hoister.scope.context, node)
    if facts.only_place is not None:
        return placed(slots.column(hoister.hoist(node, facts.only_place)), node)
    if isinstance(node, Computed):
        return placed(slots.column(node.args["value"]), node)
    return rebuilt(node, lambda part: _over_slots(part, hoister, slots))
