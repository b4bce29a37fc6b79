"""FUGU and ALBIC in one plan: as few hosts as FUGU needs, evenly loaded, with the operators of a query together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem
from trimtab_lab.experiment import Check, Experiment, Results, Settings, Table, Verdict, rows_of
from trimtab_lab.heinze_2013.days import EVENTS_PER_S, WORKLOAD, day_of, day_seeds, mean, rounded
from trimtab_lab.planners.albic import albic
from trimtab_lab.planners.fugu import fugu
from trimtab_lab.simulation.hosts_and_queries import run_day

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLD = 0.85
MOVES = 20
"""What the joint plan may move; FUGU alone moves what it needs."""

EVERY = 30
"""Of the plans of a day, one in this many is compared."""

TIME_LIMIT_S = 0.25
"""For each plan of ALBIC; most of it is spent on the proof of the lowest possible load distance."""

FUGU, JOINT = "FUGU", "FUGU and ALBIC"
COLOURS = {FUGU: "#0072b2", JOINT: "#009e73"}
MEASURES = {
    "hosts": "hosts in use",
    "collocation": "traffic inside a host, %",
    "load_distance": "load distance, points",
    "highest": "busiest host, %",
    "moves": "moves",
}


def fugu_and_albic(problem: Problem, *, threshold: float, max_moves: int) -> tuple[Problem, Plan]:
    """FUGU decides which hosts are used; ALBIC empties the others, levels and collocates, in one plan.

    Also returns the problem that ALBIC was given, in which the hosts that FUGU would not use are draining.
    """
    packed = fugu(problem, threshold=threshold)
    used = np.bincount(packed.owner, minlength=problem.nodes) > 0
    budget = max(max_moves, len(packed.moves))
    few = replace(problem, draining=problem.draining | ~used, max_moves=budget)
    return few, albic(few, time_limit_s=TIME_LIMIT_S)


def run(settings: Settings) -> Results:
    """Compare the plans at moments of days that FUGU runs."""
    seeds = day_seeds(settings, full=4, reduced=1)
    problems: list[Problem] = []

    def watched(problem: Problem) -> Plan:
        problems.append(problem)
        return fugu(problem, threshold=THRESHOLD)

    moments: list[Problem] = []
    for seed in seeds:
        problems.clear()
        run_day(day_of(EVENTS_PER_S, seed), watched, traffic_seen=True, seed=seed)
        moments += [problem for problem in problems[EVERY::EVERY] if problem.units > 60]  # on one host all is together
    found: dict[str, dict[str, list[float]]] = {name: {key: [] for key in MEASURES} for name in COLOURS}
    for i, problem in enumerate(moments):
        settings.progress(i / len(moments), f"moment {i + 1} of {len(moments)}")
        few, joint = fugu_and_albic(problem, threshold=THRESHOLD, max_moves=MOVES)
        for name, plan in ((FUGU, Plan.of(few, fugu(problem, threshold=THRESHOLD).owner, "fugu")), (JOINT, joint)):
            one = found[name]
            one["hosts"].append(float(len(set(plan.owner.tolist()))))
            one["collocation"].append(plan.collocation)
            one["load_distance"].append(plan.load_distance)
            one["highest"].append(float(problem.utilisation(plan.owner).max()))
            one["moves"].append(float(len(plan.moves)))
    means = [{"plan": name} | {MEASURES[key]: mean(values) for key, values in found[name].items()} for name in COLOURS]
    columns = ("plan", *MEASURES.values())
    table = Table(f"Mean of {len(moments)} moments of {len(seeds)} days", columns, rows_of(columns, means))
    return Results((table,), {n: {key: rounded(values) for key, values in found[n].items()} for n in COLOURS})


def holds(results: Results) -> Verdict:
    """The same hosts, more traffic inside them, a leveller load, few moves."""
    alone, joint = ({k: np.array(v) for k, v in results.series[name].items()} for name in (FUGU, JOINT))
    return Verdict(
        (
            Check(
                "as few hosts as FUGU alone, at every moment",
                bool((joint["hosts"] <= alone["hosts"]).all()),
                "-",
                f"mean {alone['hosts'].mean():.2f} and {joint['hosts'].mean():.2f}",
            ),
            Check(
                "at least ten points more of the traffic stays inside a host",
                bool(joint["collocation"].mean() >= alone["collocation"].mean() + 10),
                "-",
                f"{alone['collocation'].mean():.1f} to {joint['collocation'].mean():.1f} %",
            ),
            Check(
                "at a smaller load distance",
                bool(joint["load_distance"].mean() < alone["load_distance"].mean()),
                "-",
                f"{alone['load_distance'].mean():.1f} to {joint['load_distance'].mean():.1f} points",
            ),
            Check(
                f"within {MOVES} moves, or what FUGU itself needed",
                bool((joint["moves"] <= np.maximum(MOVES, alone["moves"])).all()),
                "-",
                f"mean {alone['moves'].mean():.1f} and {joint['moves'].mean():.1f}",
            ),
            Check(
                "no host is more than three points past the threshold",
                bool(joint["highest"].max() <= 100 * THRESHOLD + 3),
                "-",
                f"at most {joint['highest'].max():.1f} %, FUGU alone {alone['highest'].max():.1f} %",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Collocation and load distance, moment by moment."""
    left, right = figure.subplots(1, 2)
    for name, colour in COLOURS.items():
        one = results.series[name]
        share = np.linspace(0, 100, len(one["collocation"]))
        left.plot(share, sorted(one["collocation"]), color=colour, marker="o", markersize=3.5, label=name)
        right.plot(share, sorted(one["load_distance"]), color=colour, marker="o", markersize=3.5, label=name)
    left.set_ylim(0, 103)
    left.set_ylabel("traffic inside a host, %")
    left.set_title("Operators of a query come together")
    left.legend(loc="lower right")
    right.set_ylabel("load distance, points")
    right.set_title("and the hosts in use are level")
    for axes in (left, right):
        axes.set_xlabel("moments up to this, %")


COLLOCATION = Experiment(
    id="beyond-fugu-albic",
    paper="beyond the papers",
    figures="Heinze 2013 and Madsen 2017 joined",
    claim="FUGU's elasticity and ALBIC's collocation fit in one plan: the hosts that FUGU would use, level, with most "
    "of a query's traffic inside one host, within a budget of moves.",
    workload=WORKLOAD + " Plans are compared at moments of days that FUGU runs at a threshold of 0.85.",
    run=run,
    holds=holds,
    draw=draw,
    alone=True,
)
