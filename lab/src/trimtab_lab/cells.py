"""The cells of tables as text, the same in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab_lab.experiment import Cell, Table


def cell_text(cell: Cell) -> str:
    """A cell as text, with few digits; None is a dash.

    >>> [cell_text(cell) for cell in (22_000_000, 0.123456, 1234.5, 3.0, 1e-7, True, None, "KG")]
    ['22,000,000', '0.1235', '1,234', '3', '1e-07', 'yes', '-', 'KG']
    """
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return _number_text(cell)
        case str():
            return cell


def numeric_columns(table: Table) -> Sequence[bool]:
    """Which columns hold only numbers and None: those are aligned to the right.

    >>> numeric_columns(Table("", ("scheme", "ours", "paper"), (("KG", 1.5, 2), ("SG", 3.0, None))))
    [False, True, True]
    """
    return [
        all(
            cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))
            for cell in (row[place] for row in table.rows)
        )
        for place in range(len(table.columns))
    ]


def _number_text(value: float) -> str:
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size and size < 0.0001:
        return f"{value:.2g}"
    return f"{value:.4g}"
