"""Pass 3, `merge`: from the row-wise SELECTs under the operator to one relation over the table.

Before: a chain of steps over a table. After: the columns that the operator reads, each with its type and its expression
over the table's columns, and one filter. Without an operator these are the columns of the result. The nesting is gone;
the operator itself hasn't been looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trimtab.language.context import Context
from trimtab.language.relation import Relation, table_relation
from trimtab.language.unnest import Chain, Layer


@dataclass(frozen=True, slots=True)
class MergedChain:
    """The chain, and what its operator reads."""

    chain: Chain
    context: Context


def merge(chain: Chain) -> MergedChain:
    """Merge the inner layers.

    Raises QueryError: `query.column`, `query.type`, `query.function`, `query.row-wise` or `query.too-large`.
    """
    text = chain.text
    table = table_relation(text.sql, text.tables[chain.source], frozenset())
    relation = with_layers(table, chain.inner)
    return MergedChain(chain, Context(text.sql, relation, text.event_time, text.fold_labels))


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
