"""OVER (...): the partition, the order and the frame, with named windows filled in."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.windows.layout import Frame, Unit
from trimtab.language.intervals import MICROSECOND, interval_length
from trimtab.language.merge import Context
from trimtab.language.mistakes import did_you_mean
from trimtab.rowwise.types import is_number, is_time

_NO_FUTURE = "a frame can't reach past the current row: on a stream those rows haven't arrived yet"


@dataclass(frozen=True, slots=True)
class Over:
    """The contents of OVER: row-local expressions, those of the order as `exp.Ordered`, and the frame."""

    partition: tuple[exp.Expr, ...]
    order: tuple[exp.Expr, ...]
    frame: Frame


def read_over(context: Context, node: exp.Window, named: dict[str, exp.Window]) -> Over:
    """Read one OVER clause; `named` are those of the WINDOW clause. Raises QueryError."""
    node = _resolved(context, node, named)
    partition = tuple(node.args.get("partition_by") or ())
    for key in partition:
        check_key(context, key)
    ordered = node.args["order"].expressions if node.args.get("order") else []
    if not ordered:
        times = (field.name for field in context.schema if is_time(field.type))
        column = context.event_time or next(times, "a column")
        raise context.error("query.window-order", "a window over a stream needs an order", node, f"ORDER BY {column}")
    for each in ordered:
        context.relation.check_names(each.this)
    check_time(context, ordered[0])
    return Over(partition, tuple(ordered), _frame(context, node, ordered))


def check_key(context: Context, node: exp.Expr) -> None:
    """Raise if rows can't be grouped by an expression."""
    type_ = context.relation.type_of(node)
    if pa.types.is_nested(type_):
        raise context.error("query.type", f"rows can't be grouped by {type_}", node, "take its parts instead")


def check_time(context: Context, ordered: exp.Expr) -> None:
    """Raise if a window over a stream isn't in the order of its event time, forwards."""
    wanted = context.event_time
    if wanted is None:
        return
    node = ordered.this if isinstance(ordered, exp.Ordered) else ordered
    source = context.relation.resolve(node).expression if isinstance(node, exp.Column) else node
    if not isinstance(source, exp.Column) or source.name.lower() != wanted.lower():
        message = f"a window over a stream goes by its event time, {wanted}"
        raise context.error("query.window-time", message, node, f"write {wanted}")
    if ordered.args.get("desc"):
        message = "a stream can't be read backwards in time"
        raise context.error("query.window-time", message, ordered, f"ORDER BY {wanted} ASC")


def _resolved(context: Context, node: exp.Window, named: dict[str, exp.Window]) -> exp.Window:
    """The window with what the named one adds to it."""
    alias = node.args.get("alias")
    if alias is None:
        return node
    base = named.get(alias.name.lower())
    if base is None:
        hint = did_you_mean(alias.name, named, otherwise=f"add WINDOW {alias.name} AS (...)")
        raise context.error("query.window-name", f"no window named {alias.name}", alias, hint)
    if base.args.get("alias") is not None:
        rest = {name: each for name, each in named.items() if name != alias.name.lower()}
        base = _resolved(context, base, rest)
    merged = node.copy()
    merged.parent = node.parent
    merged.set("alias", None)
    for key in ("partition_by", "order", "spec"):
        if not merged.args.get(key) and base.args.get(key):
            found = base.args[key]
            merged.set(key, [each.copy() for each in found] if isinstance(found, list) else found.copy())
    return merged


def _frame(context: Context, node: exp.Window, ordered: list[exp.Expr]) -> Frame:
    spec = node.args.get("spec")
    if spec is None:
        return Frame(Unit.RANGE, None)
    kind = str(spec.args.get("kind") or "RANGE").upper()
    if kind not in Unit.__members__ or spec.args.get("exclude"):
        raise context.error("query.window-frame", "a frame is in ROWS or RANGE, without EXCLUDE", node)
    start, end = spec.args.get("start"), spec.args.get("end")
    sides = {str(spec.args.get(f"{which}_side") or "").upper() for which in ("start", "end")}
    at = end if isinstance(end, exp.Expr) else node
    if "FOLLOWING" in sides or _word(start) == "UNBOUNDED FOLLOWING" or _word(end).startswith("UNBOUNDED"):
        raise context.error("query.window-frame", _NO_FUTURE, at, "end it at CURRENT ROW")
    if end is not None and _word(end) != "CURRENT ROW":
        raise context.error("query.window-frame", "a frame ends at the current row", at, "write AND CURRENT ROW")
    if _word(start).startswith("UNBOUNDED"):
        return Frame(Unit[kind], None)
    return Frame(Unit[kind], _preceding(context, Unit[kind], start, ordered, node))


def _word(bound: object) -> str:
    return bound.upper() if isinstance(bound, str) else ""


def _preceding(
    context: Context, unit: Unit, start: exp.Expr | str | None, ordered: list[exp.Expr], node: exp.Window
) -> int | float:
    """How far a frame reaches back."""
    bound = exp.Literal.number(0) if not isinstance(start, exp.Expr) else start
    length = interval_length(bound)
    number = _number(bound)
    if unit is Unit.ROWS:
        if number is None or number != int(number):
            hint = "write RANGE, to go by time" if length is not None else "write it out, as in 10 PRECEDING"
            raise context.error("query.window-frame", "ROWS counts rows, in whole numbers", bound, hint)
        return int(number)
    return _range(context, length, number, bound if isinstance(start, exp.Expr) else node, ordered)


def _range(
    context: Context, length: datetime.timedelta | None, number: float | None, at: exp.Expr, ordered: list[exp.Expr]
) -> int | float:
    key = ordered[0]
    type_ = context.relation.type_of(key.this)
    if len(ordered) > 1:
        message = "RANGE with a length needs a single ORDER BY column"
        raise context.error("query.window-frame", message, ordered[1], "or count ROWS")
    if key.args.get("desc"):
        raise context.error("query.window-frame", "RANGE with a length needs an ascending order", key)
    if is_time(type_):
        if number == 0 and length is None:
            return 0  # CURRENT ROW
        if length is None or length < datetime.timedelta():
            message = "the order is by time, so RANGE needs a length of time that is always the same"
            unit = f"INTERVAL '{number:g}' SECOND" if number is not None else "INTERVAL '1' HOUR"
            hint = f"as in RANGE BETWEEN {unit} PRECEDING AND CURRENT ROW"
            raise context.error("query.window-frame", message, at, hint)
        return length // MICROSECOND
    if is_number(type_) and not pa.types.is_decimal(type_):
        if number is None:
            message = f"the order is by {type_}, so RANGE needs a number"
            raise context.error("query.window-frame", message, at, "as in RANGE BETWEEN 10 PRECEDING AND CURRENT ROW")
        return number
    message = f"RANGE with a length needs an order by time or number, this is {type_}"
    raise context.error("query.window-frame", message, key, "or count ROWS")


def _number(node: exp.Expr) -> float | int | None:
    """A number that is written out and not negative."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    return int(node.name) if node.name.isdigit() else float(node.name)
