"""Figure 8 on a running job: with key groups dealt out evenly delays grow under CPU hogs on one executor's core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.errors import BalanceError
from trimtab_lab.experiment import Cell, Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.xu_2005.testbed import BLUE, ORANGE, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVEN, BALANCED = "round robin", "balanced"
"""As `trimtab_lab.live.two_elements` calls them, which only runs where Spark is."""

FULL_S, REDUCED_S = (25.0, 50.0), (8.0, 10.0)
"""Seconds before the hogs come, and with them."""


def run(settings: Settings) -> Results:
    """Both runs, in a process of their own."""
    full = settings.scale is Scale.FULL
    before_s, hog_s = FULL_S if full else REDUCED_S
    settings.progress(0.0, "two runs of minutes" if full else "two runs of seconds")
    found = _found(before_s, hog_s, settings.seed)
    runs: dict[str, list[dict[str, Any]]] = found["runs"]
    figures = {name: _figures(batches, before_s, before_s + hog_s) for name, batches in runs.items()}
    labels = {
        "before": "delay before the hogs, s",
        "end": "delay at their end, s",
        "growth": "growth of the delay in their second half, s a minute",
        "share_before": "share of the slowed element before, %",
        "share_end": "the same at the end, %",
    }
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{label} (s)", *(figures[name][key] for name in runs)) for key, label in labels.items()
    )
    series = {"full": full, "hog_s": [before_s, before_s + hog_s], "runs_s": runs, "figures_s": figures}
    notes = (
        f"{found['rows_per_s']:,.0f} rows arrive a second: each element's take about a third of a core. The driver "
        "and Spark's own processes run on the same two cores.",
    )
    return Results(
        (Table("CPU hogs on one of two elements", ("figure", *(f"{n} (s)" for n in runs)), rows),), series, notes
    )


@cache
def _found(before_s: float, hog_s: float, seed: int) -> dict[str, Any]:
    plan = json.dumps({"before_s": before_s, "hog_s": hog_s, "seed": seed})
    paths = os.pathsep.join(path for path in sys.path if path)
    ran = subprocess.run(
        [sys.executable, "-m", "trimtab_lab.live.two_elements", plan],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        end = "\n".join(ran.stderr.splitlines()[-20:])
        hint = "it needs trimtab[spark], Java 17 or newer, and a machine with Linux's /proc"
        raise BalanceError("lab.driver", f"the process that runs jobs on Spark ended:\n{end}", hint)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _figures(batches: Sequence[dict[str, Any]], came_s: float, went_s: float) -> dict[str, float]:
    ends, delays, shares = (np.array([each[name] for each in batches]) for name in ("ended_s", "delay_s", "slow_share"))
    before, end = (ends > came_s / 2) & (ends <= came_s), ends > went_s - 0.15 * (went_s - came_s)
    half = ends > (came_s + went_s) / 2
    growth = np.polyfit(ends[half], delays[half], 1)[0] * 60 if half.sum() > 1 else 0.0
    return {
        "before": _mean(delays[before]),
        "end": _mean(delays[end]) if end.any() else float(delays[-1]),
        "growth": float(growth),
        "share_before": 100 * _mean(shares[before]),
        "share_end": 100 * (_mean(shares[end]) if end.any() else float(shares[-1])),
    }


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def holds(results: Results) -> Verdict:
    """The delay of round robin grows under the hogs; that of a balanced job doesn't."""
    series = results.series
    even, ours = series["figures_s"][EVEN], series["figures_s"][BALANCED]
    checks = [
        Check(
            "both have read rows, also while the hogs ran",
            all(batches[-1]["ended_s"] > series["hog_s"][0] for batches in series["runs_s"].values()),
            "",
            ", ".join(f"{name}: {len(batches)} batches" for name, batches in series["runs_s"].items()),
        )
    ]
    if series["full"]:  # measured times, which tests don't check
        checks += [
            Check(
                "round robin's delay grows all the time under the hogs",
                even["growth"] > 3 and even["end"] > 3 * even["before"],
                "'quite large'",
                f"from {even['before']:.1f} to {even['end']:.1f} s, at the end by {even['growth']:.1f} s a minute",
            ),
            Check(
                "a balanced job's doesn't",
                ours["growth"] < 1.5,
                "'almost no detectable change'",
                f"from {ours['before']:.1f} to {ours['end']:.1f} s, at the end by {ours['growth']:+.1f} s a minute",
            ),
            Check(
                "because the slowed element gets less",
                ours["share_end"] < 0.75 * ours["share_before"],
                "",
                f"{ours['share_before']:.0f} % of the rows before, {ours['share_end']:.0f} % at the end",
            ),
        ]
    return Verdict(tuple(checks), "" if all(each.holds for each in checks) else REASON)


REASON = "Speeds are measured: what else the machine does slows elements, too."


def draw(results: Results, figure: Figure) -> None:
    """Delays and shares over time."""
    series = results.series
    left, right = figure.subplots(1, 2)
    for name, colour in ((EVEN, ORANGE), (BALANCED, BLUE)):
        batches = series["runs_s"][name]
        ends = [each["ended_s"] for each in batches]
        left.plot(ends, [each["delay_s"] for each in batches], color=colour, label=name, linewidth=1.4)
        right.plot(ends, [100 * each["slow_share"] for each in batches], color=colour, linewidth=1.4)
    for axes in (left, right):
        axes.axvspan(*series["hog_s"], color="#eeeeee", zorder=0)
        axes.set_xlabel("time, s")
        axes.set_ylim(bottom=0)
    left.set_ylabel("age of a batch's oldest row at its commit, s")
    left.set_title("Delay: grows only where nothing moves")
    left.legend(loc="upper left")
    right.set_ylabel("rows of the element with the hogs, %")
    right.set_title("The slowed element gets less")


FIGURE_8_LIVE = Experiment(
    id="xu-fig8",
    paper=PAPER,
    figures="figure 8",
    claim="Round robin's delay grows under a CPU hog on one element; the balancing controller's doesn't.",
    workload="A standalone cluster of two executors, each on a core of its own; rows of `trimtab.Rate` at a steady "
    "rate, 200 exponentials each, over 64 key groups. From a moment on three CPU hogs share the core of one executor. "
    "In one run key groups stay where they are, dealt out evenly; in the other trimtab's policy moves them by the "
    "speeds it measures, which a job has instead of the paper's PI controller on the difference of response times.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(9.0, 4.0),
    alone=True,
    live=True,
)
