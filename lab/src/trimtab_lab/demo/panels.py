"""Two jobs side by side in the terminal: how even the load of their engines is, and how fast they are.

`render` is a pure function of the jobs' progress. Where there is no terminal, every batch is a line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from trimtab.cli.live_view import bar, sparkline
from trimtab.cli.texts import duration_text, number_text, rate_text
from trimtab.driver.progress import BatchProgress
from trimtab_lab.demo.race import BALANCED, HASHED, NAMES, Course, slowest_ms, worked_ms
from trimtab_lab.demo.steps import can_draw

REDRAW_S = 0.2
SMALL_COLUMNS = 76
"""Narrower terminals have one job below the other."""
LEVEL, UNEVEN = 15.0, 30.0
"""Below the first deviation, in percent, the load is even; above the second it is not."""
TITLES = {HASHED: "hashed: keys stay where they are", BALANCED: "balanced: key groups move by themselves"}


class RaceScreen:
    """Draws both jobs in a terminal; elsewhere prints lines."""

    def __init__(self, files: int, *, plain: bool) -> None:
        console = Console()
        self._live = Live(console=console, auto_refresh=False) if can_draw(console, plain=plain) else None
        self._files = files
        self._printed: dict[str, int] = {}
        self._drawn_s = float("-inf")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside the block, show what `update` is given."""
        if self._live is None:
            yield
            return
        with self._live:
            self.update({}, at_once=True)
            yield

    def update(self, batches: Mapping[str, Sequence[BatchProgress]], *, at_once: bool = False) -> None:
        """Show all batches so far of each started job."""
        if self._live is None:
            self._print(batches)
        elif at_once or time.monotonic() - self._drawn_s >= REDRAW_S:
            self._drawn_s = time.monotonic()
            self._live.update(render(batches, self._files, self._live.console.width), refresh=True)

    def _print(self, batches: Mapping[str, Sequence[BatchProgress]]) -> None:
        for name, history in batches.items():
            if name not in self._printed:
                self._printed[name] = -1
                print(f"{name:<8}  starts; in its first batch Spark starts its workers", flush=True)
            for batch in history:
                if batch.batch > self._printed[name] and batch.events:
                    self._printed[name] = batch.batch
                    print(line(name, batch, self._files), flush=True)


def line(name: str, batch: BatchProgress, files: int) -> str:
    """One batch as a line of a log."""
    loads = " ".join(f"{engine.worked_ms:.0f}" for engine in batch.engines)
    moved = f"; {batch.moved:,} key groups moved" if batch.moved else ""
    return (
        f"{name:<8}  batch {batch.batch + 1:>2} of {files}: {batch.events:,} events in "
        f"{duration_text(batch.batch_ms)}; engines {loads} ms; RSTD {batch.rstd:.0f} %{moved}"
    )


def render(batches: Mapping[str, Sequence[BatchProgress]], files: int, width: int) -> RenderableType:
    """Both jobs, side by side where that fits; bars of the same length stand for the same time."""
    courses = {name: Course.of(history) for name, history in batches.items()}
    most_ms = max((slowest_ms(batch) for course in courses.values() for batch in course.batches[-1:]), default=0.0)
    is_wide = width >= SMALL_COLUMNS
    each_width = width // 2 if is_wide else max(1, width)
    panels = [_panel(name, courses.get(name), files, most_ms, each_width) for name in NAMES]
    if not is_wide:
        return Group(*panels)
    both = Table.grid()
    for _ in panels:
        both.add_column(width=each_width)
    both.add_row(*panels)
    return both


def _panel(name: str, course: Course | None, files: int, most_ms: float, width: int) -> RenderableType:
    inner = max(1, width - 4)  # the frame
    parts: list[RenderableType] = []
    note = ""
    if course is None:
        parts.append(Text("waits for its turn", style="dim"))
    elif not course.batches:
        parts.append(Text("waiting for the first batch, in which Spark starts its workers", style="dim"))
    else:
        last, room = course.batches[-1], max(0, inner - 26)
        rstds = [batch.rstd for batch in course.batches]
        parts += [
            _position(len(course.batches), files, inner),
            _figure("events", rate_text(course.rates[-1]), course.rates, room, "green"),
            _figure("RSTD", f"{last.rstd:.0f} %", rstds, room, _style(last.rstd)),
            Text.assemble(("moves   ", "bold"), f"{course.moved:,} key groups"),
            Text(),
            *_engines(last, most_ms, inner),
        ]
        note = f"done in {course.spent_s:.1f} s after the first batch" if len(course.batches) == files else ""
    if width < 20:
        return Group(*parts)
    return Panel(
        Group(*parts),
        title=Text(TITLES[name], style="bold", overflow="ellipsis", no_wrap=True),
        title_align="left",
        subtitle=Text(note, style="bold green") if note else None,
        subtitle_align="left",
        border_style="dim",
        width=width,
    )


def _position(done: int, files: int, room: int) -> Text:
    """How far the job is."""
    text = Text.assemble(("batch   ", "bold"), f"{done} of {files}")
    cells = min(20, room - len(text.plain) - 2)
    if cells >= 4:
        full = bar(done / files, cells)
        text.append("  ").append(full, style="cyan").append("░" * (cells - len(full)), "dim")
    return text


def _figure(label: str, value: str, values: Sequence[float], room: int, style: str) -> Text:
    text = Text.assemble((f"{label:<8}", "bold"), (f"{value:<10}", f"bold {style}"))
    if room >= 6:
        text.append(sparkline(values[-min(30, room) :]), style=style)
    return text


def _engines(last: BatchProgress, most_ms: float, inner: int) -> list[Text]:
    mean_ms = worked_ms(last) / max(1, len(last.engines))
    cells = max(0, inner - 18)  # without the width of the figures
    rows = []
    for engine in last.engines:
        text = Text(f"engine {engine.engine} ", no_wrap=True)
        if cells >= 3:
            drawn = bar(engine.worked_ms / most_ms if most_ms else 0.0, cells)
            # The batch waits for the slowest engine.
            text.append(drawn.ljust(cells), style="red" if engine.worked_ms > 1.3 * mean_ms else "green")
        rows.append(text.append(f" {duration_text(engine.worked_ms):>7}"))
    return [*rows, Text(f"{number_text(last.events)} events in the batch, {duration_text(last.batch_ms)}", style="dim")]


def _style(rstd: float) -> str:
    return "green" if rstd < LEVEL else "yellow" if rstd < UNEVEN else "red"
