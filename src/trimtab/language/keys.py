"""PARTITION BY and ORDER BY of an operator: columns, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from trimtab.engine.columns.order import OrderKey
from trimtab.language.context import Context
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.relation import Definition, column


@dataclass(frozen=True, slots=True)
class Ordering:
    """A column of ORDER BY, resolved; `written` is its syntax."""

    definition: Definition
    written: exp.Expr

    @property
    def descending(self) -> bool:
        """Whether the largest comes first."""
        return bool(self.written.args.get("desc"))


def partition_columns(context: Context, nodes: Sequence[exp.Expr]) -> tuple[Definition, ...]:
    """The columns of PARTITION BY. Raises QueryError `query.column` for anything but a column."""
    return tuple(_column(context, node, "PARTITION BY") for node in nodes)


def order_columns(context: Context, nodes: Sequence[exp.Expr]) -> tuple[Ordering, ...]:
    """The columns of ORDER BY. Raises QueryError `query.column` for anything but a column."""
    return tuple(Ordering(_column(context, node.this, "ORDER BY"), node) for node in nodes)


def add_partition(columns: IntakeColumns, partition: Sequence[Definition]) -> tuple[str, ...]:
    """Have the intake pass the keys on; return their names there."""
    return tuple(columns.add(column(each.name)) for each in partition)


def add_order(columns: IntakeColumns, order: Sequence[Ordering]) -> tuple[OrderKey, ...]:
    """Have the intake pass the order's columns on; return the order as the engine needs it."""
    return tuple(order_key(columns.add(column(each.definition.name)), each.written) for each in order)


def order_key(name: str, written: exp.Expr) -> OrderKey:
    """The order by a column, as the syntax of ORDER BY says."""
    return OrderKey(name, bool(written.args.get("desc")), bool(written.args.get("nulls_first")))


def _column(context: Context, node: exp.Expr, clause: str) -> Definition:
    if not isinstance(node, exp.Column):
        hint = "compute it in a sub-select and give it a name there"
        raise context.error("query.column", f"{clause} takes columns", node, hint)
    return context.relation.resolve(node)
