"""A day of the Wikipedia stream through a cluster of ten: what figures 9, 10, 12 and 13 have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trimtab_lab.experiment import Cell, Scale, Settings, Table
from trimtab_lab.routers import ConsistentGrouping, KeyGrouping, ShuffleGrouping
from trimtab_lab.routers.router import Float64Array, Int64Array
from trimtab_lab.simulation.arrivals import WIKIPEDIA_DAY, Arrivals
from trimtab_lab.simulation.message_cluster import MessageRun, simulate_messages, spread
from trimtab_lab.simulation.worker_signals import ByUtilisation
from trimtab_lab.simulation.worker_speeds import WorkerSpeeds
from trimtab_lab.workloads.key_streams import wikipedia_like

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = 10
DAY_S = 86_400.0
UTILISATION = 0.8
"""Mean utilisation of the whole cluster: "each worker operates at 80% of the capacity using shuffle grouping"."""

POINTS = 96
"""How many points of a day are kept: one for each quarter of an hour."""

Course = dict[str, list[float]]
"""What is drawn: hours, and the spread between workers of queue, latency and utilisation."""


@dataclass(frozen=True, slots=True)
class Day:
    """The size of a day: messages, and time slots after which workers signal."""

    messages: int
    slots: int

    @classmethod
    def of(cls, settings: Settings, *, reduced_slots: int = 864) -> Day:
        """The paper's day in slots of 20 s, or a tenth of its messages in fewer slots, by default of 100 s."""
        return cls(22_000_000, 4320) if settings.scale is Scale.FULL else cls(2_200_000, reduced_slots)

    def arrivals(self, curve: Sequence[float] = WIKIPEDIA_DAY) -> Arrivals:
        """Messages whose rate follows a day's curve."""
        return Arrivals.following(curve, self.messages, slots=self.slots, slot_s=DAY_S / self.slots)

    def speeds(self, strengths: npt.ArrayLike) -> Float64Array:
        """Messages a second, in proportion to the strengths; the cluster's sum is always the same."""
        shares = np.asarray(strengths, dtype=np.float64)
        total_per_s = self.messages / DAY_S / UTILISATION
        return np.asarray(shares / shares.sum() * total_per_s)


def strengths(strong: int, times: float) -> list[float]:
    """`strong` of ten workers are `times` times stronger than the others: the paper's y and z.

    >>> strengths(3, 5)
    [5, 5, 5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    return [times] * strong + [1.0] * (WORKERS - strong)


def run_scheme(
    scheme: str, keys: Int64Array, arrivals: Arrivals, speeds: WorkerSpeeds, *, seed: int, virtual_workers: int = 10
) -> MessageRun:
    """A day with KG, SG or CG; workers signal only with CG."""
    if scheme == "CG":
        grouping = ConsistentGrouping(WORKERS, virtual_workers=virtual_workers, seed=seed, count_replicas=False)
        return simulate_messages(grouping, keys, arrivals, speeds, signals=ByUtilisation(), ask_replicas=False)
    routers = {"KG": KeyGrouping, "SG": ShuffleGrouping}
    router = routers[scheme](WORKERS, seed=seed, count_replicas=False)
    return simulate_messages(router, keys, arrivals, speeds, ask_replicas=False)


def course(run: MessageRun) -> Course:
    """The spreads in each quarter of an hour: queues at its end, latency and utilisation over all of it."""
    steps = np.linspace(0, run.moments_s.size, POINTS + 1).astype(np.int64)
    starts, ends = steps[:-1], steps[1:]
    got = np.add.reduceat(run.assigned, starts, axis=0)
    waited_s = np.add.reduceat(run.assigned * run.mean_latency_s, starts, axis=0)
    used = np.add.reduceat(run.utilisation, starts, axis=0) / (ends - starts)[:, np.newaxis]
    return {
        "hours": (run.moments_s[ends - 1] / 3600).tolist(),
        "queue": spread(run.queue_length)[ends - 1].tolist(),
        "latency": spread(waited_s / np.maximum(got, 1)).tolist(),
        "utilisation": spread(used).tolist(),
    }


def mean_course(courses: Sequence[Course]) -> Course:
    """The mean of several days, moment by moment.

    >>> mean_course([{"hours": [1.0], "queue": [4.0]}, {"hours": [1.0], "queue": [2.0]}])
    {'hours': [1.0], 'queue': [3.0]}
    """
    return {what: np.mean([of[what] for of in courses], axis=0).tolist() for what in courses[0]}


def from_hour(series: Mapping[str, Any], what: str, hour: float, until: float = 24.0) -> list[float]:
    """The values of a series between two hours.

    >>> from_hour({"hours": [1.0, 2.0, 3.0], "queue": [5.0, 6.0, 7.0]}, "queue", 1.0)
    [6.0, 7.0]
    """
    return [value for time, value in zip(series["hours"], series[what], strict=True) if hour < time <= until]


def mean_of(values: Sequence[float]) -> float:
    """The mean as a float."""
    return sum(values) / len(values)


def at_hour(series: Mapping[str, Any], what: str, hour: float) -> float:
    """The last value up to an hour.

    >>> at_hour({"hours": [1.0, 2.0, 3.0], "queue": [5.0, 6.0, 7.0]}, "queue", 2.5)
    6.0
    """
    return float([value for time, value in zip(series["hours"], series[what], strict=True) if time <= hour][-1])


def grows_all_day(series: Mapping[str, Any], what: str) -> bool:
    """Whether it is larger at noon than at 2 h, and larger at midnight than at noon."""
    return at_hour(series, what, 2) < at_hour(series, what, 12) < at_hour(series, what, 24)


SPREAD_COLUMNS = (
    "scheme",
    "largest queue spread",
    "at hour",
    "largest latency spread in s",
    "mean utilisation spread",
    "mean latency in s",
)


def compare_schemes(
    schemes: tuple[str, ...], day: Day, strengths_of_workers: Sequence[float], settings: Settings
) -> tuple[dict[str, Course], Table]:
    """The same day with each scheme on workers of these strengths: their courses, and a table of the spreads."""
    keys = wikipedia_like(day.messages, seed=settings.seed)
    speeds = WorkerSpeeds.constant(day.speeds(strengths_of_workers))
    courses: dict[str, Course] = {}
    rows = []
    for step, scheme in enumerate(schemes):
        settings.progress(step / len(schemes), scheme)
        found = run_scheme(scheme, keys, day.arrivals(), speeds, seed=settings.seed)
        courses[scheme] = course(found)
        rows.append(spread_row(scheme, courses[scheme], found.latency_s))
    return courses, Table("Largest minus smallest value of the workers", SPREAD_COLUMNS, tuple(rows))


def spread_row(scheme: str, of: Course, latency_s: float) -> tuple[Cell, ...]:
    """A scheme's row of a table of spreads."""
    longest = max(of["queue"])
    hour = of["hours"][of["queue"].index(longest)]
    return scheme, longest, hour, max(of["latency"]), mean_of(of["utilisation"]), latency_s


PANELS = (
    ("queue", "Queue length", "messages, most less least", 1.0),
    ("latency", "Latency", "seconds, most less least", 0.001),
    ("utilisation", "Utilisation", "most less least", None),
)
"""Series, title, axis, and the lowest value of a log axis (None: linear)."""


def draw_courses(
    figure: Figure,
    courses: Mapping[str, Any],
    colours: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
    changes_h: Sequence[float] = (),
) -> None:
    """Three panels over the day, one line per scheme."""
    for axes, (what, title, label, least) in zip(figure.subplots(1, 3), PANELS, strict=True):
        for name, of in courses.items():
            heights = of[what] if least is None else [max(value, least) for value in of[what]]
            axes.plot(of["hours"], heights, color=colours[name], label=(labels or {}).get(name, name))
        if least is not None:
            axes.set_yscale("log")
        for hour in changes_h:
            axes.axvline(hour, color="#999999", linewidth=1, linestyle=":")
        axes.set_xticks(range(0, 25, 6))
        axes.set_title(title)
        axes.set_xlabel("hour of the day")
        axes.set_ylabel(label)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(courses))


DAY_WORKLOAD = (
    "WP-like stream (22 M messages, 2.9 M keys, the first 9.32 %), synthetic, over a day's curve of our own (figure 5 "
    "prints no numbers; ours runs from 0.85 to 1.24 of the mean, high from 17 h on, where the text reports a spike); "
    "10 workers at a mean utilisation of 80 %; workers signal every 20 s (the paper gives no length; "
    "10 and 60 s were tried too, see figure 12)"
)
