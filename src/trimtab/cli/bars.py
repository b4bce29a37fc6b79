"""Drawings of one line, made of block characters: bars and sparklines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"


def bar(share: float, cells: int) -> str:
    """A bar that fills a share of `cells`, to an eighth of a cell; a share above zero is always visible.

    >>> bar(0.5, 5)
    '██▌'
    """
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    if share > 0:
        eighths = max(eighths, 1)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def stacked_bar(parts: Sequence[float], styles: Sequence[str], cells: int) -> Text:
    """Parts of a whole side by side, as whole cells that add up to `cells`.

    >>> stacked_bar([3, 1], ["red", "blue"], 4).plain
    '████'
    """
    total = sum(parts)
    text = Text()
    if total <= 0:
        return text
    # Rounding the edges instead of the lengths keeps the sum exact.
    done, edge = 0.0, 0
    for part, style in zip(parts, styles, strict=True):
        done += part
        next_edge = round(done / total * cells)
        text.append("█" * (next_edge - edge), style=style)
        edge = next_edge
    return text


def sparkline(values: Sequence[float]) -> str:
    """A line of heights: the largest value has the full height, and zero is a space.

    >>> sparkline([0, 1, 4, 8])
    ' ▁▄█'
    """
    most = max(values, default=0.0)
    if most <= 0:
        return " " * len(values)
    return "".join(_HEIGHTS[max(0, round(value / most * 8) - 1)] if value > 0 else " " for value in values)
