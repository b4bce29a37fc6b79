"""Figure 8, simulated: a CPU hog on one element makes round robin's delay grow, but not the balancing controller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trimtab.control import Controller, FirstOrderModel, PairBalancer, balance_by_lqr, balanced_radius
from trimtab_lab.experiment import Check, Experiment, Results, Settings, Table, Verdict
from trimtab_lab.simulation.intake_loop import Hog, SplitTrace, arrival_rates, run_split
from trimtab_lab.xu_2005.testbed import (
    BLUE,
    GREEN,
    INTERVAL,
    ORANGE,
    PAPER,
    SPLIT_ELEMENT,
    SPLIT_MADE_UP,
    SPLIT_RATE,
    designed,
    identified_pair,
    plain,
    repeats,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Balancer = Controller[Any, npt.NDArray[np.float64], npt.NDArray[np.float64]]

HOG_START, END = (seconds // INTERVAL for seconds in (160, 500))
RUN_ON = END + 100
"""A run continues after the end of the figure, so that the delays of its last events are known."""

HOG_LEAVES = 0.5
MANY = 8
"""Elements in the second part, with hogs on two of them."""

COLOURS = {"round robin": ORANGE, "PI on the difference": BLUE, "LQR": GREEN}


def run(settings: Settings) -> Results:
    """Two elements as in the paper, then eight, with the same noise for every way of splitting."""
    seeds = repeats(settings)
    pairs: dict[str, list[tuple[float, ...]]] = {name: [] for name in COLOURS}
    crowds: dict[str, list[tuple[float, ...]]] = {"round robin": [], "LQR": []}
    shown: dict[str, SplitTrace] = {}
    radius = radius_with_hog = 0.0
    for i, seed in enumerate(seeds):
        settings.progress(i / len(seeds), "splitting the load")
        model = identified_pair(seed).model
        element = FirstOrderModel(model.a, model.b / 2, model.delay)
        regulator = balance_by_lqr([element] * 2)
        # A hog halves the speed, and so doubles the effect of one more event on the response time.
        slowed = [replace(element, b=element.b / HOG_LEAVES), element]
        radius = max(radius, balanced_radius(regulator, [element] * 2))
        radius_with_hog = max(radius_with_hog, balanced_radius(regulator, slowed))
        splitters: dict[str, Balancer | None] = {
            "round robin": None,
            "PI on the difference": PairBalancer(designed(model).gains),
            "LQR": regulator,
        }
        for name, splitter in splitters.items():
            trace = _split(2, SPLIT_RATE, splitter, [Hog(HOG_START, RUN_ON, HOG_LEAVES)], seed)
            pairs[name].append(_figures(trace))
            shown.setdefault(name, trace)
        # Each of eight elements has an eighth of the load, so the effect of a share is four times that with two.
        crowd = balance_by_lqr([replace(element, b=element.b * MANY / 2)] * MANY)
        hogs = [Hog(HOG_START, RUN_ON, HOG_LEAVES, element=k) for k in (0, 3)]
        for name, many in (("round robin", None), ("LQR", crowd)):
            crowds[name].append(_figures(_split(MANY, SPLIT_RATE * MANY / 2, many, hogs, seed)))
    columns = ("splitter", "before the hog", "30 s into it", "at 500 s", "growth a minute, second half")
    tables = (
        Table("Two elements, a hog on one: end-to-end delay, intervals of 2 s", columns, _rows(pairs)),
        Table("Eight elements, hogs on two: the same", columns, _rows(crowds)),
        Table(
            "The regulator's loop",
            ("loop", "spectral radius, most of all runs"),
            (("as designed", radius), ("with the hog", radius_with_hog)),
        ),
    )
    series: dict[str, Any] = {
        "time": plain(np.arange(END) * INTERVAL),
        "delays": {name: plain(trace.delays * INTERVAL, 3) for name, trace in shown.items()},
        "first_share": {name: plain(trace.shares[:, 0], 4) for name, trace in shown.items()},
        "pair": {name: plain(np.median(rows, axis=0), 6) for name, rows in pairs.items()},
        "crowd": {name: plain(np.median(rows, axis=0), 6) for name, rows in crowds.items()},
        "radii": [radius, radius_with_hog],
    }
    notes = (
        f"Medians of {len(seeds)} seeded runs. The model is fitted before each run, with its delay.",
        f"Under the hog the two elements respond equally fast at {_level_response():.1f} intervals: that is where the "
        "controllers are. The paper's delays hardly changed at all, so its elements had more to spare than ours.",
    )
    return Results(tables, series, notes)


def _split(count: int, rate: float, splitter: Balancer | None, hogs: Sequence[Hog], seed: int) -> SplitTrace:
    rates = arrival_rates(RUN_ON, rate)
    trace = run_split([SPLIT_ELEMENT] * count, rates, balancer=splitter, hogs=hogs, seed=seed)
    return SplitTrace(trace.arrived[:END], trace.shares[:END], trace.responses[:END], trace.delays[:END])


def _level_response() -> float:
    """With w waiting and x arriving, w = half_speed x / (rate - x): responses are equal where rate - x is equal."""
    spare = SPLIT_ELEMENT.rate * (1 + HOG_LEAVES) - SPLIT_RATE
    return SPLIT_ELEMENT.half_speed / (spare / 2) - 1


def _figures(trace: SplitTrace) -> tuple[float, ...]:
    """Delay before the hog, soon after its start, at the end, and its slope in the second half, intervals a minute."""
    half = np.arange((HOG_START + END) // 2, END)
    slope = np.polyfit(half, trace.delays[half], 1)[0] * 60 / INTERVAL
    windows = ((HOG_START - 30, HOG_START), (HOG_START + 10, HOG_START + 20), (END - 20, END))
    return (*(float(trace.delays[start:stop].mean()) for start, stop in windows), float(slope))


def _rows(runs: dict[str, list[tuple[float, ...]]]) -> tuple[tuple[str | float, ...], ...]:
    return tuple((name, *(float(value) for value in np.median(rows, axis=0))) for name, rows in runs.items())


def holds(results: Results) -> Verdict:
    """Round robin's delay grows without end; a controller's does not."""
    pair, crowd = results.series["pair"], results.series["crowd"]
    robin, pi, lqr = pair["round robin"], pair["PI on the difference"], pair["LQR"]
    worst = max(pi[2], lqr[2])
    return Verdict(
        (
            Check(
                "round robin's delay grows all the time under the hog",
                robin[3] > 1 and robin[2] > 10 * robin[0],
                "'quite large'",
                f"from {robin[0] * INTERVAL:.1f} s to {robin[2] * INTERVAL:.0f} s, at the end by "
                f"{robin[3] * INTERVAL:.1f} s a minute",
            ),
            Check(
                "the balancing controllers' doesn't",
                max(abs(pi[3]), abs(lqr[3])) < 0.1,
                "'almost no detectable change'",
                f"{pi[3] * INTERVAL:+.2f} and {lqr[3] * INTERVAL:+.2f} s a minute",
            ),
            Check(
                "it rises by less than a tenth of what round robin's does",
                worst - robin[0] < 0.1 * (robin[2] - robin[0]),
                "'almost no detectable change'",
                f"from {robin[0] * INTERVAL:.1f} s to {worst * INTERVAL:.1f} s: three quarters of the processors are "
                "left for the same load",
            ),
            Check(
                "(beyond the figure) LQR levels eight elements with hogs on two",
                crowd["round robin"][3] > 1 and abs(crowd["LQR"][3]) < 0.1,
                "named in section 3.2",
                f"{crowd['round robin'][2] * INTERVAL:.0f} s and {crowd['LQR'][2] * INTERVAL:.1f} s at the end",
            ),
            Check(
                "(beyond the figure) its loop is stable with the hog too",
                max(results.series["radii"]) < 1,
                "",
                "spectral radius {:.2f} as designed, {:.2f} with the hog".format(*results.series["radii"]),
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Delays, each on its own scale: round robin beside the controllers, as in the paper; and shares."""
    series = results.series
    left, right, shares = figure.subplots(1, 3)
    for axes in (left, right, shares):
        axes.axvspan(HOG_START * INTERVAL, END * INTERVAL, color="#eeeeee", zorder=0)
        axes.set_xlabel("time, s")
    for name, delays in series["delays"].items():
        axes = left if name == "round robin" else right
        axes.plot(series["time"], delays, color=COLOURS[name], label=name, linewidth=1.4)
        shares.plot(series["time"], series["first_share"][name], color=COLOURS[name], linewidth=1.4)
    left.set_ylabel("end-to-end delay, s")
    left.set_title("Round robin: grows")
    right.set_title("Controlled: rises once\n(mind the scale)")
    right.set_ylabel("end-to-end delay, s")
    right.legend(loc="upper left")
    shares.set_title("The slowed element\ngets less")
    shares.set_ylabel("share of the element with the hog")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
    right.set_ylim(top=12)
    shares.set_ylim(0, 0.7)


FIGURE_8 = Experiment(
    id="xu-fig8-simulated",
    paper=PAPER,
    figures="figure 8, in simulation",
    claim="Round robin's delay grows under a CPU hog on one element; the balancing controller's doesn't.",
    workload=SPLIT_MADE_UP + " The hog runs from 160 s on.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(11.0, 4.0),
)
