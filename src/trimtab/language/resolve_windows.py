"""A SELECT with windows, resolved: `agg(x) OVER (...)`, or GROUP BY with window() or session_window()."""

from __future__ import annotations

from sqlglot import exp

from trimtab.language.context import Context
from trimtab.language.resolve_group import ResolvedGroup, resolve_group
from trimtab.language.resolve_over import ResolvedOver, resolve_over
from trimtab.language.unnest import CLAUSES

_REFUSED = {
    **dict.fromkeys(("order", "sort", "cluster", "distribute"), "rows leave in the order of time"),
    "distinct": "group by the columns and a window",
    **dict.fromkeys(("limit", "offset"), "take what you need of the result"),
}


def resolve_windows(context: Context, select: exp.Select) -> ResolvedOver | ResolvedGroup:
    """Check the clauses that the two kinds share, and resolve the SELECT as one of them. Raises QueryError."""
    for clause, hint in _REFUSED.items():
        if value := select.args.get(clause):
            message = f"{CLAUSES[clause]} needs all rows at once, and a stream has no end"
            raise context.error("query.window-clause", message, value, hint)
    grouped = select.args.get("group") is not None
    windows = [each for root in select.expressions for each in root.find_all(exp.Window)]
    if grouped and windows:
        message = "OVER and GROUP BY can't be in one SELECT"
        raise context.error("query.window-mixed", message, windows[0], "use two queries")
    if not grouped and (having := select.args.get("having")) is not None:
        message = "HAVING is about groups, and there are none"
        raise context.error("query.window-clause", message, having, "write QUALIFY, or GROUP BY a window")
    return resolve_group(context, select) if grouped else resolve_over(context, select)
