"""Figure 3: hosts follow the count of queries; rebalancing releases them sooner, at the price of latency peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab_lab.experiment import Check, Experiment, Results, Settings, Table, Verdict
from trimtab_lab.heinze_2013.days import (
    COLOURS,
    EVENTS_PER_S,
    FIRST_FIT,
    PAPER,
    PLANNERS,
    REBALANCED,
    WORKLOAD,
    day_seeds,
    mean,
    rounded,
    sweep,
)
from trimtab_lab.simulation.hosts_and_queries import Course

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLD = 0.85
PEAK_RATIO = 3.0
"""A latency ratio that counts as a peak."""

PRINTED: dict[str, dict[str, float | None]] = {
    FIRST_FIT: {"utilisation": 60.0, "hosts_at_peak": 6.0, "ratio": 1.0},
    REBALANCED: {"utilisation": 65.0, "hosts_at_peak": None, "ratio": None},
}


def run(settings: Settings) -> Results:
    """Days at a threshold of 0.85, with and without rebalancing; the first one is drawn."""
    seeds = day_seeds(settings, full=10, reduced=2)
    found = sweep(settings, seeds, ((name, EVENTS_PER_S, THRESHOLD) for name in PLANNERS))
    series: dict[str, Any] = {"period_s": 10.0}
    rows = []
    for name in PLANNERS:
        courses = found[name, EVENTS_PER_S, THRESHOLD]
        summary = summed_up(courses)
        series[name] = {**summary, **drawn(courses[0])}
        printed = PRINTED[name]
        rows += [
            (name, "mean utilisation, %", printed["utilisation"], summary["utilisation"]),
            (name, "hosts with 45 queries", printed["hosts_at_peak"], summary["hosts_at_peak"]),
            (name, "mean hosts", None, summary["hosts"]),
            (name, "mean latency ratio of all queries", printed["ratio"], summary["ratio"]),
            (name, f"periods with a query past {PEAK_RATIO:.0f} times its latency, %", None, summary["peaks"]),
            (name, "moves a day", None, summary["moves"]),
            (name, "state moved a day, MB", None, summary["moved_mb"]),
        ]
    series["gains"] = rounded(
        b.mean_utilisation - a.mean_utilisation
        for a, b in zip(*(found[name, EVENTS_PER_S, THRESHOLD] for name in PLANNERS), strict=True)
    )
    table = Table(f"Threshold 0.85, mean of {len(seeds)} days", ("planner", "measure", "paper", "ours"), tuple(rows))
    return Results((table,), series)


def summed_up(courses: list[Course]) -> dict[str, float]:
    """The measures that are compared, as means over the days."""
    return {
        "utilisation": mean(one.mean_utilisation for one in courses),
        "hosts_at_peak": mean(one.hosts[one.queries == one.queries.max()].max() for one in courses),
        "hosts": mean(one.hosts.mean() for one in courses),
        "most_by_fewest_hosts": mean(one.hosts.max() / one.hosts[: len(one.hosts) // 12].min() for one in courses),
        "follows": mean(np.corrcoef(one.queries, one.hosts)[0, 1] for one in courses),
        "hosts_at_the_end": mean(one.hosts[-len(one.hosts) // 24 :].mean() for one in courses),
        "ratio": mean(one.mean_ratio.mean() for one in courses),
        "peaks": mean(100 * float(np.mean(one.highest_ratio > PEAK_RATIO)) for one in courses),
        "moves": mean(one.moves.sum() for one in courses),
        "moved_mb": mean(one.moved_bytes.sum() / 1e6 for one in courses),
    }


def drawn(course: Course) -> dict[str, list[float]]:
    """The series of one day for the figure."""
    return {
        "queries_by_period": rounded(course.queries),
        "hosts_by_period": rounded(course.hosts),
        "utilisation_by_period": rounded(100 * course.utilisation, 1),
        "mean_ratio_by_period": rounded(course.mean_ratio),
        "highest_ratio_by_period": rounded(course.highest_ratio),
        "moved_mb_by_period": rounded(course.moved_bytes / 1e6),
    }


def holds(results: Results) -> Verdict:
    """The paper's sentences of section 4.1."""
    plain, packed, gains = results.series[FIRST_FIT], results.series[REBALANCED], results.series["gains"]
    return Verdict(
        (
            Check(
                "the system scales out and in with the number of queries",
                all(
                    one["follows"] > 0.7
                    and one["most_by_fewest_hosts"] >= 2
                    and one["hosts_at_the_end"] < one["hosts_at_peak"] - 1
                    for one in (plain, packed)
                ),
                "shown in the plot",
                f"correlation of hosts and queries {plain['follows']:.2f}, rebalanced {packed['follows']:.2f}",
            ),
            Check(
                "45 queries run on about six hosts",
                4.5 <= plain["hosts_at_peak"] <= 7.5,
                "6",
                f"{plain['hosts_at_peak']:.1f}",
            ),
            Check(
                "mean utilisation is about 60 % without rebalancing (within 6 points)",
                abs(plain["utilisation"] - 60) <= 6,
                "60 %",
                f"{plain['utilisation']:.1f} %",
            ),
            Check(
                "and about 65 % with it (within 6 points)",
                abs(packed["utilisation"] - 65) <= 6,
                "65 %",
                f"{packed['utilisation']:.1f} %",
            ),
            Check(
                "rebalancing uses fewer hosts and raises utilisation, on every day",
                packed["hosts"] < plain["hosts"] and min(gains) > 0,
                "5 points more",
                f"{np.median(gains):.1f} points more in the median, {min(gains):.1f} on the worst day",
            ),
            Check(
                "the mean latency ratio stays close to 1", plain["ratio"] < 1.25, "close to 1", f"{plain['ratio']:.2f}"
            ),
            Check(
                "with rebalancing there are more latency peaks",
                packed["peaks"] > plain["peaks"],
                "shown in the plot",
                f"{plain['peaks']:.1f} % of the periods, then {packed['peaks']:.1f} %",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Queries and hosts above, utilisation in the middle, the highest latency ratio below."""
    axes = figure.subplots(3, 1, sharex=True, height_ratios=(1.2, 1, 1))
    minutes = np.arange(len(results.series[FIRST_FIT]["queries_by_period"])) * results.series["period_s"] / 60
    count = axes[0].twinx()
    count.plot(minutes, results.series[FIRST_FIT]["queries_by_period"], color="#4d4d4d", linewidth=1, label="queries")
    count.set_ylabel("queries")
    count.set_ylim(0, 50)
    count.grid(visible=False)
    for name in PLANNERS:
        one, colour = results.series[name], COLOURS[name]
        axes[0].step(minutes, one["hosts_by_period"], where="post", color=colour, label=f"hosts: {name}")
        axes[1].plot(minutes, one["utilisation_by_period"], color=colour, linewidth=1.2, label=name)
        axes[1].axhline(one["utilisation"], color=colour, linestyle=":", linewidth=1.2)
        axes[2].plot(minutes, one["highest_ratio_by_period"], color=colour, linewidth=1, label=name)
    axes[0].set_ylim(0, None)
    axes[0].set_ylabel("hosts in use")
    axes[0].set_title("Hosts follow the queries; rebalancing gives them back sooner")
    lines = axes[0].get_lines() + count.get_lines()
    axes[0].legend(lines, [str(line.get_label()) for line in lines], loc="lower center", ncols=3)
    axes[1].set_ylim(0, 100)
    axes[1].set_ylabel("utilisation of the\nhosts in use, %")
    axes[1].set_title("Utilisation (dotted: mean of all days)")
    axes[2].set_yscale("log")
    axes[2].set_ylabel("highest\nlatency ratio")
    axes[2].set_title("Each rebalancing lets some query wait")
    axes[2].set_xlabel("time, minutes")


FIGURE_3 = Experiment(
    id="fugu-fig3",
    paper=PAPER,
    figures="figure 3",
    claim="Hosts are added and released with the number of queries; mean utilisation is 60 %, with rebalancing 65 %; "
    "the mean latency ratio stays near 1.",
    workload=WORKLOAD,
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(9.0, 7.0),
)
