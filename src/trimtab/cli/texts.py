"""Values as people read them: numbers, rates, sizes, lengths and points of time; tables with aligned columns."""

from __future__ import annotations

import datetime
import re

import pyarrow as pa

from trimtab.errors import InputError
from trimtab.language.intervals import amount
from trimtab.rowwise.types import is_number

MAX_DIGITS = 6
_SHORT_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def number_text(value: int) -> str:
    """With separators; shortened from ten million on.

    >>> number_text(12345), number_text(123_456_789)
    ('12,345', '123.5 M')
    """
    if value < 10_000_000:
        return f"{value:,}"
    return f"{value / 1e6:,.1f} M" if value < 10_000_000_000 else f"{value / 1e9:,.1f} G"


def rate_text(per_s: float) -> str:
    """Events a second.

    >>> rate_text(1234.5), rate_text(0.25)
    ('1,234/s', '0.2/s')
    """
    return f"{per_s:.1f}/s" if 0 < per_s < 10 else f"{number_text(int(per_s))}/s"


def bytes_text(size: int) -> str:
    """In units of a thousand.

    >>> bytes_text(950), bytes_text(1_234_567)
    ('950 B', '1.2 MB')
    """
    amount_, unit = float(size), "B"
    for next_unit in ("kB", "MB", "GB", "TB"):
        if amount_ < 1000:
            break
        amount_, unit = amount_ / 1000, next_unit
    return f"{amount_:.0f} {unit}" if unit == "B" else f"{amount_:.1f} {unit}"


def duration_text(length_ms: float) -> str:
    """In the unit that leaves few digits.

    >>> duration_text(0.4), duration_text(312.4), duration_text(4_200), duration_text(200_000), duration_text(9e7)
    ('0.4 ms', '312 ms', '4.2 s', '3 min 20 s', '1 d 1 h')
    """
    if length_ms < 9_950:
        if 0.05 <= length_ms < 9.95 and length_ms != int(length_ms):
            return f"{length_ms:.1f} ms"
        return f"{length_ms:.0f} ms" if length_ms < 1000 else f"{length_ms / 1000:.1f} s"
    seconds = round(length_ms / 1000)
    if seconds < 60:
        return f"{seconds} s"
    for big, big_s, small, small_s in (("min", 60, "s", 1), ("h", 3600, "min", 60), ("d", 86_400, "h", 3600)):
        if seconds < big_s * (60 if big == "min" else 24) or big == "d":
            rest = seconds % big_s // small_s
            return f"{seconds // big_s} {big}" + (f" {rest} {small}" if rest else "")
    raise AssertionError  # days have no end


def time_text(time_us: int) -> str:
    """A point in time to the millisecond, in UTC.

    >>> time_text(1_767_225_600_250_000)
    '2026-01-01 00:00:00.250 UTC'
    """
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=time_us)
    except OverflowError:  # sentinels at the ends of int64
        return f"{time_us} us"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"


def read_duration_s(text: str) -> float:
    """A length of time, as users type it, in seconds.

    >>> read_duration_s("30s"), read_duration_s("1.5 minutes")
    (30.0, 90.0)

    Raises InputError `input.value`.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    length = amount(found[1], _SHORT_UNITS.get(found[2].lower(), found[2])) if found else None
    if length is None:
        raise InputError("input.value", f"{text} is not a length of time", 'write for example 30s, 5m or "2 hours"')
    return length.total_seconds()


def text_table(table: pa.Table, limit: int = 40) -> str:
    """The first rows under their names, and how many there are in all.

    >>> print(text_table(pa.table({"symbol": ["KEEL", "HELM"], "price": [7.5, None]})))
    symbol  price
    ------  -----
    KEEL      7.5
    HELM     null
    2 rows
    """
    shown = table.slice(0, limit)
    columns = []
    for name, column in zip(shown.column_names, shown.columns, strict=True):
        cells = [name, *_cells(column)]
        width = max(map(len, cells))
        cells.insert(1, "-" * width)
        columns.append([cell.rjust(width) if is_number(column.type) else cell.ljust(width) for cell in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    rows = f"{table.num_rows:,} row{'' if table.num_rows == 1 else 's'}"
    lines.append(rows if table.num_rows <= limit else f"the first {limit} of {rows}")
    return "\n".join(lines)


def _cells(column: pa.ChunkedArray) -> list[str]:
    """The values as text; decimal points are aligned where the values are short enough."""
    values = column.to_pylist()
    cells = [_cell(value) for value in values]
    if not pa.types.is_floating(column.type):
        return cells
    digits = [len(cell.partition(".")[2]) for cell in cells if cell.lstrip("-").replace(".", "", 1).isdigit()]
    known = [value for value in values if value is not None]
    if len(digits) < len(known) or max(digits, default=0) > MAX_DIGITS:
        return cells
    return [cell if value is None else f"{value:.{max(digits)}f}" for cell, value in zip(cells, values, strict=True)]


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ")
        return text[:-3] if value.microsecond and not value.microsecond % 1000 and value.tzinfo is None else text
    return repr(value) if isinstance(value, float) else str(value).replace("\n", "\\n")
