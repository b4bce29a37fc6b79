"""Windows in SQL: `agg(x) OVER (...)`, and GROUP BY with window() or session_window()."""

from __future__ import annotations

from sqlglot import exp

from trimtab.engine.windows.grouped import GroupQuery
from trimtab.engine.windows.over import OverQuery
from trimtab.language.context import Context
from trimtab.language.relation import Relation
from trimtab.language.window_group import compile_group
from trimtab.language.window_over import compile_over
from trimtab.rowwise.local import Finish

_REFUSED = {
    "order": ("ORDER BY", "rows leave in the order of time"),
    "sort": ("SORT BY", "rows leave in the order of time"),
    "cluster": ("CLUSTER BY", "rows leave in the order of time"),
    "distribute": ("DISTRIBUTE BY", "rows leave in the order of time"),
    "distinct": ("DISTINCT", "group by the columns and a window"),
    "limit": ("LIMIT", "take what you need of the result"),
    "offset": ("OFFSET", "take what you need of the result"),
}


def compile_windows(select: exp.Select, context: Context) -> tuple[OverQuery | GroupQuery, Finish]:
    """The operator of a SELECT with windows, and the last step behind it.

    What the intake has to compute is added to the context.

    Raises QueryError.
    """
    from trimtab.language.selects import finish

    operator, output = window_relation(select, context)
    return operator, finish(output)


def window_relation(select: exp.Select, context: Context) -> tuple[OverQuery | GroupQuery, Relation]:
    """As `compile_windows`, with the output as a relation, for row-wise SELECTs around it."""
    for clause, (word, hint) in _REFUSED.items():
        if value := select.args.get(clause):
            message = f"{word} needs all rows at once, and a stream has no end"
            raise context.error("query.window-clause", message, value, hint)
    if select.args.get("match") is not None:
        message = "windows and MATCH_RECOGNIZE can't be in one SELECT"
        raise context.error("query.window-mixed", message, select.expressions[0], "use two queries")
    grouped = select.args.get("group") is not None
    windows = [each for root in select.expressions for each in root.find_all(exp.Window)]
    if grouped and windows:
        message = "OVER and GROUP BY can't be in one SELECT"
        raise context.error("query.window-mixed", message, windows[0], "use two queries")
    if not grouped and (having := select.args.get("having")) is not None:
        message = "HAVING is about groups, and there are none"
        raise context.error("query.window-clause", message, having, "write QUALIFY, or GROUP BY a window")
    return compile_group(select, context) if grouped else compile_over(select, context)
