"""A call in FROM, `overheating(TABLE(readings) PARTITION BY sensor, limit => 95)`: which operator, over which table."""

from __future__ import annotations

from sqlglot import exp

from trimtab.engine.keyed.description import KeyedOperator, registered, registered_names
from trimtab.language.dialect import TableArgument, TableFunction
from trimtab.language.foreign_words import instead_of
from trimtab.language.mistakes import did_you_mean, mistake, node_start


def table_argument(sql: str, node: TableFunction) -> TableArgument:
    """The table that a call reads.

    Raises QueryError: `query.table-function` where there is no such operator, `query.argument` where it reads no table
    or several.
    """
    called_operator(sql, node)
    found = [each for each in node.expressions if isinstance(each, TableArgument)]
    if len(found) > 1:
        raise mistake(sql, "query.argument", f"{node.name} reads one table", found[1])
    if not found:
        bare = next((each for each in node.expressions if isinstance(each, exp.Column)), None)
        hint = f"write TABLE({bare.name if bare else 'name'}) first, then PARTITION BY and ORDER BY"
        raise mistake(sql, "query.argument", f"{node.name} needs a table to read", bare or node_start(node), hint)
    return found[0]


def called_operator(sql: str, node: TableFunction) -> type[KeyedOperator]:
    """The description that the call names."""
    description = registered(node.name)
    if description is None:
        otherwise = "register it first, with @trimtab.operator"
        hint = instead_of(node.name) or did_you_mean(node.name, registered_names(), otherwise=otherwise)
        raise mistake(sql, "query.table-function", f"there is no table function {node.name}", node_start(node), hint)
    return description
