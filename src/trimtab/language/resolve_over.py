"""SELECT with OVER, resolved: which calls cross rows, over which windows."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from trimtab.engine.windows.over_call import FUNCTIONS
from trimtab.language.context import Context
from trimtab.language.marks import CallMark
from trimtab.language.mistakes import placed
from trimtab.language.relation import column
from trimtab.language.select_list import projected_name, without_aliases
from trimtab.language.window_calls import Called, is_aggregate, read_call
from trimtab.language.window_frames import Over, read_over


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
    where: exp.Expr | None
    calls: tuple[WindowCall, ...]


def resolve_over(context: Context, select: exp.Select) -> ResolvedOver:
    """Resolve the SELECT list and QUALIFY. Raises QueryError."""
    named = {each.this.name.lower(): each for each in select.args.get("windows") or ()}
    marking = _OverMarks(context, named)
    columns: list[tuple[str, exp.Expr]] = []
    for node in select.expressions:
        if node.is_star:
            found = context.relation.projected([node]).definitions
            columns += [(each.name, column(each.name)) for each in found]
        else:
            columns.append((projected_name(node), marking.marked(node.unalias())))
    qualify = select.args.get("qualify")
    where = None if qualify is None else marking.marked(without_aliases(qualify.this, select, context))
    return ResolvedOver(tuple(columns), where, tuple(marking.calls))


@dataclass(frozen=True, slots=True)
class _OverMarks:
    context: Context
    named: dict[str, exp.Window]
    calls: list[WindowCall] = field(default_factory=list)

    def marked(self, tree: exp.Expr) -> exp.Expr:
        """The expression with marks instead of window functions."""
        return tree.transform(self._change)

    def _change(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            over = read_over(self.context, node, self.named)
            called = read_call(self.context, node.this, FUNCTIONS, "with OVER")
            self.calls.append(WindowCall(called, over, node))
            return placed(CallMark(number=len(self.calls) - 1), node)
        if is_aggregate(node):
            message = "an aggregate beside window functions needs its own OVER"
            raise self.context.error("query.window-mixed", message, node, "add OVER (...), or GROUP BY a window")
        if isinstance(node, exp.Column):
            self.context.relation.resolve(node)
        return node
