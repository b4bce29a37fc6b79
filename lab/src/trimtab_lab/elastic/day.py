"""A day in two minutes: engines are added and removed with its rate, and on a cluster executors with them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab_lab.elastic.feeds import rate_at
from trimtab_lab.elastic.machines import outcome_of
from trimtab_lab.elastic.orders import LOCAL_SLOTS, WORKERS, DayOrder, Outcome, Place
from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACES = {Place.LOCAL: "one process", Place.CLUSTER: "cluster"}
MOST = {Place.LOCAL: LOCAL_SLOTS, Place.CLUSTER: WORKERS}
HIGH_PER_S = {Place.LOCAL: 1_800.0, Place.CLUSTER: 1_100.0}
LOW_PER_S, WAIT_US = 150.0, 1_000
SECONDS, REDUCED_SECONDS, LINGER_S = 120.0, 15.0, 8.0
LATENCY_S = 3.0
"""The highest acceptable mean latency, with a batch a second: half a second of it is waiting for a batch to begin."""


def run(settings: Settings) -> Results:
    """Run the day at both places; reduced, a short one on the cluster."""
    full = settings.scale is Scale.FULL
    places = list(PLACES) if full else [Place.CLUSTER]
    found: dict[str, Any] = {}
    for step, place in enumerate(places):
        settings.progress(step / len(places), PLACES[place])
        order = _order(settings, place)
        found[PLACES[place]] = _course(order, outcome_of(place, order))
    columns = (
        "place",
        "most engines",
        "engines at the end",
        "changes",
        "turns",
        "mean utilisation, %",
        "mean latency (s)",
        "most executors",
        "executors at the end",
    )
    rows = tuple((place, *(course[name] for name in _SHOWN)) for place, course in found.items())
    return Results((Table("A day", columns, rows),), {"courses": found, "full": full})


_SHOWN = ("most", "last", "changes", "turns", "mean_utilisation", "mean_latency_s", "most_executors", "last_executors")


def _order(settings: Settings, place: Place) -> DayOrder:
    full = settings.scale is Scale.FULL
    return DayOrder(
        seconds=SECONDS if full else REDUCED_SECONDS,
        low_per_s=LOW_PER_S if full else 800.0,  # from the start more than one engine can process
        high_per_s=HIGH_PER_S[place],
        wait_us=WAIT_US,
        engines=1,
        max_engines=MOST[place],
        linger_s=LINGER_S if full and place is Place.CLUSTER else 0.0,
        seed=settings.seed,
    )


def _course(order: DayOrder, outcome: Outcome) -> dict[str, Any]:
    """What happened, with times in seconds since the day began, and without the first batch, which loads code."""
    timed = zip(outcome.batches, latencies_s(outcome), strict=True)
    batches, latency_s = zip(*(each for each in timed if each[0].finished_s > outcome.began_s), strict=True)
    engines = [len(batch.engines) for batch in batches]
    changes = [after - before for before, after in itertools.pairwise(engines) if after != before]
    utilisation = [batch.utilisation for batch in batches if batch.utilisation is not None]
    executors = [count for _, count in outcome.executors]
    return {
        "wrong_keys": outcome.wrong_keys,
        "events": sum(batch.events for batch in batches),
        "most": max(engines),
        "last": engines[-1],
        "asked_for": any(re.search(r"engines? more", batch.reason) for batch in batches),
        "changes": len(changes),
        "turns": turns(changes),
        "mean_utilisation": float(np.mean(utilisation)) if utilisation else None,
        "mean_latency_s": float(np.average(latency_s, weights=[batch.events for batch in batches])),
        "most_executors": max(executors, default=None),
        "last_executors": executors[-1] if executors else None,
        "at_s": [batch.finished_s - outcome.began_s for batch in batches],
        "engines": engines,
        "utilisation": [batch.utilisation for batch in batches],
        "latency_s": latency_s,
        "rate_per_s": [rate_at(order, batch.finished_s - outcome.began_s) for batch in batches],
        "executors_at_s": [at_s - outcome.began_s for at_s, _ in outcome.executors],
        "executors": executors,
    }


def turns(changes: Sequence[int]) -> int:
    """How often growing changes to shrinking, or shrinking to growing.

    >>> turns([1, 1, 2, -1, -2]), turns([1, -1, 1])
    (1, 2)
    """
    return sum(before * after < 0 for before, after in itertools.pairwise(changes))


def latencies_s(outcome: Outcome) -> list[float]:
    """(batches,) the mean time from the writing of rows to the end of their batch; rows are read in their order.

    >>> from trimtab_lab.elastic.orders import MeasuredBatch
    >>> batches = tuple(MeasuredBatch(4, 0.0, at_s, 0, ()) for at_s in (2.0, 3.0))
    >>> latencies_s(Outcome(batches, 1, 0, sent=((0.5, 2), (1.5, 2), (2.0, 4))))
    [1.0, 1.0]
    """
    written_s = np.repeat([at_s for at_s, _ in outcome.sent], [count for _, count in outcome.sent])
    found, first = [], 0
    for batch in outcome.batches:
        own = written_s[first : first + batch.events]
        found.append(float(batch.finished_s - own.mean()))
        first += batch.events
    return found


def holds(results: Results) -> Verdict:
    """Scaled out and in once, in time, with the right answer."""
    checks: list[Check] = []
    for place, course in results.series["courses"].items():
        checks += [
            Check(
                f"{place}: every key is counted right", course["wrong_keys"] == 0, "", f"{course['wrong_keys']} wrong"
            ),
            Check(
                f"{place}: engines don't oscillate: at most one turn",
                course["turns"] <= 1,
                "",
                f"{course['changes']} changes, {course['turns']} turns",
            ),
            Check(
                f"{place}: more engines are asked for when there is more to do than one can",
                course["asked_for"],
                "",
                f"at most {course['most']} engines",
            ),
        ]
        checks += _checks_of_a_whole_day(place, course) if results.series["full"] else []
    return Verdict(tuple(checks), "" if all(check.holds for check in checks) else REASON)


REASON = "Utilisation is measured: what else the machine does keeps engines busy, too."


def _checks_of_a_whole_day(place: str, course: dict[str, Any]) -> list[Check]:
    checks = [
        Check(
            f"{place}: engines follow the rate out and in",
            course["most"] >= 3 and course["last"] <= 2,
            "",
            f"1, at most {course['most']}, {course['last']} at the end",
        ),
        Check(
            f"{place}: mean latency stays below {LATENCY_S:.0f} s",
            course["mean_latency_s"] < LATENCY_S,
            "",
            f"{course['mean_latency_s']:.2f} s, batches beginning once a second",
        ),
    ]
    if course["most_executors"] is not None:
        checks.append(
            Check(
                f"{place}: executors come and go with the engines",
                course["most_executors"] >= course["most"] and course["last_executors"] < course["most_executors"],
                "",
                f"at most {course['most_executors']}, {course['last_executors']} at the end",
            )
        )
    return checks


def draw(results: Results, figure: Figure) -> None:
    """Rate and engines above, utilisation and latency below, one column per place."""
    courses = results.series["courses"]
    axes = figure.subplots(3, len(courses), sharex="col", sharey="row", squeeze=False, height_ratios=(1.6, 1, 1))
    for column, (place, course) in zip(axes.T, courses.items(), strict=True):
        above, middle, below = column
        above.step(course["at_s"], course["engines"], where="post", color="#0072b2", label="engines")
        if course["executors"]:
            style = {"color": "#d55e00", "linestyle": "--", "linewidth": 1.3}
            above.step(course["executors_at_s"], course["executors"], where="post", label="executors", **style)
        rate = above.twinx()
        rate.fill_between(course["at_s"], course["rate_per_s"], color="#bbbbbb", alpha=0.4, linewidth=0)
        rate.set_ylim(0, None)
        rate.grid(visible=False)
        rate.set_ylabel("events a second (grey)")
        above.set_ylim(0, None)
        above.set_title(place)
        above.legend(loc="upper left")
        known = [
            (at_s, each) for at_s, each in zip(course["at_s"], course["utilisation"], strict=True) if each is not None
        ]
        middle.plot([at_s for at_s, _ in known], [each for _, each in known], color="#009e73")
        below.plot(course["at_s"], course["latency_s"], color="#cc79a7")
        middle.set_ylim(0, None)
        below.set_ylim(0, None)
        below.set_xlabel("time, s")
    axes[0, 0].set_ylabel("number")
    axes[1, 0].set_ylabel("utilisation, %")
    axes[2, 0].set_ylabel("latency, s")


EXPERIMENT = Experiment(
    id="live-scale",
    paper="beyond the papers",
    figures="a day in two minutes",
    claim="Engines follow a day's rate out and in without oscillating; on a cluster executors really come and go.",
    workload="The rate goes from 150 events a second up to 1,800 (in one process, at most 8 engines) or 1,100 (on a "
    "standalone cluster of 4 one-core workers, at most 4) and down again, in 120 s; an event waits 1 ms, a batch "
    "begins once a second. Latency is from the writing of a row to the end of its batch.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(11.0, 7.0),
    alone=True,
    live=True,
)
