"""Time in a MATCH_RECOGNIZE: the bound of WITHIN, and the order that a stream of events needs."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from sqlglot import exp

from trimtab.language.context import Context
from trimtab.language.dialect import MatchRecognize, WithinClause
from trimtab.language.intervals import MICROSECOND, amount, interval_length
from trimtab.language.keys import Ordering
from trimtab.language.mistakes import node_start
from trimtab.language.patterns import ParsedPattern
from trimtab.rowwise.types import is_time


def within_us(context: Context, node: MatchRecognize, parsed: ParsedPattern, order: Sequence[Ordering]) -> int | None:
    """The bound of WITHIN in microseconds, None without the clause."""
    length = node.args.get("within")
    if length is None:
        if parsed.timeout:
            message = "TIMEOUT needs a WITHIN: it means that this time has passed"
            hint = "add WITHIN INTERVAL '1' HOUR after the pattern"
            raise context.error("query.timeout-within", message, parsed.timeout, hint)
        return None
    span = _span(context, length)
    if span <= datetime.timedelta():
        raise context.error("query.within-positive", "WITHIN needs a length of time above zero", length)
    if not order or not is_time(order[0].definition.type) or order[0].descending:
        at = order[0].written if order else length
        message = "WITHIN needs the rows in order of time"
        raise context.error("query.within-time", message, at, "ORDER BY a timestamp or date first")
    return span // MICROSECOND


def _span(context: Context, length: WithinClause) -> datetime.timedelta:
    value, unit = length.this, length.args.get("unit")
    is_number = isinstance(value, exp.Literal) and not value.is_string
    if unit is None and is_number:
        message = f"WITHIN needs a length of time, found the number {value.name}"
        hint = f"write the unit, for example WITHIN {value.name} SECONDS"
        raise context.error("query.within-unit", message, value, hint)
    span = interval_length(value) if unit is None else None
    if unit is not None and is_number:
        span = amount(value.name, unit.name)
    elif unit is not None and isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal):
        span = amount(f"-{value.this.name}", unit.name)
    if span is None:
        hint = "in weeks, days, hours, minutes or seconds, as in INTERVAL '1' HOUR"
        raise context.error("query.within-unit", "WITHIN needs a length of time that is always the same", length, hint)
    return span


def check_event_time(context: Context, order: Sequence[Ordering], node: exp.Expr) -> None:
    """Raise if a query over a stream isn't ordered by its event time first, which is how a stream is read."""
    wanted = context.event_time
    if wanted is None:
        return
    hint = f"ORDER BY {wanted}"
    if not order:
        message = "a query over a stream needs an order in time"
        raise context.error("query.order-missing", message, node_start(node), hint)
    first = order[0].definition
    name = first.expression.name if isinstance(first.expression, exp.Column) else first.name
    if name.lower() != wanted.lower():
        message = f"the first ORDER BY column of a stream is its event time, {wanted}"
        raise context.error("query.order-time", message, order[0].written, hint)
    if order[0].descending:
        message = "a stream can't be read backwards in time"
        raise context.error("query.order-time", message, order[0].written, f"{hint} ASC")
