"""The V-shapes of the demonstration drawn: the session of one symbol, and close-ups of its deepest falls."""

from __future__ import annotations

import datetime
import io
from pathlib import Path
from typing import Any

import matplotlib.dates as mdates
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from PIL import Image

LINE, BAND = "#33415c", "#f4a259"
MARKS = {  # per mark of a match: its legend, colour and shape
    "top": ("top", "#bc4b51", "v"),
    "low": ("lowest price", "#1d7874", "o"),
    "back": ("recovered to within 1 %", "#5b8e7d", "^"),
}
CLOSE_UPS = 3
COLOURS = 256


def draw_v_shapes(ticks: pa.Table, found: pa.Table, path: Path) -> None:
    """Draw the symbol with the deepest match: 1600 by 900 pixels."""
    deepest = found.sort_by([("fall_percent", "descending")])
    symbol = deepest["symbol"][0].as_py()
    own = ticks.filter(pc.equal(ticks["symbol"], symbol))
    matches = deepest.filter(pc.equal(deepest["symbol"], symbol)).to_pylist()
    close = matches[:CLOSE_UPS]

    figure = Figure(figsize=(16, 9), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)  # draws without a screen
    grid = figure.add_gridspec(
        2, len(close), height_ratios=[1.15, 1], hspace=0.30, wspace=0.14, left=0.055, right=0.98, top=0.86, bottom=0.07
    )
    figure.text(0.055, 0.945, f"{symbol}: V-shaped falls in one session", fontsize=24, weight="bold", color="#222222")
    figure.text(
        0.055,
        0.905,
        f"{len(matches)} falls of at least 4 % that recovered within 10 minutes, found with MATCH_RECOGNIZE "
        f"in {own.num_rows:,} synthetic trades",
        fontsize=14,
        color="#555555",
    )
    session = figure.add_subplot(grid[0, :])
    _price_line(session, own, 0.9)
    for match in matches:
        _mark(session, match, size=60)
    handles, labels = session.get_legend_handles_labels()
    corner = (0.985, 0.985)
    figure.legend(handles, labels, loc="upper right", bbox_to_anchor=corner, fontsize=13, ncols=4, frameon=False)
    _clock(session)
    session.margins(x=0.005, y=0.12)
    session.set_ylabel("price", fontsize=13)

    draw_close_ups(figure, [grid[1, place] for place in range(len(close))], own, close)
    save(figure, path)


def draw_close_ups(figure: Figure, places: list[SubplotSpec], ticks: pa.Table, matches: list[dict[str, Any]]) -> None:
    """Draw each match in its place, in order of time, with the prices of its symbol around it."""
    for place, match in zip(places, sorted(matches, key=lambda each: each["top_at"]), strict=True):
        axes = figure.add_subplot(place)
        margin = (match["back_at"] - match["top_at"]) * 0.25
        first, last = match["top_at"] - margin, match["back_at"] + margin
        own = ticks.filter(pc.equal(ticks["symbol"], match["symbol"]))
        inside = pc.and_(pc.greater_equal(own["ts"], pa.scalar(first)), pc.less_equal(own["ts"], pa.scalar(last)))
        _price_line(axes, own.filter(inside).sort_by("ts"), 1.3)
        _mark(axes, match, size=110)
        lasted_s = (match["back_at"] - match["top_at"]) / datetime.timedelta(seconds=1)
        axes.set_title(
            f"{match['symbol']}: {match['fall_percent']} % down and back in "
            f"{int(lasted_s) // 60} min {int(lasted_s) % 60} s",
            fontsize=14,
            loc="left",
            color="#222222",
        )
        _clock(axes, minutes=1 if lasted_s < 300 else 2)
        axes.margins(x=0, y=0.15)
        if place is places[0]:
            axes.set_ylabel("price", fontsize=13)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a small PNG."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    # A drawing has few colours: with a palette the file is half the size.
    image = Image.open(drawn).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def plain_axes(axes: Axes) -> None:
    """A light grid behind the data, and no frame."""
    axes.grid(color="#e3e3e3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=12, color="#bbbbbb")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#bbbbbb")


def _clock(axes: Axes, minutes: int | None = None) -> None:
    """Show hours and minutes below an axis, every `minutes` minutes; matplotlib has no types for these calls."""
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M"))  # type: ignore[no-untyped-call]
    if minutes is not None:
        axes.xaxis.set_major_locator(mdates.MinuteLocator(interval=minutes))  # type: ignore[no-untyped-call]


def _price_line(axes: Axes, rows: pa.Table, width: float) -> None:
    axes.plot(rows["ts"].to_numpy(), rows["price"].to_numpy(), color=LINE, linewidth=width, zorder=2)
    plain_axes(axes)


def _mark(axes: Axes, match: dict[str, Any], size: float) -> None:
    """Draw the band of a match and its three marks; the legend names each mark once."""
    named = set(axes.get_legend_handles_labels()[1])

    def once(label: str) -> str:
        return label if label not in named else "_" + label

    axes.axvspan(match["top_at"], match["back_at"], color=BAND, alpha=0.25, linewidth=0, zorder=1, label=once("match"))
    for key, (label, color, shape) in MARKS.items():
        axes.scatter(
            match[f"{key}_at"],
            match[key],
            s=size,
            color=color,
            marker=shape,
            edgecolor="white",
            linewidth=1,
            zorder=3,
            label=once(label),
        )
