"""A running job as a picture in the terminal: how fast, how late, how balanced. `batch_lines` is the same as text.

These are pure functions of the job's progress; the loop that reads the progress and the screen are in `run`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from trimtab.cli.intake_text import backlog_text, intake_text
from trimtab.cli.texts import bytes_text, duration_text, number_text, rate_text, time_text
from trimtab.driver.progress import BatchProgress, EngineProgress, Progress

SPARK_S = 60.0
"""The sparkline looks back this far."""

SHOWN_ENGINES = 16
"""Of more engines than this the busiest are shown, and one line counts the rest: a terminal has few rows."""

SMALL_COLUMNS = 46
"""Narrower terminals get the figures without drawings."""

STAGE_STYLES = ("cyan", "blue", "magenta", "yellow", "green", "red")
LABEL = "bold"
DIM = "dim"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"


def render(
    progress: Progress,
    history: Sequence[BatchProgress],
    width: int,
    *,
    now_s: float | None = None,
    title: str = "trimtab",
    note: str = "",
) -> RenderableType:
    """Draw a job's progress, for a terminal of `width` columns.

    `history` has the last batches, in any order (those of the last minute are enough). `now_s` is the time; by default
    that of the newest batch. `note` goes to the lower edge. Any width works; below 46 columns there are figures only.
    """
    inner = max(1, width - 4)  # the frame
    parts: list[RenderableType] = [_figures(progress, history, inner, now_s)]
    if engines := _engines(progress):
        parts += [Text(), _engine_rows(engines, inner)]
    if width < SMALL_COLUMNS:
        return Group(*parts, *([Text(note, style=DIM)] if note else []))
    return Panel(
        Group(*parts),
        title=Text(title, style=LABEL),
        title_align="left",
        subtitle=Text(note, style=DIM) if note else None,
        subtitle_align="left",
        border_style=DIM,
        width=width,
    )


def _figures(progress: Progress, history: Sequence[BatchProgress], width: int, now_s: float | None) -> Table:
    """One line per subject: its name, then its figures."""
    rows = _grid()
    rows.add_column(style=LABEL, no_wrap=True)
    rows.add_column(ratio=1)
    room = max(4, width - 12)
    rows.add_row("events", _speed(progress, history, room, now_s))
    many = len(progress.streams) > 1
    for name, last in progress.streams.items():
        rows.add_row(f"batch {last.batch}", _batch(name if many else "", last, room))
        rows.add_row("watermark", _watermark(name if many else "", last))
        if (intake := _intake(name if many else "", last)) is not None:
            rows.add_row("intake", intake)
    if not progress.streams:
        rows.add_row("batch", Text("waiting for the first one", style=DIM))
    rows.add_row("matches", _matches(progress))
    rows.add_row("rejected", _rejected(progress))
    if progress.streams:
        rows.add_row("state", _state(progress.streams.values()))
    return rows


def _speed(progress: Progress, history: Sequence[BatchProgress], room: int, now_s: float | None) -> Text:
    text = Text.assemble((rate_text(progress.events_per_s), "bold green"), f"  {number_text(progress.events)} in all")
    cells = min(30, room - len(text.plain) - 15)
    rates = minute_of_rates(history, cells, now_s) if cells >= 8 else []
    if any(rates):
        text.append(f"  {sparkline(rates)}", style="green").append(" last minute", style=DIM)
    return text


def minute_of_rates(history: Sequence[BatchProgress], cells: int, now_s: float | None = None) -> list[float]:
    """Events a second in equal stretches of the minute before now; a batch's events are spread over its duration."""
    if not history or cells < 1:
        return []
    newest_s = max(batch.finished_at_s for batch in history)
    end_s = newest_s if now_s is None else max(newest_s, now_s)  # clocks may be set back
    cell_s = SPARK_S / cells
    events = [0.0] * cells
    for batch in history:
        # Counted backwards from the newest batch, in stretches.
        length = max(batch.batch_ms / 1000, 1e-3) / cell_s
        newest = (end_s - batch.finished_at_s) / cell_s
        for back in range(int(newest), min(cells, int(newest + length) + 1)):
            overlap = min(back + 1, newest + length) - max(back, newest)
            events[cells - 1 - back] += batch.events * max(0.0, overlap) / length
    return [each / cell_s for each in events]


def _batch(stream: str, last: BatchProgress, room: int) -> Group:
    head = Text.assemble((f"{stream}  ", "italic") if stream else "", f"{duration_text(last.batch_ms)} for ")
    head.append(f"{number_text(last.events)} events")
    stages = [(name, ms) for name, ms in last.stages_ms.items() if ms > 0]
    if not stages:
        return Group(head)
    styles = [STAGE_STYLES[i % len(STAGE_STYLES)] for i in range(len(stages))]
    legend = Text()
    for (name, ms), style in zip(stages, styles, strict=True):
        legend.append("■ ", style=style).append(f"{name} {duration_text(ms)}  ")
    legend.rstrip()
    drawing = stacked_bar([ms for _, ms in stages], styles, min(60, room))
    return Group(head, drawing, legend) if room >= 24 else Group(head, legend)


def _watermark(stream: str, last: BatchProgress) -> Text:
    text = Text.assemble((f"{stream}  ", "italic") if stream else "")
    if last.watermark_us is None:
        return text.append("none yet", style=DIM)
    text.append(time_text(last.watermark_us))
    behind_ms = last.finished_at_s * 1000 - last.watermark_us / 1000
    # A stream that is far from the clock is a replay: the distance means nothing.
    if abs(behind_ms) < datetime.timedelta(days=7) / datetime.timedelta(milliseconds=1):
        word = "behind" if behind_ms >= 0 else "ahead of"
        text.append(f"  {duration_text(abs(behind_ms))} {word} the clock", style=DIM)
    return text


def _intake(stream: str, last: BatchProgress) -> Text | None:
    """How many rows batches may take, and how many wait; None for a stream that Spark reads."""
    limit = None if last.decision is None else last.decision.intake
    parts = [*([] if limit is None else [intake_text(limit)]), *backlog_text(last.backlog)]
    return Text.assemble((f"{stream}  ", "italic") if stream else "", ", ".join(parts)) if parts else None


def _matches(progress: Progress) -> Text:
    newest = {query: new for last in progress.streams.values() for query, new in last.matches.items()}
    text = Text()
    for query, total in progress.matches.items():
        text.append(f"{query} ", style="italic").append(number_text(total), style="bold")
        if newest.get(query):
            text.append(f" +{number_text(newest[query])}", style="green")
        text.append("   ")
    text.rstrip()
    return text if progress.matches else Text("none yet", style=DIM)


def _rejected(progress: Progress) -> Text:
    text = Text()
    for name, count in (("late", progress.late), ("quarantined", progress.quarantined)):
        text.append(f"{name} ").append(number_text(count), style="bold yellow" if count else "bold").append("   ")
    text.rstrip()
    return text


def _state(batches: Iterable[BatchProgress]) -> Text:
    last = list(batches)
    text = Text.assemble((bytes_text(sum(each.state_bytes for each in last)), "bold"), " live, ")
    text.append(f"{bytes_text(sum(each.state_bytes_written for each in last))} written")
    moved = sum(each.moved for each in last)
    return text.append(f", {number_text(moved)} key groups moved", style="bold magenta" if moved else "")


def _engines(progress: Progress) -> list[EngineProgress]:
    """Every engine's part of the last batch of all streams together."""
    parts: dict[int, list[EngineProgress]] = {}
    for last in progress.streams.values():
        for each in last.engines:
            parts.setdefault(each.engine, []).append(each)
    numbers = ("events", "busy_ms", "groups", "state_bytes")
    return [
        EngineProgress(engine, *(sum(getattr(each, name) for each in own) for name in numbers))
        for engine, own in sorted(parts.items())
    ]


def _engine_rows(engines: Sequence[EngineProgress], width: int) -> RenderableType:
    shown = engines
    if len(engines) > SHOWN_ENGINES:
        busiest = sorted(engines, key=lambda each: -each.busy_ms)[:SHOWN_ENGINES]
        shown = sorted(busiest, key=lambda each: each.engine)
    room = width - 38  # what the figures take
    bars = min(60, room) if room >= 6 else 0
    most = max(each.busy_ms for each in engines)
    mean = sum(each.busy_ms for each in engines) / len(engines)
    rows = _grid()
    rows.add_column(justify="right", no_wrap=True)
    if bars:
        rows.add_column(width=bars)
    for _ in range(3):
        rows.add_column(justify="right", no_wrap=True)
    names = [Text(name, style=DIM) for name in ("busy", "events", "groups")]
    rows.add_row(Text("engine", style=LABEL), *([Text("load", style=DIM)] if bars else []), *names)
    for each in shown:
        # An engine well above the others holds the batch up.
        style = "red" if each.busy_ms > 1.5 * mean and len(engines) > 1 else "green"
        drawing = [Text(bar(each.busy_ms / most if most else 0.0, bars), style=style)] if bars else []
        figures = (duration_text(each.busy_ms), number_text(each.events), number_text(each.groups))
        rows.add_row(str(each.engine), *drawing, *figures)
    if len(shown) == len(engines):
        return rows
    return Group(rows, Text(f"and {len(engines) - len(shown)} engines that were less busy", style=DIM))


def _grid() -> Table:
    return Table.grid(padding=(0, 2, 0, 0))


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
