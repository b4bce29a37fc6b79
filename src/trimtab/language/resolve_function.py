"""A user's own operator in FROM, resolved: `hot(TABLE(readings) PARTITION BY sensor ORDER BY ts, limit => 95)`."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.engine.keyed.description import KeyedOperator
from trimtab.errors import QueryError
from trimtab.language.dialect import TableArgument, TableFunction
from trimtab.language.function_arguments import describe
from trimtab.language.keys import Ordering, order_columns, partition_columns
from trimtab.language.merge import Context
from trimtab.language.mistakes import listing, placed
from trimtab.language.relation import Definition, column
from trimtab.language.unnest import called_operator, table_argument


@dataclass(frozen=True, slots=True)
class ResolvedFunction:
    """The operator with its arguments; `columns` are the columns that it reads, by the names that it uses.

    `alias` is the name by which SELECTs around it may qualify its columns.
    """

    name: str
    description: KeyedOperator
    partition: tuple[Definition, ...]
    order: tuple[Ordering, ...]
    columns: tuple[str, ...]
    alias: str


def resolve_function(context: Context, node: TableFunction) -> ResolvedFunction:
    """What a call in FROM means, over the context's relation. Raises QueryError."""
    description = describe(context, node, called_operator(context.sql, node))
    table = table_argument(context.sql, node)
    order = order_columns(context, table.args.get("order") or (), node)
    keys = {each.name: each for each in partition_columns(context, table.args.get("partition_by") or ())}
    alias = node.args.get("alias")
    resolved = ResolvedFunction(
        name=node.name,
        description=description,
        partition=tuple(keys.values()),
        order=order,
        columns=_columns(context, node, description, table),
        alias=(alias.name if alias is not None and alias.name else node.name).lower(),
    )
    _check_output(context, node, description, table)
    return resolved


def _columns(
    context: Context, node: TableFunction, description: KeyedOperator, table: TableArgument
) -> tuple[str, ...]:
    """The names of the columns that the logic reads, after a check that they exist."""
    names = context.schema.names
    wanted = tuple(names) if description.columns is None else description.columns
    for name in wanted:
        try:
            context.relation.resolve(placed(column(name), table.this))
        except QueryError as error:
            if description.columns is None or error.code != "query.column":
                raise
            message = f"{node.name} looks at a column {name}: {error.message}"
            hint = f"the columns are {listing(names)}; rename one in TABLE(SELECT ...)"
            raise context.error("query.column", message, table.this, hint) from None
    return tuple(wanted)


def _check_output(context: Context, node: TableFunction, description: KeyedOperator, table: TableArgument) -> None:
    """The output has the keys and then the operator's own columns: no two may have the same name."""
    own = {name.lower() for name in description.output.names}
    for at in table.args.get("partition_by") or ():
        if at.name.lower() in own:
            hint = "give the key another name in TABLE(SELECT ...)"
            raise context.error("query.column", f"{node.name} gives a column {at.name} of its own", at, hint)
