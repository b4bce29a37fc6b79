"""The result of a benchmark: tables of numbers with their spread, bars that hold or don't, and notes."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from enum import Enum
from typing import Any

from benchmarks.measure import Timing


@dataclass(frozen=True, slots=True)
class Number:
    """A measured value: the median over the rounds, and the smallest and largest of them."""

    value: float
    low: float
    high: float
    unit: str
    rounds: int

    def __str__(self) -> str:
        """With three digits, and with its spread if there is one."""
        shown = f"{_short(self.value)} {self.unit}".strip()
        if self.rounds < 2:
            return shown
        return f"{shown} ±{50 * (self.high - self.low) / self.value:.0f}%"


Cell = str | Number


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


class Side(Enum):
    """Whether a number has to be at least or at most the limit."""

    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit for a number, set before it was measured."""

    claim: str
    number: Number
    side: Side
    limit: float

    @property
    def holds(self) -> bool:
        """Whether the number is on the right side of the limit."""
        return self.number.value <= self.limit if self.side is Side.AT_MOST else self.number.value >= self.limit


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark's page."""

    title: str
    about: str
    tables: tuple[Table, ...]
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = ()


def seconds(timing: Timing) -> Number:
    """How long it takes."""
    return _number(list(timing.seconds), "s")


def milliseconds(timing: Timing) -> Number:
    """How long it takes, in milliseconds."""
    return _number([1e3 * s for s in timing.seconds], "ms")


def rate(timing: Timing) -> Number:
    """How many rows it processes a second."""
    return _number([timing.rows / s for s in timing.seconds], "rows/s")


def ratio(above: Timing, below: Timing) -> Number:
    """How many times as long the first takes, round by round."""
    return _number([a / b for a, b in zip(above.seconds, below.seconds, strict=True)], "x")


def as_json(result: Result) -> dict[str, Any]:
    """The result as plain data."""
    plain = dataclasses.asdict(result)
    for bar in plain["bars"]:
        bar["side"] = bar["side"].value
    return plain


def from_json(plain: dict[str, Any]) -> Result:
    """The result that `as_json` wrote.

    >>> bar = Bar("quick", Number(1.5, 1.4, 1.7, "x", 3), Side.AT_MOST, 2.0)
    >>> result = Result("T", "a", (Table(("n",), ((Number(1, 1, 1, "s", 1),), ("none",))),), (bar,))
    >>> from_json(as_json(result)) == result
    True
    """
    tables = tuple(
        Table(
            tuple(table["columns"]),
            tuple(tuple(cell if isinstance(cell, str) else Number(**cell) for cell in row) for row in table["rows"]),
            table["title"],
        )
        for table in plain["tables"]
    )
    bars = tuple(Bar(bar["claim"], Number(**bar["number"]), Side(bar["side"]), bar["limit"]) for bar in plain["bars"])
    return Result(plain["title"], plain["about"], tables, bars, tuple(plain["notes"]))


def _number(values: list[float], unit: str) -> Number:
    return Number(statistics.median(values), min(values), max(values), unit, len(values))


def _short(value: float) -> str:
    """Three digits, with separators instead of exponents.

    >>> _short(1234567.0), _short(12.345), _short(0.012345), _short(0.0)
    ('1,230,000', '12.3', '0.0123', '0')
    """
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"
