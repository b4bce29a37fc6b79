"""Users' own operators in FROM: `overheating(TABLE(readings) PARTITION BY sensor ORDER BY ts, limit => 95)`."""

from __future__ import annotations

from sqlglot import exp

from trimtab.engine.keyed.description import KeyedOperator, registered, registered_names
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.errors import QueryError
from trimtab.language.context import Context
from trimtab.language.dialect import TableArgument, TableFunction
from trimtab.language.function_arguments import describe
from trimtab.language.keys import order_columns, partition_columns
from trimtab.language.match import node_start
from trimtab.language.mistakes import did_you_mean, mistake, placed
from trimtab.language.relation import Definition, Relation, column, listing
from trimtab.language.window_over import intake_schema
from trimtab.language.within import check_event_time


def table_argument(sql: str, node: TableFunction) -> TableArgument:
    """The table that a call reads.

    Raises QueryError: `query.table-function` where there is no such operator, `query.argument` where it reads no table
    or several.
    """
    known(sql, node)
    found = [each for each in node.expressions if isinstance(each, TableArgument)]
    if len(found) > 1:
        raise mistake(sql, "query.argument", f"{node.name} reads one table", found[1])
    if not found:
        bare = next((each for each in node.expressions if isinstance(each, exp.Column)), None)
        hint = f"write TABLE({bare.name if bare else 'name'}) first, then PARTITION BY and ORDER BY"
        raise mistake(sql, "query.argument", f"{node.name} needs a table to read", bare or node_start(node), hint)
    return found[0]


def known(sql: str, node: TableFunction) -> type[KeyedOperator]:
    """The description that the call names."""
    description = registered(node.name)
    if description is None:
        otherwise = "register it first, with @trimtab.operator"
        hint = did_you_mean(node.name, registered_names(), otherwise=otherwise)
        message = f"there is no table function {node.name}"
        raise mistake(sql, "query.table-function", message, node_start(node), hint)
    return description


def compile_table_function(context: Context, node: TableFunction) -> tuple[KeyedQuery, Relation]:
    """The operator that a call in FROM means, over the context's relation, and its output.

    Raises QueryError.
    """
    description = describe(context, node, known(context.sql, node))
    table = table_argument(context.sql, node)
    ordered = table.args.get("order") or []
    order, keys = order_columns(context, ordered)
    check_event_time(context, order, ordered, node)
    named = {each.name: each for each in partition_columns(context, table.args.get("partition_by") or ())}
    partition = list(named.values())
    operator = KeyedQuery(
        name=node.name,
        description=description,
        partition=tuple(context.add(column(each.name)) for each in partition),
        order=keys,
        columns=_columns(context, node, description, table),
    )
    return operator, _output(context, node, operator, partition)


def _columns(
    context: Context, node: TableFunction, description: KeyedOperator, table: TableArgument
) -> tuple[tuple[str, str], ...]:
    """The names that the logic knows, and the columns of the intake that they are."""
    names = context.schema.names
    if description.columns is None:
        return tuple((name, context.add(placed(column(name), table.this))) for name in names)
    found = []
    for name in description.columns:
        try:
            found.append((name, context.add(placed(column(name), table.this))))
        except QueryError as error:
            if error.code != "query.column":
                raise
            message = f"{node.name} looks at a column {name}: {error.message}"
            hint = f"the columns are {listing(names)}; rename one in TABLE(SELECT ...)"
            raise context.error("query.column", message, table.this, hint) from None
    return tuple(found)


def _output(context: Context, node: TableFunction, operator: KeyedQuery, partition: list[Definition]) -> Relation:
    """The partition columns, then the operator's own."""
    schema = operator.description.output
    own = {name.lower() for name in schema.names}
    for at in table_argument(context.sql, node).args.get("partition_by") or ():
        if at.name.lower() in own:
            message = f"{node.name} gives a column {at.name} of its own"
            hint = "give the key another name in TABLE(SELECT ...)"
            raise context.error("query.column", message, at, hint)
    base = operator.output_schema(intake_schema(context))
    keys = [
        Definition(each.name, column(name), base.field(name).type)
        for each, name in zip(partition, operator.partition, strict=True)
    ]
    columns = [Definition(field.name, column(field.name), field.type) for field in schema]
    alias = node.args.get("alias")
    name = alias.name if alias is not None and alias.name else node.name
    return Relation(context.sql, base, (*keys, *columns), aliases=frozenset({name.lower()}))
