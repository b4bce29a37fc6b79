"""The view of the demonstration's job: the live view of `trimtab run`, with a line for every change above it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from trimtab.cli.batch_lines import batch_line
from trimtab.cli.live_view import render
from trimtab.driver.progress import BatchProgress, Progress

REDRAW_S = 0.25


class DemoView:
    """Draws in a terminal; elsewhere every batch and every change is a line."""

    def __init__(self, *, plain: bool) -> None:
        console = Console()
        is_drawn = not plain and console.is_terminal and console.encoding.startswith("utf")
        self._live = Live(console=console, auto_refresh=False) if is_drawn else None
        self._before = Progress()
        self._told = -1
        self._drawn_s = float("-inf")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside the block, show progress and changes."""
        if self._live is None:
            yield
            return
        with self._live:
            yield

    def announce(self, text: str) -> None:
        """Print a line about a change."""
        if self._live is None:
            print(f"-- {text}", flush=True)
        else:
            self._live.console.print(f"[bold magenta]--[/] {text}", highlight=False)

    def update(self, progress: Progress, history: Sequence[BatchProgress]) -> None:
        """Show the job's progress; `history` has all batches, those before a restart too."""
        for batch in history:
            if batch.batch > self._told:
                self._told = batch.batch
                if self._live is None:
                    print(batch_line(batch), flush=True)
        if self._live is not None and time.monotonic() - self._drawn_s >= REDRAW_S:
            self._draw(progress, history)

    def end_run(self, progress: Progress, history: Sequence[BatchProgress]) -> None:
        """Show the last progress of a run, and add its totals to those of the next run."""
        self.update(progress, history)
        if self._live is not None:
            self._draw(progress, history)
        self._before = added(self._before, progress)

    def _draw(self, progress: Progress, history: Sequence[BatchProgress]) -> None:
        assert self._live is not None
        self._drawn_s = time.monotonic()
        whole = added(self._before, progress)
        width = self._live.console.width
        self._live.update(render(whole, history, width, now_s=time.time(), title="trimtab demo"), refresh=True)


def added(before: Progress, now: Progress) -> Progress:
    """The progress of a restarted job, with what it did before the restart."""
    queries = {**before.matches, **now.matches}
    return replace(
        now,
        streams=now.streams or before.streams,
        batches=before.batches + now.batches,
        events=before.events + now.events,
        late=before.late + now.late,
        quarantined=before.quarantined + now.quarantined,
        matches={query: before.matches.get(query, 0) + now.matches.get(query, 0) for query in queries},
    )
