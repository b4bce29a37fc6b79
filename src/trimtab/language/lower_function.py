"""A user's own operator in FROM, lowered: what the engine runs, and the columns of its output."""

from __future__ import annotations

from trimtab.engine.keyed.query import KeyedQuery
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.keys import add_order, add_partition
from trimtab.language.merge import Context
from trimtab.language.relation import Definition, Relation, column
from trimtab.language.resolve_function import ResolvedFunction


def lower_function(context: Context, columns: IntakeColumns, function: ResolvedFunction) -> tuple[KeyedQuery, Relation]:
    """The operator, and its output: the partition columns, then the operator's own."""
    order = add_order(columns, function.order)
    operator = KeyedQuery(
        name=function.name,
        description=function.description,
        partition=add_partition(columns, function.partition),
        order=order,
        columns=tuple((name, columns.add(column(name))) for name in function.columns),
    )
    base = operator.output_schema(columns.schema)
    keys = [
        Definition(each.name, column(name), base.field(name).type)
        for each, name in zip(function.partition, operator.partition, strict=True)
    ]
    own = [Definition(field.name, column(field.name), field.type) for field in function.description.output]
    return operator, Relation(context.sql, base, (*keys, *own), aliases=frozenset({function.alias}))
