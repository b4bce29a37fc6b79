"""SELECT with OVER, lowered: which calls the engine computes, and the columns over them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.windows.over import OverQuery
from trimtab.engine.windows.over_call import OverCall
from trimtab.language.context import Context
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.keys import order_key
from trimtab.language.marks import CallMark
from trimtab.language.mistakes import placed
from trimtab.language.relation import Relation, column
from trimtab.language.resolve_over import ResolvedOver, WindowCall
from trimtab.language.window_columns import add_arguments, add_key, name_of, over_output
from trimtab.rowwise.types import is_number


def lower_over(context: Context, columns: IntakeColumns, over: ResolvedOver) -> tuple[OverQuery, Relation]:
    """The operator, and its output.

    Raises QueryError `query.type`, or `query.window-mixed` where windows differ in key or order.
    """
    lowering = _OverLowering(context, columns, over.calls)
    trees = [(name, lowering.unmarked(tree)) for name, tree in over.columns]
    where = None if over.where is None else lowering.unmarked(over.where)
    assert lowering.shared is not None
    partition, order = lowering.shared
    operator = OverQuery(partition, order, tuple(lowering.made), tuple(lowering.keep))
    return operator, over_output(context, operator.output_schema(columns.schema), trees, "QUALIFY", where)


@dataclass(slots=True)
class _OverLowering:
    """Replaces every mark, and every column, by a column of the operator's output."""

    context: Context
    columns: IntakeColumns
    calls: tuple[WindowCall, ...]
    made: list[OverCall] = field(default_factory=list)
    keep: dict[str, None] = field(default_factory=dict)
    shared: tuple[tuple[str, ...], tuple[OrderKey, ...]] | None = None

    def unmarked(self, tree: exp.Expr) -> exp.Expr:
        return tree.transform(self._change)

    def _change(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, CallMark):
            return placed(column(self._call(self.calls[node.args["number"]])), node)
        if isinstance(node, exp.Column):
            name = self.columns.add(node)
            self.keep[name] = None
            return placed(column(name), node)
        return node

    def _call(self, call: WindowCall) -> str:
        called, over = call.called, call.over
        partition = tuple(dict.fromkeys(add_key(self.columns, each) for each in over.partition))
        order = tuple(order_key(self.columns.add(each.this), each) for each in over.order)
        args, types = add_arguments(self.context, self.columns, called)
        if called.function == "lag" and len(types) > 1 and not _fits(types[1], types[0]):
            message = f"the default is {types[1]}, and the value is {types[0]}"
            raise self.context.error("query.type", message, called.args[1], "cast one of them")
        # Rows flow through one keyed step: all windows have to agree on key and order.
        if self.shared is not None and self.shared != (partition, order):
            message = "all windows of a SELECT need the same PARTITION BY and ORDER BY"
            raise self.context.error("query.window-mixed", message, call.written, "use two queries; frames may differ")
        self.shared = (partition, order)
        offset = int(called.parameters[0]) if called.function == "lag" else 1
        return name_of(OverCall(called.function, args, over.frame, "", offset), self.made)


def _fits(type_: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(type_ == wanted or pa.types.is_null(type_) or (is_number(type_) and is_number(wanted)))
