"""Columns that the intake computes for windows: keys, and the arguments of calls."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.windows import aggregates
from trimtab.keyed_state import DEADLINE
from trimtab.language.context import Context
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.window_calls import Called


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
