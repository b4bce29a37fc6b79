"""What an experiment is: a claim of a paper, a seeded workload, results in rows, and a verdict, which may be negative.

Only values: nothing here prints, draws or writes. `run` computes, `holds` judges, `draw` fills a figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | float | int | bool | None


class Scale(Enum):
    """How much of an experiment to run."""

    FULL = "full"
    """As in the paper, or as near to it as the machine allows: the results of docs/lab.md."""

    REDUCED = "reduced"
    """The same verdicts from less data, in seconds: for the tests."""


def _silent(_done: float, _note: str) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. `progress(done, note)` is called with a share from 0 to 1."""

    scale: Scale = Scale.FULL
    seed: int = 1
    progress: Callable[[float, str], None] = _silent


@dataclass(frozen=True, slots=True)
class Table:
    """Our figures, and the paper's beside them where it prints any (None: it prints none)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run. `series` is drawn, and written to the JSON file: plain lists and numbers."""

    tables: tuple[Table, ...]
    series: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One sentence that can be true or false, with the paper's figure and ours in words."""

    sentence: str
    holds: bool
    paper: str = ""
    ours: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the claim holds, that is, every check does. `reason`: why one does not, as far as we know."""

    checks: tuple[Check, ...]
    reason: str = ""

    @property
    def holds(self) -> bool:
        """True if every check is."""
        return all(check.holds for check in self.checks)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table or figure of a paper (or a row beyond it).

    id        as `trimtab lab ID` takes it
    paper     author and year, for instance "Nasir 2017"; "beyond the papers" for our own
    figures   what it reproduces: "figure 4"
    claim     the paper's claim in a sentence
    workload  its input, and where that differs from the paper's
    run       settings -> results; same settings, same results (times apart: see below)
    holds     results -> verdict
    draw      (results, figure) -> None; fills an empty matplotlib figure, which lays itself out (constrained)
    alone     its figures depend on the speed of the machine (a planner stopped by its time limit, a claim about speed):
              nothing else runs beside it, and a second run need not have exactly the same results
    live      it runs on Spark; a process makes runs that several experiments share only once

    A column of a table, a row's first cell or a key of `series` that ends in "_s", "_ms", "seconds" or "(s)" holds
    times: these may differ from run to run.
    """

    id: str
    paper: str
    figures: str
    claim: str
    workload: str
    run: Callable[[Settings], Results]
    holds: Callable[[Results], Verdict]
    draw: Callable[[Results, Figure], None]
    size_inches: tuple[float, float] = (9.0, 4.0)
    alone: bool = False
    live: bool = False


def rows_of(columns: Sequence[str], records: Sequence[Mapping[str, Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Records as the rows of a `Table`.

    >>> rows_of(("a", "b"), [{"a": 1, "b": 2}, {"b": 4}])
    ((1, 2), (None, 4))
    """
    return tuple(tuple(record.get(column) for column in columns) for record in records)
