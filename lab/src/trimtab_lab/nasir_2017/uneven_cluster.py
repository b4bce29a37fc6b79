"""Figure 10: a day on a cluster of which three workers are five times stronger than the other seven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab_lab.experiment import Check, Experiment, Results, Settings, Verdict
from trimtab_lab.nasir_2017.over_a_day import (
    DAY_WORKLOAD,
    Day,
    at_hour,
    compare_schemes,
    draw_courses,
    from_hour,
    grows_all_day,
    mean_of,
    strengths,
)
from trimtab_lab.palette import SCHEME_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES = ("KG", "SG", "CG")
STRONG, TIMES = 3, 5


def run(settings: Settings) -> Results:
    """The three schemes over the same day."""
    day = Day.of(settings)
    courses, table = compare_schemes(SCHEMES, day, strengths(STRONG, TIMES), settings)
    # The share of a weak worker's capacity that one virtual worker takes: no assignment can be finer.
    grain = 0.8 * sum(strengths(STRONG, TIMES)) / (len(strengths(STRONG, TIMES)) * 10)
    return Results(
        tables=(table,),
        series={"courses": courses, "grain": grain},
        notes=(
            "As in the paper, CG's queues have a spike in the evening (there after 17 h): when the whole cluster is "
            "used to more than 85 %, no worker is idle and nothing can be moved.",
            f"One of 10 virtual workers is {grain:.2g} of a weak worker's capacity, wider than the band from 0.75 to "
            "0.85: weak workers swing between too many and too few (figure 12).",
        ),
    )


def holds(results: Results) -> Verdict:
    """Section VII-B, Q2, third paragraph."""
    courses = results.series["courses"]
    blind, cg = [courses[scheme] for scheme in ("KG", "SG")], courses["CG"]
    return Verdict(
        (
            Check(
                "Queues and latencies grow all day with KG and SG",
                all(grows_all_day(of, what) for of in blind for what in ("queue", "latency")),
                "grow",
                ", ".join(f"{s} {at_hour(courses[s], 'queue', 24):,.0f}" for s in ("KG", "SG")) + " at 24 h",
            ),
            Check(
                "CG's queues and latencies are far lower, its spike included",
                all(max(cg[what]) <= 0.1 * min(max(of[what]) for of in blind) for what in ("queue", "latency")),
                "lower; a spike after 17 hours",
                f"queue at most {max(cg['queue']):,.0f}, {max(cg['queue']) / max(courses['SG']['queue']):.1%} of SG's",
            ),
            Check(
                "Utilisation differs much with KG and SG, little with CG",
                min(mean_of(of["utilisation"]) for of in blind) > 1.0
                and mean_of(from_hour(cg, "utilisation", 1)) <= 2 * results.series["grain"],
                "pretty high, against close to zero",
                ", ".join(f"{scheme} {mean_of(courses[scheme]['utilisation']):.2g}" for scheme in SCHEMES)
                + f" (one virtual worker is {results.series['grain']:.2g} of a weak worker)",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Three spreads over the day."""
    draw_courses(figure, results.series["courses"], SCHEME_COLOURS)


EXPERIMENT = Experiment(
    id="cg-fig10",
    paper="Nasir 2017",
    figures="figure 10",
    claim="With three workers five times stronger, queues and latencies grow under KG and SG; CG keeps them low",
    workload=f"{DAY_WORKLOAD}; 3 workers 5 times stronger than the other 7, 10 virtual workers each",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(11.0, 3.9),
)
