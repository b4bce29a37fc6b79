"""The steps of a demonstration before the first batch: a line for each, with the seconds it takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def can_draw(console: Console, *, plain: bool) -> bool:
    """Whether this is a terminal that can show and redraw block characters."""
    is_terminal = console.is_terminal and not console.is_dumb_terminal
    return not plain and is_terminal and console.encoding.startswith("utf")


@contextmanager
def step(text: str, *, plain: bool) -> Iterator[None]:
    """Print what is done inside the block. In a terminal a clock runs beside it; elsewhere there are two lines."""
    began, console = time.monotonic(), Console()
    if can_draw(console, plain=plain):
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            progress.add_task(text, total=None)
            yield
    else:
        print(f"{text} ...", flush=True)
        yield
    print(f"{text}: done in {time.monotonic() - began:.1f} s", flush=True)
