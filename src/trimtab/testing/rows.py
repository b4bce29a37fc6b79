"""Rows with event times, in a short notation for tests."""

from __future__ import annotations

import datetime

import pyarrow as pa

from trimtab.errors import InputError

START = datetime.datetime(2026, 1, 1)
"""What seconds are counted from by default."""


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
