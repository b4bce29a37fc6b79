"""SELECT with GROUP BY a window, resolved: the keys, the window, and which calls are aggregates of a group."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeGuard

from sqlglot import exp

from trimtab.engine.windows.aggregates import FUNCTIONS
from trimtab.engine.windows.assign import ClockWindow, SessionWindow
from trimtab.errors import QueryError
from trimtab.language.intervals import MICROSECOND, added, amount, interval_length
from trimtab.language.marks import CallMark, KeyMark
from trimtab.language.merge import Context
from trimtab.language.mistakes import instead_of, placed
from trimtab.language.relation import column, projected_name, spark_text
from trimtab.language.window_calls import Called, is_aggregate, read_call
from trimtab.language.window_frames import check_key, check_time
from trimtab.rowwise.types import is_time

START, END = "__start", "__end"
"""The names of a window's bounds in the operator's output."""
_WORDS = ("window", "session_window")
_MAX_WINDOWS = 10_000
_SIZE_HINT = "as in window(ts, '10 minutes') or window(ts, INTERVAL '10' MINUTE)"


@dataclass(frozen=True, slots=True)
class ResolvedGroup:
    """The grouping, the columns of the SELECT by their names, and HAVING.

    A key is a `KeyMark` into `keys` there, an aggregate a `CallMark` into `calls`, and the window's bounds are columns.
    """

    keys: tuple[exp.Expr, ...]
    window: ClockWindow | SessionWindow
    time: exp.Expr
    columns: tuple[tuple[str, exp.Expr], ...]
    condition: exp.Expr | None
    calls: tuple[Called, ...]


def resolve_group(context: Context, select: exp.Select, condition: exp.Expr | None) -> ResolvedGroup:
    """Resolve GROUP BY, the SELECT list and the condition of HAVING. Raises QueryError."""
    aliases = {each.alias.lower(): each.this for each in select.expressions if isinstance(each, exp.Alias)}
    keys, call = _grouping(select, context, aliases)
    window, time = _window(context, call)
    for key in keys:
        check_key(context, key)
    marking = _GroupMarks(context, keys, call, aliases)
    columns = []
    for node in select.expressions:
        if node.is_star:
            message = "with GROUP BY the columns of the result are named one by one"
            raise context.error("query.not-grouped", message, node)
        name = node.name.lower() if _is_window_call(node) else projected_name(node)  # as Spark calls it
        columns.append((name, marking.marked(node.unalias())))
    having = None if condition is None else marking.marked(condition)
    return ResolvedGroup(tuple(keys), window, time, tuple(columns), having, tuple(marking.calls))


@dataclass(frozen=True, slots=True)
class _GroupMarks:
    """Puts marks for keys and aggregates; `call` is the window's function as it is written in GROUP BY."""

    context: Context
    keys: list[exp.Expr]
    call: exp.Anonymous
    aliases: dict[str, exp.Expr]
    calls: list[Called] = field(default_factory=list)

    def marked(self, tree: exp.Expr) -> exp.Expr:
        return tree.transform(self._change)

    def _change(self, node: exp.Expr) -> exp.Expr:
        if self._is_window(node):
            # A struct by its fields, which DuckDB and Spark both understand.
            parts = {"start": START, "end": END}.items()
            fields = [exp.PropertyEQ(this=exp.to_identifier(n), expression=column(c)) for n, c in parts]
            return placed(exp.Struct(expressions=fields), node)
        if (part := self._window_part(node)) is not None:
            return placed(column(part), node)
        for number, key in enumerate(self.keys):
            if self._same(node, key):
                return placed(KeyMark(number=number), node)
        if is_aggregate(node):
            self.calls.append(read_call(self.context, node, FUNCTIONS, "with GROUP BY"))
            return placed(CallMark(number=len(self.calls) - 1), node)
        if isinstance(node, exp.Column):
            raise self._not_grouped(node)
        _check_not_foreign(self.context, node)
        return node

    def _is_window(self, node: exp.Expr) -> bool:
        if _is_window_call(node):
            if not self._same(node, self.call):
                message = f"this is another {node.name.lower()} than the one in GROUP BY"
                raise self.context.error("query.window-mixed", message, node, "write the same one")
            return True
        return isinstance(node, exp.Column) and not node.table and self._names_window(node.name)

    def _names_window(self, name: str) -> bool:
        return name.lower() == self.call.name.lower() or self.aliases.get(name.lower()) == self.call

    def _window_part(self, node: exp.Expr) -> str | None:
        """`window.start` and `window.end`, also of the call itself or an alias for it."""
        if isinstance(node, exp.Dot) and self._is_window(node.this):
            part = node.expression
        elif isinstance(node, exp.Column) and node.table and self._names_window(node.table):
            part = node.this
        else:
            return None
        found = {"start": START, "end": END}.get(part.name.lower())
        if found is None:
            raise self.context.error("query.column", f"a window has a start and an end, but no {part.name}", part)
        return found

    def _same(self, node: exp.Expr, other: exp.Expr) -> bool:
        """Whether two expressions are the same, however their columns are spelled."""
        if type(node) is not type(other):
            return False
        if node == other:
            return True
        try:
            mine, yours = (spark_text(self.context.relation.rewrite(each)).lower() for each in (node, other))
        except QueryError:  # a part of the window, or an alias: no key has one
            return False
        return mine == yours

    def _not_grouped(self, node: exp.Column) -> QueryError:
        """The error for a column that isn't a key. Raises another one if there is no such column."""
        self.context.relation.resolve(node)
        hint = f"add it to GROUP BY, or use any_value({node.name})"
        return self.context.error("query.not-grouped", f"{node.name} is neither grouped nor aggregated", node, hint)


def _is_window_call(node: exp.Expr) -> TypeGuard[exp.Anonymous]:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _WORDS


def _grouping(
    select: exp.Select, context: Context, aliases: dict[str, exp.Expr]
) -> tuple[list[exp.Expr], exp.Anonymous]:
    """The keys and the window of GROUP BY."""
    group = select.args["group"]
    for clause, value in group.args.items():
        if value and clause != "expressions":
            message = f"GROUP BY {clause.strip('_').replace('_', ' ').upper()} is not known here"
            raise context.error("query.window-group", message, group, "name the keys one by one")
    keys: list[exp.Expr] = []
    windows: list[exp.Anonymous] = []
    known = {name.lower() for name in context.schema.names}
    for node in group.expressions:
        meant = _meant(node, select, context, aliases, known)
        if _is_window_call(meant):
            windows.append(meant)
        else:
            keys.append(meant)
    if len(windows) == 1:
        return keys, windows[0]
    if windows:
        raise context.error("query.window-mixed", "there can be one window only", windows[1])
    for key in keys:
        _check_not_foreign(context, key)
    time = context.event_time or "ts"
    message = "an aggregation on a stream needs a window, or it would never be complete"
    raise context.error("query.window-missing", message, group, f"add window({time}, '10 minutes') to GROUP BY")


def _check_not_foreign(context: Context, node: exp.Expr) -> None:
    """Raise for a window function of another system."""
    if isinstance(node, exp.Anonymous) and (hint := instead_of(node.name)):
        raise context.error("query.window-missing", f"there is no function {node.name}", node, hint)


def _meant(
    node: exp.Expr, select: exp.Select, context: Context, aliases: dict[str, exp.Expr], known: set[str]
) -> exp.Expr:
    """What a grouping expression stands for: itself, or a place or alias in the SELECT list."""
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        place = int(node.name)
        if not 1 <= place <= len(select.expressions):
            raise context.error("query.window-group", f"the SELECT list has no column {place}", node)
        found: exp.Expr = select.expressions[place - 1]
        return found.unalias()
    if isinstance(node, exp.Column) and not node.table and node.name.lower() not in known:
        return aliases.get(node.name.lower(), node)
    return node


def _window(context: Context, call: exp.Anonymous) -> tuple[ClockWindow | SessionWindow, exp.Expr]:
    """The window that a call means, and its time."""
    word, args = call.name.lower(), call.expressions
    most = 4 if word == "window" else 2
    if not 2 <= len(args) <= most:
        message = f"{word} takes a time and {'a size, a slide and an offset' if most == 4 else 'a gap'}"
        raise context.error("query.window-size", message, call, _SIZE_HINT)
    type_ = context.relation.type_of(args[0])
    if not is_time(type_):
        message = f"{word} goes by a timestamp or a date, this is {type_}"
        raise context.error("query.window-time", message, args[0], "cast it to TIMESTAMP")
    check_time(context, args[0])
    lengths = [_length_us(context, arg, word) for arg in args[1:]]
    for arg, length in zip(args[1:3], lengths[:2], strict=False):
        if length <= 0:
            raise context.error("query.window-size", f"{word} needs a length above zero", arg, _SIZE_HINT)
    if word == "session_window":
        return SessionWindow(lengths[0]), args[0]
    size, slide = lengths[0], lengths[1] if len(lengths) > 1 else lengths[0]
    offset = lengths[2] if len(lengths) > 2 else 0
    if slide > size:
        message = "the slide is longer than the window, so some rows would be in none"
        raise context.error("query.window-size", message, args[2], "make it at most the size")
    if size // slide > _MAX_WINDOWS:
        message = f"every row would be in {size // slide:,} windows"
        raise context.error("query.window-size", message, args[2], f"let at most {_MAX_WINDOWS:,} overlap")
    if abs(offset) >= slide:
        message = "the offset must be shorter than the slide"
        raise context.error("query.window-size", message, args[3], "windows repeat every slide")
    return ClockWindow(size, slide, offset), args[0]


def _length_us(context: Context, node: exp.Expr, word: str) -> int:
    """A length of time: an interval, or Spark's text such as '1 hour 30 minutes'."""
    length = interval_length(node)
    if isinstance(node, exp.Literal) and node.is_string:
        pairs = re.findall(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)", node.name.lower())
        rest = re.sub(r"([+-]?\d+(?:\.\d+)?)\s*([a-z]+)|interval", "", node.name.lower()).strip()
        if pairs and not rest:
            length = added([amount(number, unit) for number, unit in pairs])
    if length is None:
        message = f"{word} needs a length of time that is always the same"
        raise context.error("query.window-size", message, node, _SIZE_HINT)
    return length // MICROSECOND
