"""Rows of tests: with event times, in a short notation; and answers as bags, each row with its number of copies.

Neither batches nor engines change a bag.
"""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import pyarrow as pa

from trimtab.api.evaluate import as_arrow
from trimtab.errors import InputError

START = datetime.datetime(2026, 1, 1)
"""What seconds are counted from by default."""
DIGITS = 10
MAX_SHOWN = 5


def rows_at(columns: str, *rows: tuple[object, ...], start: datetime.datetime = START) -> pa.Table:
    """A table with an event time: the first value of each row is its time, in seconds after `start`.

    Args:
        columns: The names of the columns, that of the time first, with spaces between them.
        rows: A value for each column. A time may be a number of seconds, a timedelta or a datetime. Arrow infers the
            types of the other columns.
        start: What the seconds are counted from. With a time zone, the times have it, too.

    >>> rows_at("ts sensor heat", (0, "a", 91.0), (0.5, "b", None)).to_pylist()[1]
    {'ts': datetime.datetime(2026, 1, 1, 0, 0, 0, 500000), 'sensor': 'b', 'heat': None}
    """
    names = columns.split()
    for row in rows:
        if len(row) != len(names):
            raise InputError("input.value", f"{row} has {len(row)} values", f"give one for each of {', '.join(names)}")
    time, *others = zip(*rows, strict=True) if rows else ([] for _ in names)
    times = pa.array([_time(value, start) for value in time], pa.timestamp("us", start.tzinfo and str(start.tzinfo)))
    return pa.table([times, *(pa.array(list(values)) for values in others)], names=names)


def _time(value: object, start: datetime.datetime) -> datetime.datetime:
    match value:
        case datetime.datetime():
            return value
        case datetime.timedelta():
            return start + value
        case int() | float():
            return start + datetime.timedelta(seconds=value)
    raise InputError("input.value", f"{value!r} is not a time", "write seconds, a timedelta or a datetime")


def bag(table: Any, *, digits: int = DIGITS) -> list[str]:
    """The rows as texts, sorted: equal for tables that have the same rows, in any order.

    Args:
        table: An Arrow, pandas or polars table.
        digits: Floats are equal if this many digits are. NaN is NaN, and -0.0 is 0.0.

    >>> bag({"n": [2, 1], "x": [0.1 + 0.2, float("nan")]})
    ["{'n': 1, 'x': nan}", "{'n': 2, 'x': 0.3}"]
    """
    return sorted(_text(row, digits) for row in as_arrow("of rows", table).to_pylist())


def difference(expected: Any, found: Any, *, digits: int = DIGITS) -> str:
    """What two tables don't have in common, a line for each kind of row; empty if they have the same rows.

    >>> print(difference({"n": [1, 2, 2]}, {"n": [2, 3]}))
    missing: {'n': 1}
    missing: {'n': 2}
    too many: {'n': 3}
    """
    here, there = Counter(bag(expected, digits=digits)), Counter(bag(found, digits=digits))
    return "\n".join([*_lines("missing", here - there), *_lines("too many", there - here)])


def assert_same_rows(found: Any, expected: Any, *, digits: int = DIGITS) -> None:
    """Raise an AssertionError that names the rows unless both tables have the same, in any order.

    >>> assert_same_rows({"n": [2, 1]}, {"n": [1, 2]})
    """
    if text := difference(expected, found, digits=digits):
        raise AssertionError(f"the rows are not the expected ones\n{text}")


def _lines(what: str, rows: Counter[str]) -> list[str]:
    lines = [f"{what}: {row}" + (f" ({count} times)" if count > 1 else "") for row, count in sorted(rows.items())]
    more = len(lines) - MAX_SHOWN
    return lines if more <= 0 else [*lines[:MAX_SHOWN], f"{what}: {more} other kinds of row"]


def _text(value: Any, digits: int) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{name!r}: {_text(each, digits)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(_text(each, digits) for each in value) + "]"
        case float():
            return f"{value or 0.0:.{digits}g}"  # so that -0.0 is 0
    return repr(value)
