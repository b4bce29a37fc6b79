"""A SELECT with windows, lowered: the keys and arguments that the intake computes, the calls, the columns over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.windows import aggregates
from trimtab.engine.windows.grouped import GroupCall, GroupQuery
from trimtab.engine.windows.over import OverQuery
from trimtab.engine.windows.over_call import OverCall
from trimtab.keyed_state import DEADLINE
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.keys import order_key
from trimtab.language.marks import CallMark, KeyMark
from trimtab.language.merge import Context
from trimtab.language.mistakes import placed
from trimtab.language.oracle import type_of
from trimtab.language.relation import Definition, Relation, column
from trimtab.language.resolve_group import END, START, ResolvedGroup
from trimtab.language.resolve_windows import ResolvedOver, WindowCall
from trimtab.language.window_calls import Called
from trimtab.rowwise.types import is_number

_Call = TypeVar("_Call", GroupCall, OverCall)
_Resolved = TypeVar("_Resolved", ResolvedGroup, ResolvedOver)


def lower_windows(
    context: Context, columns: IntakeColumns, found: ResolvedGroup | ResolvedOver
) -> tuple[GroupQuery | OverQuery, Relation]:
    """The operator, and its output. Raises QueryError `query.type` or `query.window-mixed`."""
    if isinstance(found, ResolvedGroup):
        return _lower_group(context, columns, found)
    lowering = _OverLowering(context, columns, found.calls)
    unmarked = _unmarked(found, lowering.name)
    assert lowering.shared is not None
    operator = OverQuery(*lowering.shared, tuple(lowering.made), tuple(lowering.keep))
    return operator, _output(context, operator.output_schema(columns.schema), unmarked, "QUALIFY")


def _lower_group(context: Context, columns: IntakeColumns, group: ResolvedGroup) -> tuple[GroupQuery, Relation]:
    keys = [_add_key(columns, each) for each in group.keys]
    made: list[GroupCall] = []
    names: list[str] = []
    for called in group.calls:
        args, _ = _add_arguments(context, columns, called)
        names.append(_name_of(GroupCall(called.function, args, "", called.parameters), made))
    time = columns.add(group.time)
    operator = GroupQuery(tuple(dict.fromkeys(keys)), time, group.window, tuple(made), START, END)

    marked: dict[type[exp.Expr], list[str]] = {KeyMark: keys, CallMark: names}

    def name(node: exp.Expr) -> str | None:
        found = marked.get(type(node))
        return None if found is None else found[int(node.args["number"])]

    return operator, _output(context, operator.output_schema(columns.schema), _unmarked(group, name), "HAVING")


@dataclass(slots=True)
class _OverLowering:
    """Adds every call, and every column, to the operator's output when it is asked for its name there."""

    context: Context
    columns: IntakeColumns
    calls: tuple[WindowCall, ...]
    made: list[OverCall] = field(default_factory=list)
    keep: dict[str, None] = field(default_factory=dict)
    shared: tuple[tuple[str, ...], tuple[OrderKey, ...]] | None = None

    def name(self, node: exp.Expr) -> str | None:
        if isinstance(node, CallMark):
            return self._call(self.calls[node.args["number"]])
        if not isinstance(node, exp.Column):
            return None
        name = self.columns.add(node)
        self.keep[name] = None
        return name

    def _call(self, call: WindowCall) -> str:
        called, over = call.called, call.over
        partition = tuple(dict.fromkeys(_add_key(self.columns, each) for each in over.partition))
        order = tuple(order_key(self.columns.add(each.this), each) for each in over.order)
        args, types = _add_arguments(self.context, self.columns, called)
        if called.function == "lag" and len(types) > 1 and not _fits(types[1], types[0]):
            message = f"the default is {types[1]}, and the value is {types[0]}"
            raise self.context.error("query.type", message, called.args[1], "cast one of them")
        # Rows flow through one keyed step: all windows have to agree on key and order.
        if self.shared is not None and self.shared != (partition, order):
            message = "all windows of a SELECT need the same PARTITION BY and ORDER BY"
            raise self.context.error("query.window-mixed", message, call.written, "use two queries; frames may differ")
        self.shared = (partition, order)
        offset = int(called.parameters[0]) if called.function == "lag" else 1
        return _name_of(OverCall(called.function, args, over.frame, "", offset), self.made)


def _fits(type_: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(type_ == wanted or pa.types.is_null(type_) or (is_number(type_) and is_number(wanted)))


def _add_key(columns: IntakeColumns, node: exp.Expr) -> str:
    name = columns.add(node)
    # The state has a column of that name beside the keys, so the key gets another one.
    return columns.add(exp.Paren(this=node.copy())) if name.lower() == DEADLINE else name


def _add_arguments(
    context: Context, columns: IntakeColumns, called: Called
) -> tuple[tuple[str, ...], list[pa.DataType]]:
    """Have the intake compute the arguments, and check that the function takes their types."""
    found = [columns.add_typed(arg) for arg in called.args]
    types = [type_.value_type if pa.types.is_dictionary(type_) else type_ for _, type_ in found]
    if called.function in aggregates.FUNCTIONS and (wrong := aggregates.fault(called.function, types)):
        raise context.error("query.type", wrong, called.node)
    return tuple(name for name, _ in found), types


def _name_of(call: _Call, made: list[_Call]) -> str:
    """The column of a call without a name: that of the same call in `made`, to which it is added if it is new."""
    for known in made:
        if replace(known, name="") == call:
            return known.name
    made.append(replace(call, name=f"__w{len(made)}"))
    return made[-1].name


def _unmarked(resolved: _Resolved, name: Callable[[exp.Expr], str | None]) -> _Resolved:
    """The SELECT with columns instead of the nodes that have a name in the operator's output."""

    def change(node: exp.Expr) -> exp.Expr:
        found = name(node)
        return node if found is None else placed(column(found), node)

    columns = tuple((each, tree.transform(change)) for each, tree in resolved.columns)
    condition = None if resolved.condition is None else resolved.condition.transform(change)
    return replace(resolved, columns=columns, condition=condition)


def _output(context: Context, base: pa.Schema, select: ResolvedGroup | ResolvedOver, clause: str) -> Relation:
    """The SELECT list over the operator's output, `base`; `clause` is the one that has the condition."""
    definitions = tuple(Definition(name, tree, type_of(context.sql, tree, base)) for name, tree in select.columns)
    condition = select.condition
    if condition is not None and (type_ := type_of(context.sql, condition, base)) not in (pa.bool_(), pa.null()):
        message = f"{clause} needs a condition, this is {type_}"
        raise context.error("query.type", message, condition, "compare it with something")
    return Relation(context.sql, base, definitions, condition)
