"""Figure 9: a day on an even cluster, key grouping against consistent grouping."""

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

SCHEMES = ("KG", "CG")


def run(settings: Settings) -> Results:
    """Both schemes over the same day."""
    day = Day.of(settings, reduced_slots=432)  # as many messages a slot as in full
    courses, table = compare_schemes(SCHEMES, day, strengths(0, 1), settings)
    return Results(tables=(table,), series={"courses": courses})


def holds(results: Results) -> Verdict:
    """Section VII-B, Q2, second paragraph."""
    kg, cg = (results.series["courses"][scheme] for scheme in SCHEMES)
    return Verdict(
        (
            Check(
                "The spread of queue lengths and of latencies grows over the day with KG",
                grows_all_day(kg, "queue") and grows_all_day(kg, "latency"),
                "increases over time",
                "queue " + ", ".join(f"{at_hour(kg, 'queue', hour):,.0f} at {hour} h" for hour in (2, 12, 24)),
            ),
            Check(
                "CG keeps both very low",
                all(max(cg[what]) <= 0.01 * max(kg[what]) for what in ("queue", "latency")),
                "very low",
                f"queue at most {max(cg['queue']):,.0f}, latency at most {max(cg['latency']):.2g} s "
                f"(KG {max(kg['latency']):,.0f} s)",
            ),
            Check(
                "Utilisation differs much with KG, hardly with CG",
                min(from_hour(kg, "utilisation", 0)) > 0.3 and max(from_hour(cg, "utilisation", 1)) < 0.2,
                "high for KG, close to zero for CG",
                f"mean {mean_of(kg['utilisation']):.2g} with KG, {mean_of(cg['utilisation']):.2g} with CG",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Three spreads over the day."""
    draw_courses(figure, results.series["courses"], SCHEME_COLOURS)


EXPERIMENT = Experiment(
    id="cg-fig9",
    paper="Nasir 2017",
    figures="figure 9",
    claim="On an even cluster the workers' queues and latencies drift apart all day with KG and stay together with CG",
    workload=f"{DAY_WORKLOAD}; all workers equal, 10 virtual workers each",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(11.0, 3.9),
)
