"""The picture of the demonstration on Spark: what each engine did in each batch, and the deepest falls found."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from trimtab_lab.demo.job import Change, Move, Resize, Restart, Story
from trimtab_lab.demo.v_shape_picture import CLOSE_UPS, draw_close_ups, plain_axes, save

ENGINES = ("#33415c", "#f4a259", "#5b8e7d", "#bc4b51", "#8cb9c4", "#d9bf77")
EDGE = "#222222"


def draw_story(story: Story, ticks: pa.Table, found: pa.Table, path: Path, *, is_same: bool) -> None:
    """Draw how the engines shared the stream, and the deepest matches below: 1600 by 900 pixels."""
    deepest = found.sort_by([("fall_percent", "descending")]).slice(0, CLOSE_UPS).to_pylist()
    figure = Figure(figsize=(16, 9), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)  # draws without a screen
    grid = figure.add_gridspec(
        2,
        max(1, len(deepest)),
        height_ratios=[1.15, 1],
        hspace=0.42,
        wspace=0.14,
        left=0.06,
        right=0.98,
        top=0.83,
        bottom=0.06,
    )
    title = "Keys move, the answer doesn't" if is_same else "Keys move, and the answer is another one"
    compared = "the same as" if is_same else "NOT those found"
    figure.text(0.06, 0.945, title, fontsize=24, weight="bold", color=EDGE)
    events = sum(batch.events for batch in story.batches)
    figure.text(
        0.06,
        0.905,
        f"{events:,} trades; {found.num_rows:,} falls of at least 4 % that recovered within 10 minutes, "
        f"{compared} in one pass over all of them. Below, the deepest.",
        fontsize=14,
        color="#555555",
    )
    load = figure.add_subplot(grid[0, :])
    _draw_load(load, story)
    handles, labels = load.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", bbox_to_anchor=(0.985, 0.99), fontsize=13, ncols=4, frameon=False)
    draw_close_ups(figure, [grid[1, place] for place in range(len(deepest))], ticks, deepest)
    save(figure, path)


def _draw_load(axes: Axes, story: Story) -> None:
    """A bar per batch with a part per engine; each change is written above the line at its batch."""
    batches = [batch for batch in story.batches if batch.events]
    heights = [0] * len(batches)
    for engine in range(max((len(batch.engines) for batch in batches), default=0)):
        parts = [batch.engines[engine].events if engine < len(batch.engines) else 0 for batch in batches]
        colour = ENGINES[engine % len(ENGINES)]
        places = [batch.batch for batch in batches]
        axes.bar(places, parts, bottom=heights, width=0.82, color=colour, label=f"engine {engine}")
        heights = [height + part for height, part in zip(heights, parts, strict=True)]
    top = max(heights, default=1) or 1
    for after, change in story.changes:
        axes.axvline(after + 0.5, color=EDGE, linewidth=1.4, linestyle=(0, (4, 3)))
        axes.text(after + 0.5, top * 1.04, _word(change), fontsize=13, color=EDGE, ha="center", va="bottom")
    plain_axes(axes)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, top * 1.02)
    axes.set_xlim(-0.6, max((batch.batch for batch in batches), default=0) + 0.6)
    axes.set_xlabel("batch", fontsize=13)
    axes.set_ylabel("trades, by engine", fontsize=13)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _word(change: Change) -> str:
    match change:
        case Move(engine, to):
            return f"half of engine {engine} moves to {to}"
        case Resize(engines):
            return f"{engines} engines"
        case Restart():
            return "stop and restart"
