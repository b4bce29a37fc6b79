"""Beyond the papers: a plan for a thousand nodes and a hundred thousand units, in seconds and with its proof."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trimtab.planning.flux import flux
from trimtab.planning.milp import milp
from trimtab_lab.experiment import Cell, Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.workloads.clusters import synthetic_cluster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIME_LIMIT_S = 7.0
BAR_S = 10.0
VARIES = 30.0
UNITS_PER_NODE = 100
MOVES_PER_NODE = (0.5, 2.0, None)
"""Budgets: too few moves to level the cluster, about enough, and no limit."""

FULL_NODES = (60, 250, 1_000)
REDUCED_NODES = (20, 40)
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#4d4d4d"


def run(settings: Settings) -> Results:
    """Both planners on clusters of growing size, with three budgets each."""
    full = settings.scale is Scale.FULL
    sizes = FULL_NODES if full else REDUCED_NODES
    todo = [(nodes, each) for nodes in sizes for each in MOVES_PER_NODE]
    found: list[dict[str, Any]] = []
    for step, (nodes, each) in enumerate(todo):
        budget = None if each is None else int(each * nodes)
        words = "no limit" if budget is None else f"{budget:,} moves"
        settings.progress(step / len(todo), f"{nodes:,} nodes, {words}")
        units = nodes * UNITS_PER_NODE
        problem = synthetic_cluster(nodes, units, varies=VARIES, seed=settings.seed, max_moves=budget)
        started = time.perf_counter()
        theirs = flux(problem)
        flux_s = time.perf_counter() - started
        ours = milp(problem, time_limit_s=TIME_LIMIT_S if full else 1.0, seed=settings.seed)
        found.append(
            {
                "nodes": nodes,
                "units": units,
                "budget": words,
                "before": problem.load_distance(problem.homes),
                "flux": theirs.load_distance,
                "milp": ours.load_distance,
                "bound": ours.lower_bound,
                "moves": len(ours.moves),
                "flux_s": flux_s,
                "milp_s": ours.seconds,
            }
        )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            one["nodes"],
            one["units"],
            one["budget"],
            one["before"],
            one["flux"],
            one["milp"],
            one["bound"],
            one["moves"],
            one["flux_s"],
            one["milp_s"],
        )
        for one in found
    )
    columns = ("nodes", "units", "budget", "before", "Flux", "milp", "proven bound", "moves", "Flux (s)", "milp (s)")
    return Results((Table("Load distance, percentage points", columns, rows),), {"plans": found})


def holds(results: Results) -> Verdict:
    """Better than Flux everywhere, and within the time."""
    plans = results.series["plans"]
    # Where the bound proves that no plan is better, being as good as Flux is the best possible.
    better = sum(one["milp"] < one["flux"] or one["milp"] <= 1.01 * one["bound"] for one in plans)
    slowest = max(one["milp_s"] for one in plans)
    largest = max(plans, key=lambda one: one["nodes"])
    tight = [one for one in plans if one["bound"] > 0]
    gaps = [one["milp"] / one["bound"] - 1 for one in tight]
    return Verdict(
        (
            Check(
                "a lower load distance than Flux with every budget, or proved to be the lowest",
                better == len(plans),
                "",
                f"{better} of {len(plans)}",
            ),
            Check(
                f"a plan for {largest['nodes']:,} nodes and {largest['units']:,} units within {BAR_S:.0f} seconds",
                slowest <= BAR_S,
                "",
                f"{slowest:.1f} s at most",
            ),
            Check(
                "the plan says how far from the best it can be at most",
                bool(tight),
                "",
                f"{100 * min(gaps):.1f} to {100 * max(gaps):.0f} % above the proven bound" if gaps else "",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """One panel per size: bars for Flux and milp on a logarithmic axis, the proven bound as a line across them."""
    plans = results.series["plans"]
    sizes = sorted({one["nodes"] for one in plans})
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for panel, nodes in zip(panels, sizes, strict=True):
        group = [one for one in plans if one["nodes"] == nodes]
        for place, one in enumerate(group):
            panel.bar(place - 0.2, max(one["flux"], 1e-4), 0.38, color=ORANGE, label="Flux" if not place else None)
            panel.bar(place + 0.2, max(one["milp"], 1e-4), 0.38, color=BLUE, label="milp" if not place else None)
            if one["bound"] > 1e-4:
                label = "proven bound" if not place else None
                panel.hlines(one["bound"], place, place + 0.4, color=GREY, linewidth=2.0, label=label)
        panel.set_yscale("log")
        panel.set_xticks(range(len(group)), [one["budget"] for one in group])
        panel.set_title(f"{nodes:,} nodes, {group[0]['units']:,} units")
        panel.set_xlabel("budget")
    panels[0].set_ylabel("load distance (percentage points)")
    panels[0].legend()


EXPERIMENTS = (
    Experiment(
        id="beyond-scale",
        paper="beyond the papers",
        figures="a thousand nodes",
        claim="milp plans for 1,000 nodes and 100,000 units in seconds, better than Flux, and proves its gap.",
        workload="synthetic clusters as in Madsen 2017, section 5.1, with 100 key groups a node and varies 30",
        run=run,
        holds=holds,
        draw=draw,
        size_inches=(10.0, 3.8),
        alone=True,
    ),
)
