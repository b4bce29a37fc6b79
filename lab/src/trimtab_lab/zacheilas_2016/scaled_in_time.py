"""The description of the workload that all figures of this paper share, and how their lines are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab_lab.experiment import Experiment, Results, Scale, Settings, Verdict
from trimtab_lab.live.job_run import Float64Array
from trimtab_lab.zacheilas_2016.feeds import FULL, Order
from trimtab_lab.zacheilas_2016.schemes import KG_6, SCHEME_COLOURS, SchemeRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "Zacheilas 2016"

WORKLOAD = (
    "Live on Spark: a trimtab job with first story detection (4,096 LSH keys in 4,096 key groups, the last 500 tweets "
    f"of a key, cosine, tau 0.2). Synthetic tweets: {FULL.past:,} of a past that costs nothing and from whose "
    f"checkpoint every scheme starts, then {FULL.batches} batches of {FULL.tweets:,} as fast as they are taken, "
    "instead of 2.95 million in 40 minutes. The detection is real; its cost is simulated: an engine waits "
    f"{FULL.wait_us / 1000:g} ms for a tweet, so that five engines show their relations on two cores, all in one "
    "process of Spark, `local[8]`. Load is counted in tweets; keys move whenever they deviate by more "
    "than 15 %."
)

IN_ORDER = "Tweets come in the order in which they are written. "
IN_ZIPF = (
    f"Keys are drawn with a Zipf exponent of 0.2 for {FULL.even} batches and of 1.5 for {2 * FULL.even}, twice "
    "(the paper: 5 and 10 minutes). "
)


def about(order: Order) -> str:
    """The order in words, before the workload."""
    return IN_ORDER if order is Order.DEFAULT else IN_ZIPF


def judged_spans_s(run: SchemeRun, scale: Scale) -> Float64Array:
    """The measured time of batches; in the reduced form the engines' simulated cost, the same on every machine."""
    return run.spans_s if scale is Scale.FULL else run.waits_s


def mean_rate(run: SchemeRun, spans_s: Float64Array, batches: Any = slice(1, None)) -> float:
    """Tweets a second over some batches; by default without the first, which loads code and starts workers."""
    tweets = run.run.events.sum(axis=1)
    return float(tweets[batches].sum() / spans_s[batches].sum())


def line_of(run: SchemeRun, spans_s: Float64Array) -> dict[str, list[float]]:
    """A line over time: when batches ended, in seconds, and tweets a second in each, without the first batch."""
    return {"seconds": np.cumsum(spans_s[1:]).tolist(), "rate": run.rates(spans_s)[1:].tolist()}


def draw_lines(axes: Axes, lines: dict[str, Any]) -> None:
    """Tweets a second over time, one line per scheme."""
    for scheme, line in lines.items():
        style = "--" if scheme == KG_6 else "-"
        axes.plot(line["seconds"], line["rate"], style, color=SCHEME_COLOURS[scheme], label=scheme)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time (s)")


def skewed_batches(batches: int, even: int) -> list[bool]:
    """Which batches of the Zipf feed have skewed keys.

    >>> skewed_batches(7, 2)
    [False, False, True, True, True, True, False]
    """
    return [batch % (3 * even) >= even for batch in range(batches)]


def experiment(
    figure: str,
    order: Order,
    claim: str,
    *,
    run: Callable[[Settings, Order], Results],
    holds: Callable[[Results], Verdict],
    draw: Callable[[Results, Figure], None],
) -> Experiment:
    """A panel of one of the paper's figures, such as "3(a)", over tweets in an order."""
    return Experiment(
        id=f"dlb-fig{figure[0]}{figure[2]}",
        paper=PAPER,
        figures=f"figure {figure}",
        claim=claim,
        workload=about(order) + WORKLOAD,
        run=lambda settings: run(settings, order),
        holds=holds,
        draw=draw,
        size_inches=(10.0, 4.4),
        alone=True,
        live=True,
    )
