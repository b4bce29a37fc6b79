"""Figure 6: how the event rate changes the hosts used and the utilisation reached."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.heinze_2013.days import (
    FIRST_FIT,
    PAPER,
    PLANNERS,
    REBALANCED,
    THRESHOLDS,
    WORKLOAD,
    day_seeds,
    rounded,
    sweep,
)
from trimtab_lab.palette import RAMP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATES_PER_S = (500.0, 750.0, 1000.0, 1250.0)
PRINTED_HOSTS = {(500.0, 0.9): 3, (1250.0, 0.75): 9}


def run(settings: Settings) -> Results:
    """Every rate at every threshold, with and without rebalancing."""
    full = settings.scale is Scale.FULL
    seeds = day_seeds(settings, full=3, reduced=1)
    thresholds = THRESHOLDS if full else (THRESHOLDS[0], THRESHOLDS[-1])
    found = sweep(settings, seeds, product(PLANNERS, RATES_PER_S, thresholds))
    level = {  # thresholds, rates, days
        n: np.array([[[c.mean_utilisation for c in found[n, r, t]] for r in RATES_PER_S] for t in thresholds])
        for n in PLANNERS
    }
    hosts = {
        n: np.array([[np.mean([c.hosts.max() for c in found[n, r, t]]) for r in RATES_PER_S] for t in thresholds])
        for n in PLANNERS
    }
    explained = {n: [rounded(_explained(day) for day in line.T) for line in level[n]] for n in PLANNERS}
    rows = tuple(
        (
            name,
            rate,
            threshold,
            float(level[name][i, j].mean()),
            PRINTED_HOSTS.get((rate, threshold)),
            float(hosts[name][i, j]),
        )
        for name in PLANNERS
        for i, threshold in enumerate(thresholds)
        for j, rate in enumerate(RATES_PER_S)
    )
    columns = ("planner", "events a second", "threshold", "utilisation, %", "most hosts, paper", "most hosts, ours")
    table = Table(f"Mean of {len(seeds)} days", columns, rows)
    series = {
        "thresholds": list(thresholds),
        "rates": list(RATES_PER_S),
        "utilisation": {name: [rounded(line) for line in level[name].mean(axis=2)] for name in PLANNERS},
        "hosts": {name: [rounded(line) for line in hosts[name]] for name in PLANNERS},
        "explained": explained,
    }
    hosts_used = np.array(
        [[np.mean([c.hosts.mean() for c in found[REBALANCED, r, t]]) for r in RATES_PER_S] for t in thresholds]
    )
    return Results((table,), series, (_part_of_a_host(level[REBALANCED].mean(axis=2), hosts_used),))


def _part_of_a_host(level: np.ndarray, hosts: np.ndarray) -> str:
    """Whether utilisation is as if a fixed part of one host stayed empty, for any number of hosts."""
    fits = [np.polyfit(1 / used, line, 1) for used, line in zip(hosts, level, strict=True)]
    agree = [np.corrcoef(1 / used, line)[0, 1] ** 2 for used, line in zip(hosts, level, strict=True)]
    empty = -float(np.mean([slope for slope, _ in fits])) / 100
    return (
        "Why utilisation rises with the rate: with rebalancing it falls with 1 / hosts (which explains "
        f"{min(agree):.0%} or more of it at each threshold), as if {empty:.2f} of a host stayed empty however many "
        "are used."
    )


def _explained(line: np.ndarray) -> float:
    """The share of a line's variance that a straight line in the rate explains."""
    return float(np.corrcoef(RATES_PER_S, line)[0, 1] ** 2)


def holds(results: Results) -> Verdict:
    """Hosts grow with the rate; utilisation should not follow it in a straight line."""
    series = results.series
    last = len(series["thresholds"]) - 1
    fewest, most = series["hosts"][FIRST_FIT][last][0], series["hosts"][FIRST_FIT][0][-1]
    median = {name: float(np.median(np.concatenate(series["explained"][name]))) for name in PLANNERS}
    level = np.concatenate([series["utilisation"][name] for name in PLANNERS])
    grown = level[:, -1] - level[:, 0]
    return Verdict(
        (
            Check(
                "hosts grow from about 3 (500 events a second, threshold 0.9) to about 9 (1250, 0.75)",
                2 <= fewest <= 4 and 8 <= most <= 10,
                "3 to 9",
                f"{fewest:.1f} to {most:.1f}",
            ),
            Check(
                "no linear correlation: a straight line explains less than half of a day's variance, in the median",
                max(median.values()) < 0.5,
                "'no linear correlation can be drawn'",
                f"{median[FIRST_FIT]:.0%} with first fit, {median[REBALANCED]:.0%} with rebalancing, though 2.5 times "
                f"the rate adds only {grown.min():.0f} to {grown.max():.0f} points",
            ),
        ),
        reason="Utilisation rises a little with the rate, in nearly a straight line: with more hosts in use, the one "
        "that is partly filled counts for less. The paper has one run a point on a shared private cloud, where a few "
        "points of noise would hide so small a slope; the simulator repeats days and has no such noise.",
    )


def draw(results: Results, figure: Figure) -> None:
    """Utilisation left, hosts right."""
    series = results.series
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 1))
    for panel, name in zip(axes, (FIRST_FIT, REBALANCED), strict=False):
        for i, threshold in enumerate(series["thresholds"]):
            colour = RAMP[len(RAMP) - len(series["thresholds"]) + i]
            panel.plot(series["rates"], series["utilisation"][name][i], "o-", color=colour, label=f"{threshold:g}")
        panel.set_ylim(40, 80)
        panel.set_title(f"Utilisation: {name}")
        panel.set_ylabel("mean utilisation, %")
    for i, threshold in enumerate(series["thresholds"]):
        colour = RAMP[len(RAMP) - len(series["thresholds"]) + i]
        axes[2].plot(series["rates"], series["hosts"][FIRST_FIT][i], "o-", color=colour, label=f"{threshold:g}")
    for (rate, _), hosts in PRINTED_HOSTS.items():
        axes[2].plot(rate, hosts, "x", color="#d55e00", markersize=10, markeredgewidth=2.5, zorder=5)
    axes[2].plot([], [], "x", color="#d55e00", markersize=9, markeredgewidth=2.5, label="paper")
    axes[2].set_ylim(0, 10.5)
    axes[2].set_ylabel("most hosts in use")
    axes[2].set_title(f"Hosts: {FIRST_FIT}")
    axes[2].legend(title="threshold")
    for panel in axes:
        panel.set_xticks(series["rates"])
        panel.set_xlabel("events a second")


FIGURE_6 = Experiment(
    id="fugu-fig6",
    paper=PAPER,
    figures="figure 6",
    claim="From 500 to 1250 events a second 3 to 9 hosts are used; no linear correlation between the rate and the "
    "utilisation can be drawn.",
    workload=WORKLOAD + " The paper does not say whether it rebalanced here, so both are run.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(11.0, 3.8),
)
