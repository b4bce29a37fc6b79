"""SELECT with GROUP BY a window, lowered: which aggregates the engine computes, and the columns over them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from trimtab.engine.windows.grouped import GroupCall, GroupQuery
from trimtab.language.context import Context
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.marks import CallMark, KeyMark
from trimtab.language.mistakes import placed
from trimtab.language.relation import Relation, column
from trimtab.language.resolve_group import END, START, ResolvedGroup
from trimtab.language.window_columns import add_arguments, add_key, name_of, over_output


def lower_group(context: Context, columns: IntakeColumns, group: ResolvedGroup) -> tuple[GroupQuery, Relation]:
    """The operator, and its output. Raises QueryError `query.type`."""
    keys = [add_key(columns, each) for each in group.keys]
    made: list[GroupCall] = []
    names: list[str] = []
    for called in group.calls:
        args, _ = add_arguments(context, columns, called)
        names.append(name_of(GroupCall(called.function, args, "", called.parameters), made))
    time = columns.add(group.time)
    operator = GroupQuery(tuple(dict.fromkeys(keys)), time, group.window, tuple(made), START, END)
    trees = [(name, _unmarked(tree, keys, names)) for name, tree in group.columns]
    having = None if group.having is None else _unmarked(group.having, keys, names)
    return operator, over_output(context, operator.output_schema(columns.schema), trees, "HAVING", having)


def _unmarked(tree: exp.Expr, keys: Sequence[str], calls: Sequence[str]) -> exp.Expr:
    """The expression with columns of the operator's output instead of marks."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, KeyMark):
            return placed(column(keys[node.args["number"]]), node)
        if isinstance(node, CallMark):
            return placed(column(calls[node.args["number"]]), node)
        return node

    return tree.transform(change)
