"""Experiments in a terminal: bars while they run, then the figures, the checks and the verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from trimtab.cli.texts import duration_text
from trimtab_lab.cells import cell_text, numeric_columns
from trimtab_lab.experiment import Check, Experiment, Table, Verdict
from trimtab_lab.page import verdict_text
from trimtab_lab.running import Failed, Found, Happening, Moved, Started

WIDTH_ELSEWHERE = 120
"""The width where there is no terminal."""

GOOD, BAD, DIM = "green", "bold red", "dim"


def console() -> Console:
    """The console of standard output; wide enough to read where it is a file or a pipe."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else WIDTH_ELSEWHERE, highlight=False)


def experiment_list(experiments: Sequence[Experiment]) -> RenderableType:
    """All experiments: ids in full, claims wrapped to the width of the terminal."""
    grid = _grid()
    for name in ("id", "paper", "figure"):
        grid.add_column(name, no_wrap=name == "id", overflow="fold")
    grid.add_column("claim", ratio=1)
    for each in experiments:
        grid.add_row(Text(each.id, "bold"), each.paper, each.figures, Text(each.claim))
    return grid


@contextmanager
def view(screen: Console, experiments: int, *, plain: bool = False) -> Iterator[Callable[[Happening], None]]:
    """Show progress: bars in a terminal, lines elsewhere; results are printed above the bars."""
    if plain or not screen.is_terminal:
        yield _Lines(screen).show
        return
    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=screen, transient=True) as bars:
        yield _Bars(bars, experiments).show


class _Lines:
    """A line when an experiment starts and for each quarter of it."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._quarters: dict[str, int] = {}

    def show(self, happening: Happening) -> None:
        match happening:
            case Started(id_):
                self._screen.print(f"{id_}: started", markup=False)
            case Moved(id_, done, note):
                quarter = int(done * 4)
                if quarter > self._quarters.get(id_, 0):
                    self._quarters[id_] = quarter
                    self._screen.print(f"{id_}: {done:.0%}" + (f", {note}" if note else ""), markup=False)
            case Found() | Failed():
                self._screen.print(outcome(happening))
            case _:
                assert_never(happening)


class _Bars:
    """A bar for each experiment that runs, and one for all of them if there are several."""

    def __init__(self, bars: Progress, experiments: int) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._all = bars.add_task("all", total=experiments, note="") if experiments > 1 else None

    def show(self, happening: Happening) -> None:
        match happening:
            case Started(id_):
                self._tasks[id_] = self._bars.add_task(id_, total=1.0, note="")
            case Moved(id_, done, note):
                self._bars.update(self._tasks[id_], completed=done, note=escape(note))
            case Found() | Failed():
                self._bars.remove_task(self._tasks.pop(happening.id))
                self._bars.console.print(outcome(happening))
                if self._all is not None:
                    self._bars.advance(self._all)
            case _:
                assert_never(happening)


def outcome(end: Found | Failed) -> RenderableType:
    """How an experiment ended: its tables, checks, verdict and files, or why it failed."""
    if isinstance(end, Failed):
        head = Text.assemble((end.id, "bold"), "  ", ("failed", BAD))
        return Group(Text(""), head, Text(end.message.rstrip()))
    record = end.record
    took = f"  seed {record.seed}, {record.scale.value}, {duration_text(record.seconds * 1000)}"
    origin = f"  {record.paper}, {record.figures}" if record.figures else f"  {record.paper}"
    parts: list[RenderableType] = [
        Text(""),
        Text.assemble((record.id, "bold"), origin, (took, DIM)),
        Text(record.claim, "italic"),
    ]
    for table in record.results.tables:
        parts += [Text(""), _titled(table)]
    parts += [Text(""), _checks(record.verdict.checks)]
    parts += [Text(f"note: {note}") for note in record.results.notes]
    parts += _verdict(record.verdict)
    folders = dict.fromkeys(str(file.parent) for file in end.files)
    files = [Text(f"files: {', '.join(file.name for file in end.files)} in {', '.join(folders)}", DIM)]
    return Group(*parts, *([Text(end.note, "yellow")] if end.note else []), *files)


def summary(found: Sequence[Found], failed: Sequence[str]) -> RenderableType:
    """All verdicts, a line each."""
    grid = _grid()
    for name in ("id", "verdict", "time"):
        grid.add_column(name, justify="right" if name == "time" else "left")
    for each in found:
        verdict = each.record.verdict
        style = GOOD if verdict.holds else BAD
        grid.add_row(each.id, Text(verdict_text(verdict), style), duration_text(each.record.seconds * 1000))
    for id_ in failed:
        grid.add_row(id_, Text("failed", BAD), "")
    held = sum(each.record.verdict.holds for each in found)
    return Group(Text(""), grid, Text(f"{held} of {len(found) + len(failed)} hold", "bold"))


def _titled(table: Table) -> RenderableType:
    grid = _grid()
    for name, is_number in zip(table.columns, numeric_columns(table), strict=True):
        grid.add_column(Text(name), justify="right" if is_number else "left", no_wrap=is_number)
    for row in table.rows:
        grid.add_row(*(Text(cell_text(cell)) for cell in row))
    return Group(Text(table.title, "bold"), grid) if table.title else grid


def _checks(checks: Sequence[Check]) -> RenderableType:
    grid = _grid()
    for name, share in (("", 0), ("check", 3), ("paper", 2), ("ours", 2)):
        grid.add_column(name, ratio=share or None)
    for check in checks:
        mark = Text("✓", GOOD) if check.holds else Text("✗", BAD)
        grid.add_row(mark, Text(check.sentence), Text(check.paper or "-"), Text(check.ours or "-"))
    return grid


def _verdict(verdict: Verdict) -> list[RenderableType]:
    style = f"bold {GOOD}" if verdict.holds else BAD
    parts: list[RenderableType] = [Text.assemble("the claim ", (verdict_text(verdict), style))]
    if verdict.reason:
        parts.append(Padding(Text(" ".join(verdict.reason.split())), (0, 0, 0, 2), expand=False))
    return parts


def _grid() -> Grid:
    return Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
