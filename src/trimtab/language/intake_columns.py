"""The columns that the intake computes for an operator, collected while the query is lowered."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.state_schema import RESERVED
from trimtab.language import oracle
from trimtab.language.relation import Relation, spark_text
from trimtab.rowwise.local import IntakeStep


@dataclass(frozen=True, slots=True)
class IntakeColumns:
    """The row-local expressions over a relation that an operator needs, in the order of first use, without repeats.

    The order is part of the query's signature: names are numbered by it.
    """

    relation: Relation
    added: dict[tuple[str, str | None], tuple[str, pa.DataType]] = field(default_factory=dict)

    def add(self, expression: exp.Expr) -> str:
        """Have the intake compute a row-local expression; return the name of its column.

        The same expression gives the same column. A bare column keeps its name, unless the engine
        uses such names itself.
        """
        return self.add_typed(expression)[0]

    def add_typed(self, expression: exp.Expr) -> tuple[str, pa.DataType]:
        """As `add`, with the column's type."""
        preferred = None
        if isinstance(expression, exp.Column):
            found = self.relation.resolve(expression)
            preferred = None if is_reserved(found.name) else found.name
            text, type_ = spark_text(found.expression), found.type
        else:
            rewritten = self.relation.rewrite(expression)
            text = spark_text(rewritten)
            type_ = oracle.type_of(self.relation.sql, rewritten, self.relation.base)
        key = (text, preferred)
        if key not in self.added:
            self.added[key] = (preferred or self._free_name(), type_)
        return self.added[key]

    def _free_name(self) -> str:
        taken = {each.name.lower() for each in self.relation.definitions}
        numbers = itertools.count(len(self.added))
        return next(name for name in (f"__c{n}" for n in numbers) if name not in taken)

    @property
    def schema(self) -> pa.Schema:
        """The columns that the operator will see."""
        return pa.schema(list(self.added.values()))

    def step(self) -> IntakeStep:
        """All that was added so far, with the relation's filter."""
        where = self.relation.where
        return IntakeStep(
            columns=tuple((name, text) for (text, _), (name, _) in self.added.items()),
            where=None if where is None else spark_text(where),
            types=tuple(type_ for _, type_ in self.added.values()),
        )


def is_reserved(name: str) -> bool:
    """Whether the engine gives such names to columns of its own, in its output or its state."""
    lower = name.lower()
    return name.startswith("__") or lower in RESERVED or re.fullmatch(r"slot\d+", lower) is not None
