"""Lengths of time as they are written: INTERVAL '1' HOUR, INTERVAL 90 MINUTES."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from trimtab.errors import InputError

UNIT_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_SPAN = re.compile(r"(?P<sign>[+-]?)(?:(?P<day>\d+)\s+)?(?P<clock>\d+(?::\d+)*(?:\.\d+)?)")
_CLOCK = ("DAY", "HOUR", "MINUTE", "SECOND")
MICROSECOND = datetime.timedelta(microseconds=1)


def interval_length(node: exp.Expr) -> datetime.timedelta | None:
    """The length of an interval literal, None if the node isn't one or has no fixed length.

    >>> from sqlglot import parse_one
    >>> interval_length(parse_one("INTERVAL '90' MINUTE", read="spark"))
    datetime.timedelta(seconds=5400)
    """
    match node:
        case exp.Paren():
            return interval_length(node.this)
        case exp.Neg():
            inner = interval_length(node.this)
            return None if inner is None else -inner
        case exp.Add() | exp.Sub():
            left, right = interval_length(node.this), interval_length(node.expression)
            if left is None or right is None:
                return None
            return left + right if isinstance(node, exp.Add) else left - right
        case exp.Interval():
            return _literal(node)
    return None


def _literal(node: exp.Interval) -> datetime.timedelta | None:
    unit, value = node.args.get("unit"), node.this
    negative = isinstance(value, exp.Neg)
    text = value.this.name if negative else getattr(value, "name", "")
    if isinstance(unit, exp.IntervalSpan):
        length = _span(text, unit.this.name.upper(), unit.expression.name.upper())
    elif isinstance(unit, exp.Var):
        length = amount(text, unit.name)
    else:
        length = None
    return -length if length is not None and negative else length


def amount(text: str, unit: str) -> datetime.timedelta | None:
    """The length of a number of units; None if that isn't a fixed length, or too long for a timedelta.

    >>> amount("1.5", "hours"), amount("1", "month")
    (datetime.timedelta(seconds=5400), None)
    """
    one = UNIT_US.get(unit.upper().removesuffix("S"))
    if one is None or not re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text) or len(text) > 30:
        return None
    # Decimal, because a float of seconds isn't exact to the microsecond.
    micros = Decimal(text.strip()) * one
    try:
        return int(micros) * MICROSECOND
    except OverflowError:
        return None


def _span(text: str, first: str, last: str) -> datetime.timedelta | None:
    """`'1 02:30' DAY TO MINUTE`: the units from the first to the last, biggest first."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or first not in _CLOCK or last not in _CLOCK or len(text) > 30:
        return None
    units = _CLOCK[_CLOCK.index(first) : _CLOCK.index(last) + 1]
    numbers = [*([found["day"]] if found["day"] else []), *found["clock"].split(":")]
    if len(numbers) != len(units):
        return None
    total = added([amount(number, unit) for number, unit in zip(numbers, units, strict=True)])
    return -total if total is not None and found["sign"] == "-" else total


def added(parts: Sequence[datetime.timedelta | None]) -> datetime.timedelta | None:
    """The sum of lengths; None if one of them is None."""
    return None if None in parts else sum((part for part in parts if part is not None), datetime.timedelta())


def delay_us(delay: str | datetime.timedelta | None) -> int:
    """A delay in microseconds; users give it as text ("2 seconds"), as a timedelta, or not at all."""
    if isinstance(delay, str):
        number, _, unit = delay.strip().partition(" ")
        length = amount(number, unit.strip())
    else:
        length = datetime.timedelta() if delay is None else delay
    if not isinstance(length, datetime.timedelta) or length < datetime.timedelta():
        raise InputError("input.delay", f"{delay!r} is not a length of time", 'write for example "2 seconds"')
    return length // MICROSECOND
