"""The columns of windows: keys and arguments, which the intake computes, calls, and the SELECT list over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.windows import aggregates
from trimtab.engine.windows.grouped import GroupCall
from trimtab.engine.windows.over_call import OverCall
from trimtab.keyed_state import DEADLINE
from trimtab.language.context import Context
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.oracle import type_of
from trimtab.language.relation import Definition, Relation
from trimtab.language.window_calls import Called

_Call = TypeVar("_Call", GroupCall, OverCall)


def add_key(columns: IntakeColumns, node: exp.Expr) -> str:
    """Have the intake compute a key."""
    name = columns.add(node)
    # The state has a column of that name beside the keys, so the key gets another one.
    return columns.add(exp.Paren(this=node.copy())) if name.lower() == DEADLINE else name


def add_arguments(
    context: Context, columns: IntakeColumns, called: Called
) -> tuple[tuple[str, ...], list[pa.DataType]]:
    """Have the intake compute the arguments, and check that the function takes their types.

    Raises QueryError `query.type`.
    """
    found = [columns.add_typed(arg) for arg in called.args]
    types = [type_.value_type if pa.types.is_dictionary(type_) else type_ for _, type_ in found]
    if called.function in aggregates.FUNCTIONS and (wrong := aggregates.fault(called.function, types)):
        raise context.error("query.type", wrong, called.node)
    return tuple(name for name, _ in found), types


def name_of(call: _Call, made: list[_Call]) -> str:
    """The column of a call without a name: that of the same call in `made`, to which it is added if it is new."""
    for known in made:
        if replace(known, name="") == call:
            return known.name
    made.append(replace(call, name=f"__w{len(made)}"))
    return made[-1].name


def over_output(
    context: Context, base: pa.Schema, columns: Sequence[tuple[str, exp.Expr]], clause: str, condition: exp.Expr | None
) -> Relation:
    """The SELECT list over the operator's output, `base`; `clause` is HAVING or QUALIFY, with its condition.

    Raises QueryError `query.type`.
    """
    definitions = tuple(Definition(name, tree, type_of(context.sql, tree, base)) for name, tree in columns)
    if condition is not None and (type_ := type_of(context.sql, condition, base)) not in (pa.bool_(), pa.null()):
        message = f"{clause} needs a condition, this is {type_}"
        raise context.error("query.type", message, condition, "compare it with something")
    return Relation(context.sql, base, definitions, condition)
