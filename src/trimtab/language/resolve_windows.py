"""A SELECT with windows, resolved: `agg(x) OVER (...)`, or GROUP BY with window() or session_window()."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from trimtab.engine.windows.over_call import FUNCTIONS
from trimtab.language.marks import CallMark
from trimtab.language.merge import Context
from trimtab.language.mistakes import placed
from trimtab.language.relation import column, projected_name
from trimtab.language.resolve_group import ResolvedGroup, resolve_group
from trimtab.language.unnest import CLAUSES
from trimtab.language.window_calls import Called, is_aggregate, read_call
from trimtab.language.window_frames import Over, read_over

_REFUSED = {
    **dict.fromkeys(("order", "sort", "cluster", "distribute"), "rows leave in the order of time"),
    "distinct": "group by the columns and a window",
    **dict.fromkeys(("limit", "offset"), "take what you need of the result"),
}


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function and what it is computed over; `written` is the syntax of both."""

    called: Called
    over: Over
    written: exp.Window


@dataclass(frozen=True, slots=True)
class ResolvedOver:
    """The columns of the SELECT by their names, and QUALIFY; every window function is a `CallMark` into `calls`."""

    columns: tuple[tuple[str, exp.Expr], ...]
    condition: exp.Expr | None
    calls: tuple[WindowCall, ...]


def resolve_windows(context: Context, select: exp.Select) -> ResolvedOver | ResolvedGroup:
    """Check the clauses that the two kinds share, and resolve the SELECT as one of them. Raises QueryError."""
    for clause, hint in _REFUSED.items():
        if value := select.args.get(clause):
            message = f"{CLAUSES[clause]} needs all rows at once, and a stream has no end"
            raise context.error("query.window-clause", message, value, hint)
    grouped, having = select.args.get("group") is not None, select.args.get("having")
    windows = [each for root in select.expressions for each in root.find_all(exp.Window)]
    if grouped and windows:
        message = "OVER and GROUP BY can't be in one SELECT"
        raise context.error("query.window-mixed", message, windows[0], "use two queries")
    if not grouped and having is not None:
        message = "HAVING is about groups, and there are none"
        raise context.error("query.window-clause", message, having, "write QUALIFY, or GROUP BY a window")
    last = having if grouped else select.args.get("qualify")
    condition = None if last is None else _without_aliases(last.this, select, context)
    return resolve_group(context, select, condition) if grouped else _resolve_over(context, select, condition)


def _without_aliases(tree: exp.Expr, select: exp.Select, context: Context) -> exp.Expr:
    """The condition with aliases of the SELECT list replaced, except where the input has a column of that name."""
    known = {name.lower() for name in context.schema.names}
    aliases = {each.alias.lower(): each.this for each in select.expressions if isinstance(each, exp.Alias)}

    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or node.name.lower() in known:
            return node
        meant = aliases.get(node.name.lower())
        return node if meant is None else placed(exp.Paren(this=meant.copy()), node)

    return tree.transform(change)


def _resolve_over(context: Context, select: exp.Select, condition: exp.Expr | None) -> ResolvedOver:
    named = {each.this.name.lower(): each for each in select.args.get("windows") or ()}
    calls: list[WindowCall] = []

    def marked(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            over = read_over(context, node, named)
            calls.append(WindowCall(read_call(context, node.this, FUNCTIONS, "with OVER"), over, node))
            return placed(CallMark(number=len(calls) - 1), node)
        if is_aggregate(node):
            message = "an aggregate beside window functions needs its own OVER"
            raise context.error("query.window-mixed", message, node, "add OVER (...), or GROUP BY a window")
        if isinstance(node, exp.Column):
            context.relation.resolve(node)
        return node

    columns: list[tuple[str, exp.Expr]] = []
    for node in select.expressions:
        if node.is_star:
            found = context.relation.projected([node]).definitions
            columns += [(each.name, column(each.name)) for each in found]
        else:
            columns.append((projected_name(node), node.unalias().transform(marked)))
    where = None if condition is None else condition.transform(marked)
    return ResolvedOver(tuple(columns), where, tuple(calls))
