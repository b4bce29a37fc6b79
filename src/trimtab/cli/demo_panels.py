"""Two jobs side by side in the terminal: how level their engines are, and how fast they go.

`render` is a pure function of what the jobs said. Where there is no terminal, every batch is a line.
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

from trimtab.cli.bars import bar, sparkline
from trimtab.cli.demo_race import BALANCED, HASHED, Course
from trimtab.cli.quantities import duration_text, number_text, rate_text
from trimtab.runtime.progress import BatchProgress

REDRAW_S = 0.2
SMALL_COLUMNS = 76
"""Narrower terminals have one job below the other."""
LEVEL, UNEVEN = 15.0, 30.0
"""Below the first deviation, in percent, the engines are level; above the second they are not."""
TITLES = {
    HASHED: "hashed: keys stay where they are",
    BALANCED: "balanced: key groups move by themselves",
}


class RaceScreen:
    """Draws in a terminal; elsewhere prints lines. `phases`: the first batch of each phase of the stream."""

    def __init__(self, files: int, phases: Sequence[int], *, plain: bool) -> None:
        console = Console()
        is_drawn = not plain and console.is_terminal and not console.is_dumb_terminal
        is_drawn = is_drawn and console.encoding.startswith("utf")
        self._live = Live(console=console, auto_refresh=False) if is_drawn else None
        self._files, self._phases = files, tuple(phases)
        self._told: dict[str, int] = {}
        self._drawn_s = float("-inf")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show what it is told inside the block."""
        if self._live is None:
            yield
            return
        with self._live:
            self.update({HASHED: (), BALANCED: ()}, at_once=True)
            yield

    def update(self, batches: Mapping[str, Sequence[BatchProgress]], *, at_once: bool = False) -> None:
        """Take in all batches of each job so far."""
        if self._live is None:
            self._print(batches)
        elif at_once or time.monotonic() - self._drawn_s >= REDRAW_S:
            self._drawn_s = time.monotonic()
            picture = render(batches, self._files, self._phases, self._live.console.width)
            self._live.update(picture, refresh=True)

    def _print(self, batches: Mapping[str, Sequence[BatchProgress]]) -> None:
        for name, history in batches.items():
            for batch in history:
                if batch.batch > self._told.get(name, -1) and batch.events:
                    self._told[name] = batch.batch
                    if batch.batch in self._phases[1:]:
                        print(f"-- {name}: other cards are hot from here on", flush=True)
                    print(line(name, batch, self._files), flush=True)


def line(name: str, batch: BatchProgress, files: int) -> str:
    """One batch, for logs."""
    loads = " ".join(f"{engine.worked_ms:.0f}" for engine in batch.engines)
    moved = f"; {batch.moved:,} key groups moved" if batch.moved else ""
    return (
        f"{name:<8}  batch {batch.batch + 1:>2} of {files}: {batch.events:,} events in "
        f"{duration_text(batch.batch_ms)}; engines {loads} ms; RSTD {batch.rstd:.0f} %{moved}"
    )


def render(
    batches: Mapping[str, Sequence[BatchProgress]], files: int, phases: Sequence[int], width: int
) -> RenderableType:
    """Both jobs, side by side where that fits; bars of the same length are the same time."""
    done = {name: [batch for batch in history if batch.events] for name, history in batches.items()}
    most_ms = max((engine.worked_ms for each in done.values() for b in each[-1:] for engine in b.engines), default=0.0)
    is_wide = width >= SMALL_COLUMNS
    each_width = width // 2 if is_wide else max(1, width)
    panels = [_panel(name, history, files, phases, most_ms, each_width) for name, history in done.items()]
    if not is_wide:
        return Group(*panels)
    both = Table.grid()
    for _ in panels:
        both.add_column(width=each_width)
    both.add_row(*panels)
    return both


def _panel(
    name: str, history: Sequence[BatchProgress], files: int, phases: Sequence[int], most_ms: float, width: int
) -> RenderableType:
    inner = max(1, width - 4)  # the frame
    parts: list[RenderableType] = [_course(history, files, phases, inner)]
    if history:
        course = Course(tuple(history))
        room = max(0, inner - 26)
        parts += [
            _figure("events", rate_text(course.rates[-1]), course.rates, room, "green"),
            _figure("RSTD", f"{history[-1].rstd:.0f} %", [b.rstd for b in history], room, _style(history[-1].rstd)),
            Text.assemble(("moves   ", "bold"), f"{course.moved:,} key groups"),
            Text(),
            *_engines(history[-1], most_ms, inner),
        ]
    else:
        parts.append(Text("waiting for the first batch", style="dim"))
    is_over = len(history) == files
    note = f"done in {Course(tuple(history)).spent_s:.1f} s" if is_over else ""
    if width < 20:
        return Group(*parts)
    return Panel(
        Group(*parts),
        title=Text(TITLES.get(name, name), style="bold", overflow="ellipsis", no_wrap=True),
        title_align="left",
        subtitle=Text(note, style="bold green") if note else None,
        subtitle_align="left",
        border_style="dim",
        width=width,
    )


def _course(history: Sequence[BatchProgress], files: int, phases: Sequence[int], room: int) -> Text:
    """How far the job is, and in which phase of the stream."""
    phase = sum(len(history) - 1 >= first for first in phases) or 1
    text = Text.assemble(("batch   ", "bold"), f"{len(history)} of {files}, phase {phase} of {len(phases)}")
    cells = min(12, room - len(text.plain) - 2)
    if cells >= 4:
        share = len(history) / files
        text.append("  ").append(bar(share, cells), style="cyan").append("░" * (cells - len(bar(share, cells))), "dim")
    return text


def _figure(label: str, value: str, values: Sequence[float], room: int, style: str) -> Text:
    text = Text.assemble((f"{label:<8}", "bold"), (f"{value:<10}", f"bold {style}"))
    if room >= 6:
        text.append(sparkline(values[-min(30, room) :]), style=style)
    return text


def _engines(last: BatchProgress, most_ms: float, inner: int) -> list[Text]:
    mean_ms = sum(engine.worked_ms for engine in last.engines) / max(1, len(last.engines))
    cells = max(0, inner - 22)
    rows = []
    for engine in last.engines:
        text = Text(f"engine {engine.engine} ", no_wrap=True)
        if cells >= 3:
            drawn = bar(engine.worked_ms / most_ms if most_ms else 0.0, cells)
            # The slowest engine is what the batch waits for.
            text.append(drawn.ljust(cells), style="red" if engine.worked_ms > 1.3 * mean_ms else "green")
        rows.append(text.append(f" {duration_text(engine.worked_ms):>7}"))
    return [*rows, Text(f"{number_text(last.events)} events in the batch, {duration_text(last.batch_ms)}", style="dim")]


def _style(rstd: float) -> str:
    return "green" if rstd < LEVEL else "yellow" if rstd < UNEVEN else "red"
