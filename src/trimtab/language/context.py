"""What the passes know about the operator's input: the text, the columns that it reads, and whether it is a stream.

A `Context` is made once per query, when sub-selects are merged. It knows names and types, and makes errors that point
at their place.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from trimtab.errors import QueryError
from trimtab.language.mistakes import Span, mistake
from trimtab.language.relation import Relation


@dataclass(frozen=True, slots=True)
class Context:
    """The input of one query's operator.

    `relation` has the columns that the operator sees, already filtered. `event_time` is the name of
    the event-time column, where the input is a stream of events.
    """

    sql: str
    relation: Relation
    event_time: str | None = None
    fold_labels: bool = True

    @property
    def schema(self) -> pa.Schema:
        """The columns that the operator sees, after sub-selects are merged."""
        return pa.schema([(each.name, each.type) for each in self.relation.definitions])

    def error(self, code: str, message: str, at: exp.Expr | Span | None = None, hint: str = "") -> QueryError:
        """An error to raise, with the node's place underlined."""
        return mistake(self.sql, code, message, at, hint)

    def type_of(self, expression: exp.Expr) -> pa.DataType:
        """The Arrow type of a row-local expression over the relation's columns.

        Raises QueryError `query.function` for an unknown function, `query.type` for operands
        that don't fit, `query.row-wise` for what isn't row-local.
        """
        return self.relation.type_of(expression)
