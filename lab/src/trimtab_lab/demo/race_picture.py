"""The picture of the demonstration of balancing: deviation and throughput of the jobs, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from trimtab_lab.demo.race import BALANCED, HASHED
from trimtab_lab.demo.v_shape_picture import plain_axes, save
from trimtab_lab.demo.verdict import ComputingVerdict, WaitingVerdict

COLOURS = {HASHED: "#bc4b51", BALANCED: "#1d7874"}
EDGE, GREY = "#222222", "#555555"
LEFT, MIDDLE = 0.06, 0.675


def draw_races(waiting: WaitingVerdict, computing: ComputingVerdict, path: Path, *, is_same: bool) -> None:
    """Draw the race of waiting engines on the left and that of computing ones on the right: 1600 by 760 pixels."""
    figure = Figure(figsize=(16, 7.6), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)  # draws without a screen
    left = figure.add_gridspec(2, 1, hspace=0.16, left=LEFT, right=0.6, top=0.72, bottom=0.085)
    levels, rates = figure.add_subplot(left[0]), figure.add_subplot(left[1])
    works = figure.add_subplot(figure.add_gridspec(1, 1, left=MIDDLE, right=0.985, top=0.72, bottom=0.085)[0])
    _write(figure, waiting, computing, is_same=is_same)

    _draw_lines(levels, {name: [batch.rstd for batch in course.batches] for name, course in waiting.courses.items()})
    moved = [(batch.batch + 1, batch.rstd) for batch in waiting.courses[BALANCED].batches if batch.moved]
    levels.scatter(
        [place for place, _ in moved], [rstd for _, rstd in moved], s=190, facecolors="none", linewidth=1.8, zorder=4,
        edgecolors=COLOURS[BALANCED], label="key groups moved before this batch"
    )  # fmt: skip
    threshold = waiting.race.balance.max_rstd or 0.0
    levels.axhline(threshold, color=GREY, linewidth=1.2, linestyle=(0, (2, 3)), label=f"acts above {threshold:g} %")
    levels.set_ylabel("RSTD of the engines, %", fontsize=12)
    levels.tick_params(labelbottom=False)

    _draw_lines(rates, {name: course.rates for name, course in waiting.courses.items()})
    rates.set_ylabel("events a second", fontsize=12)

    _draw_lines(works, {name: computing.shares(name) for name in computing.courses})
    works.axhline(100, color=EDGE, linewidth=1.6, linestyle=(0, (4, 3)), label="ceiling")
    works.set_ylabel("throughput of engines, % of the ceiling", fontsize=12)

    for axes in (rates, works):
        axes.set_xlabel("batch", fontsize=12)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    for axes in (levels, rates, works):
        axes.set_ylim(bottom=0)
    levels.legend(loc="lower left", bbox_to_anchor=(-0.015, 0.99), fontsize=12, ncols=4, frameon=False)
    works.legend(loc="lower left", bbox_to_anchor=(-0.03, 0.995), fontsize=12, ncols=3, frameon=False)
    save(figure, path)


def _write(figure: Figure, waiting: WaitingVerdict, computing: ComputingVerdict, *, is_same: bool) -> None:
    """Write the headline, and the result above each race."""
    figure.text(LEFT, 0.93, waiting.headline(is_same=is_same), fontsize=24, weight="bold", color=EDGE)
    hashed, balanced = waiting.courses[HASHED], waiting.courses[BALANCED]
    waited = (
        f"{waiting.race.rows:,} events: hashed in {hashed.spent_s:.1f} s, balanced in {balanced.spent_s:.1f} s with "
        f"{balanced.moved} key groups moved\n(by wall clock, without the first batch; Spark's part of it: "
        f"{hashed.spark_share:.0f} % and {balanced.spark_share:.0f} %)"
    )
    computed = (
        f"from batch {computing.since + 1} on: hashed {computing.share(HASHED):.0f} % of what the hottest\n"
        f"key allows, balanced {computing.share(BALANCED):.0f} %"
    )
    for x, heading, text in ((LEFT, waiting.race.title, waited), (MIDDLE, computing.race.title, computed)):
        figure.text(x, 0.875, heading, fontsize=15, weight="bold", color=EDGE)
        figure.text(x, 0.86, text, fontsize=12.5, color=GREY, linespacing=1.4, va="top")


def _draw_lines(axes: Axes, values: Mapping[str, Sequence[float]]) -> None:
    plain_axes(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for name, own in values.items():
        places = range(1, len(own) + 1)
        axes.plot(places, own, label=name, color=COLOURS[name], linewidth=2.4, marker="o", markersize=5)
