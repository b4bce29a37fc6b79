"""What an experiment is: a claim of a paper, a seeded workload, results in rows, and a verdict that may be no.

Pure values: nothing here prints, draws or writes. `run` computes, `holds` judges, `draw` fills a figure.
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
    """As in the paper, or as near as the machine allows: what docs/lab.md shows."""

    REDUCED = "reduced"
    """The same verdicts from less data, in seconds: what the tests run."""


def _silent(_done: float, _note: str) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an experiment is run with. `progress(done, note)` takes a share from 0 to 1."""

    scale: Scale = Scale.FULL
    seed: int = 1
    progress: Callable[[float, str], None] = _silent


@dataclass(frozen=True, slots=True)
class Table:
    """Figures for reading: ours, and the paper's beside them where it prints any (None: it prints none)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Results:
    """What a run found. The plot is drawn from `series`, and the JSON file keeps it: plain lists and numbers."""

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
    """Whether the claim holds: when every check does. `reason` says why one does not, as far as we found."""

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
    figures   what it regenerates: "figure 4"
    claim     the paper's claim in a sentence
    workload  what it runs on, and where that differs from the paper's
    run       settings -> results; same settings, same results (times apart: see below)
    holds     results -> verdict
    draw      (results, figure) -> None; fills an empty matplotlib figure, which lays itself out (constrained)
    alone     its figures depend on how fast the machine is (a planner stopped by its time limit, a speed that is the
              claim): nothing else runs beside it, and a second run need not find exactly the same
    live      it runs on Spark; runs that such experiments have in common are made once a process

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
