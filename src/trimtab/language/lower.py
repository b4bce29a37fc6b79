"""Pass 5, `lower`: from what an operator means to what the engine runs.

Before: a resolved operator. After: the engine's own description of it, over columns that the intake computes: whatever
looks at one row has been hoisted there (`hoist.py`), and types are checked. The output is a relation over the columns
that the operator outputs. Without an operator the intake computes the result itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from trimtab.engine.operator import Description
from trimtab.engine.selection import Selection
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.lower_match import lower_match
from trimtab.language.merge import Context
from trimtab.language.relation import Relation, table_relation
from trimtab.language.resolve import Resolved
from trimtab.language.resolve_function import ResolvedFunction
from trimtab.language.resolve_match import ResolvedMatch


@dataclass(frozen=True, slots=True)
class Lowered:
    """The engine's description, the columns that it reads, and its output."""

    context: Context
    operator: Description
    columns: IntakeColumns
    output: Relation


def lower(resolved: Resolved) -> Lowered:
    """Lower the operator.

    Raises QueryError `query.type`, `query.function`, or `query.window-mixed` for windows that differ in their keys.
    """
    context = resolved.context
    columns = IntakeColumns(context.relation)
    operator: Description
    # Imports as in `resolve`: only for queries that have such an operator.
    match resolved.operator:
        case None:
            return _without_operator(context)
        case ResolvedMatch() as found:
            operator, output = lower_match(context, columns, found)
        case ResolvedFunction() as found:
            from trimtab.language.lower_function import lower_function

            operator, output = lower_function(context, columns, found)
        case found:
            from trimtab.language.lower_windows import lower_windows

            operator, output = lower_windows(context, columns, found)
    return Lowered(context, operator, columns, output)


def _without_operator(context: Context) -> Lowered:
    """The intake computes every column of the result, and the output only passes them on."""
    relation = context.relation
    table = table_relation(relation.sql, relation.base)
    columns = IntakeColumns(replace(table, where=relation.where))
    definitions = tuple(
        replace(each, expression=exp.column(columns.add(each.expression), quoted=None)) for each in relation.definitions
    )
    return Lowered(context, Selection(), columns, Relation(relation.sql, relation.base, definitions))
