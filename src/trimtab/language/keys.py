"""PARTITION BY and ORDER BY of an operator: columns, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from trimtab.engine.columns.order import OrderKey
from trimtab.language.context import Context
from trimtab.language.relation import Definition, column


def partition_columns(context: Context, nodes: Sequence[exp.Expr]) -> list[Definition]:
    """The columns of PARTITION BY.

    Raises QueryError `query.column` where something is no column.
    """
    return [_column(context, node, "PARTITION BY") for node in nodes]


def order_columns(context: Context, nodes: Sequence[exp.Expr]) -> tuple[list[Definition], tuple[OrderKey, ...]]:
    """The columns of ORDER BY, and the same as the engine wants them.

    Raises QueryError `query.column` where something is no column.
    """
    found = [_column(context, node.this, "ORDER BY") for node in nodes]
    keys = tuple(
        OrderKey(
            context.add(column(each.name)),
            bool(node.args.get("desc")),
            bool(node.args.get("nulls_first")),
        )
        for each, node in zip(found, nodes, strict=True)
    )
    return found, keys


def _column(context: Context, node: exp.Expr, clause: str) -> Definition:
    if not isinstance(node, exp.Column):
        message = f"{clause} takes columns"
        hint = "compute it in a sub-select and give it a name there"
        raise context.error("query.column", message, node, hint)
    return context.relation.resolve(node)
