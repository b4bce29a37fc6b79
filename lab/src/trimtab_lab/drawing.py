"""Pictures of results in one style: the same results give the same bytes.

The only module that configures matplotlib, which is optional and imported only to draw.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from trimtab.errors import BalanceError
from trimtab_lab.experiment import Experiment, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#8c6d1f")
"""Colours that colour-blind people can distinguish (after Okabe and Ito), the strong ones first."""

MOST_PNG_BYTES = 150_000
RESOLUTIONS = (144, 120, 100, 80, 60)
"""Dots per inch, tried in turn until the PNG is small enough."""

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine draws the same
    "font.size": 10.5,
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": True,  # so that lines don't cross the text
    "legend.framealpha": 0.6,
    "legend.edgecolor": "none",
    "legend.fancybox": False,
    "legend.fontsize": 9.5,
    "figure.titlesize": 12.5,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "svg.hashsalt": "trimtab",  # names inside the file are derived from it, and not random
    "svg.fonttype": "path",
}


def picture(experiment: Experiment, results: Results) -> tuple[bytes, bytes]:
    """The picture of an experiment as PNG (at most 150 kB, unless it is larger at 60 dots per inch) and as SVG.

    Raises BalanceError `lab.matplotlib` where matplotlib is missing.
    """
    try:
        import matplotlib as mpl
        from cycler import cycler
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise BalanceError(
            "lab.matplotlib", f"there is no picture: {error.name} is missing", "pip install matplotlib"
        ) from error
    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=PALETTE)}):
        figure = Figure(figsize=experiment.size_inches, facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)  # draws without a screen
        experiment.draw(results, figure)
        return _png(figure), _svg(figure)


def _png(figure: Figure) -> bytes:
    from PIL import Image

    written = b""
    for dots in RESOLUTIONS:
        drawn, packed = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png", dpi=dots)
        # A drawing has few colours: with a palette the file is half the size.
        image = Image.open(drawn).convert("RGB")
        image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
        written = packed.getvalue()
        if len(written) <= MOST_PNG_BYTES:
            break
    return written


def _svg(figure: Figure) -> bytes:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": "trimtab"})
    return drawn.getvalue()
