"""Tables as text: aligned columns, numbers to the right."""

from __future__ import annotations

import datetime

import pyarrow as pa

from trimtab.rowwise.types import is_number

MAX_DIGITS = 6


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
