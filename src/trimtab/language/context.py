"""What every part of the compiler is told: the text, the columns, where row-local work goes.

A `Context` is made once per query, after sub-selects are merged. It resolves names, knows types,
collects the columns that the intake has to compute, and makes errors that point at their place.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.match.ir.state_schema import RESERVED
from trimtab.errors import QueryError
from trimtab.language import oracle
from trimtab.language.mistakes import Span, mistake
from trimtab.language.relation import Relation, spark_text
from trimtab.rowwise.local import Intake


@dataclass(frozen=True, slots=True)
class Context:
    """One query under compilation.

    `relation` has the columns that the query sees, already filtered. `event_time` is the name of
    the event-time column, where the input is a stream of events.
    """

    sql: str
    source: str
    relation: Relation
    event_time: str | None = None
    fold_labels: bool = True
    _added: dict[tuple[str, str | None], tuple[str, pa.DataType]] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns that the query sees, after sub-selects are merged."""
        return pa.schema([(each.name, each.type) for each in self.relation.definitions])

    def error(self, code: str, message: str, at: exp.Expr | Span | None = None, hint: str = "") -> QueryError:
        """An error to raise, with the node's place underlined."""
        return mistake(self.sql, code, message, at, hint)

    def resolve(self, column: exp.Column) -> pa.Field:
        """The field that a column reference means, by Spark's rule that case doesn't matter.

        Raises QueryError `query.column` where there is none or it is ambiguous, or the qualifier is
        unknown.
        """
        found = self.relation.resolve(column)
        return pa.field(found.name, found.type)

    def type_of(self, expression: exp.Expr) -> pa.DataType:
        """The Arrow type of a row-local expression over the relation's columns.

        Raises QueryError `query.function` for a function nobody knows, `query.type` for operands
        that don't fit, `query.row-wise` for what isn't row-local.
        """
        return self.relation.type_of(expression)

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
            type_ = oracle.type_of(self.sql, rewritten, self.relation.base)
        key = (text, preferred)
        if key not in self._added:
            self._added[key] = (preferred or self._free_name(), type_)
        return self._added[key]

    def _free_name(self) -> str:
        taken = {each.name.lower() for each in self.relation.definitions}
        numbers = itertools.count(len(self._added))
        return next(name for name in (f"__c{n}" for n in numbers) if name not in taken)

    def intake(self) -> Intake:
        """All that was added so far, with the relation's filter."""
        where = self.relation.where
        return Intake(
            columns=tuple((name, text) for (text, _), (name, _) in self._added.items()),
            where=None if where is None else spark_text(where),
            types=tuple(type_ for _, type_ in self._added.values()),
        )


def is_reserved(name: str) -> bool:
    """Whether the engine gives such names to columns of its own, in its output or its state."""
    lower = name.lower()
    return name.startswith("__") or lower in RESERVED or re.fullmatch(r"slot\d+", lower) is not None
