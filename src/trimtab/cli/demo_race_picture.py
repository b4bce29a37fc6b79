"""The picture of the demonstration of balancing: how level and how fast both jobs were, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from trimtab.cli.demo_race import BALANCED, HASHED, Course
from trimtab.cli.picture import plain_axes, save

COLOURS = {HASHED: "#bc4b51", BALANCED: "#1d7874"}
EDGE, GREY = "#222222", "#555555"


def draw_race(
    courses: Mapping[str, Course], phases: Sequence[int], threshold: float, path: Path, *, is_same: bool
) -> None:
    """Draw deviation and throughput over the stream: 1600 by 760 pixels. `phases`: the first batch of each."""
    hashed, balanced = courses[HASHED], courses[BALANCED]
    figure = Figure(figsize=(16, 7.6), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)  # the figure draws on it, without a screen
    grid = figure.add_gridspec(2, 1, hspace=0.16, left=0.065, right=0.98, top=0.785, bottom=0.085)
    times = hashed.spent_s / max(balanced.spent_s, 1e-9)
    figure.text(0.065, 0.935, f"Hot keys change, key groups follow: {times:.1f} times as fast", fontsize=24,
                weight="bold", color=EDGE)  # fmt: skip
    answers = "the same answers" if is_same else "OTHER ANSWERS, which is a bug"
    figure.text(
        0.065,
        0.892,
        f"{balanced.events:,} events on {len(balanced.batches[0].engines)} engines, {answers}: hashed in "
        f"{hashed.spent_s:.1f} s, balanced in {balanced.spent_s:.1f} s with {balanced.moved:,} moves of key groups "
        "(work simulated by waiting)",
        fontsize=14,
        color=GREY,
    )
    levels, rates = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    for name, course in courses.items():
        places = [batch.batch + 1 for batch in course.with_events]
        style: dict[str, Any] = {"color": COLOURS[name], "linewidth": 2.4, "marker": "o", "markersize": 5}
        levels.plot(places, [batch.rstd for batch in course.with_events], label=name, **style)
        rates.plot(places, course.rates, **style)
    moves = [batch for batch in balanced.with_events if batch.moved]
    levels.scatter(
        [batch.batch + 1 for batch in moves], [batch.rstd for batch in moves], s=190, facecolors="none",
        edgecolors=COLOURS[BALANCED], linewidth=1.8, zorder=4, label="key groups moved before this batch"
    )  # fmt: skip
    levels.axhline(threshold, color=GREY, linewidth=1.2, linestyle=(0, (2, 3)), label=f"acts above {threshold:g} %")
    levels.set_ylabel("deviation of engines (RSTD), %", fontsize=12)
    rates.set_ylabel("events a second", fontsize=12)
    rates.set_xlabel("minute of the stream, which is a batch", fontsize=13)
    rates.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    for axes in (levels, rates):
        _mark_phases(axes, phases, len(hashed.with_events))
    levels.tick_params(labelbottom=False)
    handles, labels = levels.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.055, 0.885), fontsize=13, ncols=4, frameon=False)
    for number, (first, behind) in enumerate(zip(phases, [*phases[1:], len(hashed.with_events)], strict=True)):
        text = "hot cards of the first phase" if number == 0 else "other hot cards"
        levels.text((first + behind + 1) / 2, levels.get_ylim()[1] * 1.02, text, fontsize=13, ha="center", color=EDGE)
    save(figure, path)


def _mark_phases(axes: Axes, phases: Sequence[int], files: int) -> None:
    plain_axes(axes)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0.5, files + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for number, (first, behind) in enumerate(zip(phases, [*phases[1:], files], strict=True)):
        if number % 2:
            axes.axvspan(first + 0.5, behind + 0.5, color="#f2f2f2", zorder=0)
        if number:
            axes.axvline(first + 0.5, color=EDGE, linewidth=1.3, linestyle=(0, (4, 3)))
