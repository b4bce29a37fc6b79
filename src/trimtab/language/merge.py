"""Pass 3, `merge`: from the row-wise SELECTs under the operator to one relation over the table.

Before: a chain of steps over a table. After: the columns that the operator reads, each with its type and its expression
over the table's columns, and one filter. Without an operator these are the columns of the result. The nesting is gone;
the operator itself hasn't been looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from trimtab.errors import QueryError
from trimtab.language.mistakes import Span, mistake
from trimtab.language.relation import Relation, table_relation
from trimtab.language.unnest import Chain, Layer


@dataclass(frozen=True, slots=True)
class Context:
    """What later passes know about the operator's input; it makes errors that point at their place in the text.

    `relation` has the columns that the operator sees, already filtered. `event_time` is the name of the event-time
    column, where the input is a stream of events.
    """

    chain: Chain
    sql: str
    relation: Relation
    event_time: str | None
    fold_labels: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns that the operator sees."""
        return pa.schema([(each.name, each.type) for each in self.relation.definitions])

    def error(self, code: str, message: str, at: exp.Expr | Span | None = None, hint: str = "") -> QueryError:
        """An error to raise, with the node's place underlined."""
        return mistake(self.sql, code, message, at, hint)


def merge(chain: Chain) -> Context:
    """Merge the inner layers.

    Raises QueryError: `query.column`, `query.type`, `query.function`, `query.row-wise` or `query.too-large`.
    """
    text = chain.text
    relation = with_layers(table_relation(text.sql, text.tables[chain.source]), chain.inner)
    return Context(chain, text.sql, relation, text.event_time, text.fold_labels)


def with_layers(relation: Relation, layers: Iterable[Layer]) -> Relation:
    """The relation after some row-wise steps, one after the other."""
    for layer in layers:
        if layer.where is not None:
            relation = relation.filtered(layer.where)
        if layer.columns is not None:
            relation = relation.projected(layer.columns)
        if layer.aliases is not None:
            relation = replace(relation, aliases=layer.aliases)
    return relation
