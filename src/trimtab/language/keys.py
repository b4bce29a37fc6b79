"""PARTITION BY and ORDER BY of an operator: columns, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from trimtab.engine.columns.order import OrderKey
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.merge import Context
from trimtab.language.mistakes import instead_of, node_start
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


def order_columns(context: Context, nodes: Sequence[exp.Expr], operator: exp.Expr) -> tuple[Ordering, ...]:
    """The columns of an operator's ORDER BY.

    Raises QueryError `query.column` for anything but a column, and `query.order-missing` or `query.order-time` if a
    query over a stream isn't ordered by its event time first, which is how a stream is read.
    """
    order = tuple(Ordering(_column(context, node.this, "ORDER BY"), node) for node in nodes)
    wanted = context.event_time
    if wanted is None:
        return order
    hint = f"ORDER BY {wanted}"
    if not order:
        message = "a query over a stream needs an order in time"
        raise context.error("query.order-missing", message, node_start(operator), hint)
    first = order[0].definition
    name = first.expression.name if isinstance(first.expression, exp.Column) else first.name
    if name.lower() != wanted.lower():
        message = f"the first ORDER BY column of a stream is its event time, {wanted}"
        raise context.error("query.order-time", message, order[0].written, hint)
    if order[0].descending:
        message = "a stream can't be read backwards in time"
        raise context.error("query.order-time", message, order[0].written, f"{hint} ASC")
    return order


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
        theirs = instead_of(node.name) if isinstance(node, exp.Anonymous) else ""
        hint = theirs or "compute it in a sub-select and give it a name there"
        raise context.error("query.column", f"{clause} takes columns", node, hint)
    return context.relation.resolve(node)
