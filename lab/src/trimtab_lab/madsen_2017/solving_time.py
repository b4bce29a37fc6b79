"""Figures 2, 3 and 4: load distance against solving time and moves allowed, MILP beside Flux, in three clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.planning.flux import flux
from trimtab.planning.milp import milp
from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.madsen_2017.planner_colours import BLUES, BOUND, ORANGES, OTHERS, OURS
from trimtab_lab.workloads.clusters import synthetic_cluster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATIENCE_S = 30.0
"""Far more than a search takes: it is limited by steps, so that the same seed finds the same plan on any machine."""

LEAST_SHOWN = 0.01
"""Bounds below this are not drawn, as a bound near 0 proves nothing."""

MOVES = 20
USUAL_VARIES = 30.0


@dataclass(frozen=True)
class Sweep:
    """The settings that are compared.

    varies   by how many points the changed nodes differ
    seeds    clusters for each of them
    efforts  steps of the search
    moves    maxMigrations
    """

    varies: tuple[float, ...]
    seeds: int
    efforts: tuple[int, ...]
    moves: tuple[int, ...]


FULL = Sweep((10.0, 20.0, 30.0, 40.0, 50.0), 5, (100, 1_000, 10_000, 100_000, 600_000), (5, 10, 20, 40, 80))
REDUCED = Sweep((10.0, 50.0), 1, (100, 50_000, 300_000), (10, 20, 40))


@dataclass(frozen=True)
class Instance:
    """One cluster with one budget, planned by both planners."""

    varies: float
    moves: int
    seed: int
    before: float
    flux: float
    milp: float
    bound: float
    seconds: float

    @property
    def ratio(self) -> float:
        """MILP's load distance as a share of Flux's."""
        return self.milp / self.flux

    @property
    def gap(self) -> float:
        """MILP's load distance over the proven bound, in percent of the bound."""
        return 100 * (self.milp / self.bound - 1) if self.bound > 0 else float("inf")

    @property
    def good(self) -> bool:
        """Whether it is at most half of Flux's, or near the proven bound."""
        return self.ratio <= 0.5 or self.gap <= 25


def run(settings: Settings, *, nodes: int, units: int, operators: int) -> Results:
    """Solve every cluster with the full effort, one of each kind with less, and one kind with other budgets."""
    sweep = FULL if settings.scale is Scale.FULL else REDUCED
    size = (nodes, units, operators)
    kinds = [(varies, MOVES) for varies in sweep.varies]
    kinds += [(USUAL_VARIES, moves) for moves in sweep.moves if (USUAL_VARIES, moves) not in kinds]
    seeds = range(settings.seed, settings.seed + sweep.seeds)
    _solve(
        size, sweep.varies[0], MOVES, settings.seed, sweep.efforts[1]
    )  # compiles, so that no time below includes that
    instances, todo = [], [(*kind, seed) for kind in kinds for seed in seeds]
    for done, (varies, moves, seed) in enumerate(todo):
        settings.progress(0.8 * done / len(todo), f"varies {varies:.0f}, {moves} moves")
        instances.append(_solve(size, varies, moves, seed, sweep.efforts[-1]))
    shown = [sweep.varies[0], sweep.varies[len(sweep.varies) // 2], sweep.varies[-1]]
    curves = {}
    for place, varies in enumerate(dict.fromkeys(shown)):
        settings.progress(0.8 + 0.2 * place / len(shown), f"solving times, varies {varies:.0f}")
        runs = [_solve(size, varies, MOVES, settings.seed, effort) for effort in sweep.efforts]
        curves[f"{varies:.0f}"] = {
            "steps": list(sweep.efforts),
            "seconds": [run.seconds for run in runs],
            "milp": [run.milp for run in runs],
            "flux": runs[0].flux,
            "bound": runs[0].bound,
        }
    by_varies = [instance for instance in instances if instance.moves == MOVES and instance.varies in sweep.varies]
    by_moves = [instance for instance in instances if instance.varies == USUAL_VARIES]
    series: dict[str, Any] = {
        "curves": curves,
        "moves": [
            {"moves": moves, **_medians([i for i in by_moves if i.moves == moves])} for moves in sorted(sweep.moves)
        ],
        "instances": [
            {"varies": i.varies, "moves": i.moves, "seed": i.seed, "flux": i.flux, "milp": i.milp, "bound": i.bound}
            for i in instances
        ],
        "slowest_seconds": max(instance.seconds for instance in instances),
    }
    tables = (
        _summary(f"Load distance with {MOVES} moves, by how unlevel the cluster is", "varies", by_varies, "varies"),
        _summary(f"By the moves allowed, varies {USUAL_VARIES:.0f}", "moves allowed", by_moves, "moves"),
        _quality(instances),
        _times(curves),
    )
    return Results(tables, series)


def _solve(size: tuple[int, int, int], varies: float, moves: int, seed: int, effort: int) -> Instance:
    nodes, units, operators = size
    problem = synthetic_cluster(nodes, units, varies=varies, seed=seed, operators=operators, max_moves=moves)
    plan = milp(problem, effort=effort, time_limit_s=PATIENCE_S, seed=seed)
    return Instance(
        varies=varies,
        moves=moves,
        seed=seed,
        before=problem.load_distance(problem.homes),
        flux=flux(problem).load_distance,
        milp=plan.load_distance,
        bound=plan.lower_bound,
        seconds=plan.seconds,
    )


def _medians(instances: Sequence[Instance]) -> dict[str, float]:
    return {
        name: float(np.median([getattr(instance, name) for instance in instances]))
        for name in ("before", "flux", "milp", "bound")
    }


def _summary(title: str, head: str, instances: Sequence[Instance], by: str) -> Table:
    rows = []
    for value in sorted({getattr(instance, by) for instance in instances}):
        group = [instance for instance in instances if getattr(instance, by) == value]
        middle = _medians(group)
        rows.append(
            (
                int(value),
                middle["before"],
                middle["flux"],
                middle["milp"],
                middle["bound"],
                float(np.median([instance.ratio for instance in group])),
                max(instance.ratio for instance in group),
                float(np.median([instance.seconds for instance in group])),
            )
        )
    columns = (head, "before", "Flux", "MILP", "proven bound", "MILP / Flux", "worst", "solving seconds")
    return Table(f"{title} (medians of {len(instances) // max(len(rows), 1)} clusters each)", columns, tuple(rows))


def _quality(instances: Sequence[Instance]) -> Table:
    ratios, gaps = [i.ratio for i in instances], [i.gap for i in instances if i.ratio > 0.5] or [0.0]
    half = sum(instance.ratio <= 0.5 for instance in instances)
    good = sum(instance.good for instance in instances)
    rows = (
        ("MILP's load distance / Flux's", float(np.median(ratios)), max(ratios)),
        ("above the proven bound, %, where that is over half", float(np.median(gaps)), max(gaps)),
    )
    title = (
        f"All {len(instances)} clusters: at most half of Flux's in {half}, that or within 25 % of the bound in {good}"
    )
    return Table(title, ("measure", "median", "worst"), rows)


def _times(curves: dict[str, dict[str, Any]]) -> Table:
    rows = tuple(
        (float(varies), steps, found, curve["flux"], seconds)
        for varies, curve in curves.items()
        for steps, found, seconds in zip(curve["steps"], curve["milp"], curve["seconds"], strict=True)
    )
    return Table("By solving time", ("varies", "steps of the search", "MILP", "Flux", "solving seconds"), rows)


def holds(results: Results) -> Verdict:
    """Lower than Flux in every cluster, by half where that is possible, within seconds."""
    found = [Instance(before=0.0, seconds=0.0, **record) for record in results.series["instances"]]
    lower = sum(instance.milp < instance.flux for instance in found)
    settled = sum(instance.milp == instance.flux <= 1.01 * instance.bound for instance in found)
    good = sum(instance.good for instance in found)
    early = [_won_early(curve) for curve in results.series["curves"].values()]
    slowest = results.series["slowest_seconds"]
    ratio = float(np.median([instance.ratio for instance in found]))
    checks = (
        Check(
            "MILP's load distance is below Flux's with the same moves, unless that is proved within 1 % of the lowest",
            lower + settled == len(found),
            "consistently",
            f"below in {lower} of {len(found)}, proved in {settled}; median {100 * ratio:.0f} % of Flux's",
        ),
        Check(
            "it is at most half of Flux's, or within 25 % of what any plan could reach",
            good == len(found),
            "",
            f"in {good} of {len(found)}",
        ),
        Check("a plan takes seconds", slowest < 10, "a few seconds", f"at most {slowest:.1f} s"),
        Check(
            "solving longer helps only slightly: a sixth of the search wins 95 % of what all of it wins over Flux",
            min(early) >= 0.95,
            "only slightly",
            f"{100 * min(early):.1f} % at least",
        ),
    )
    return Verdict(checks)


def _won_early(curve: Mapping[str, Any]) -> float:
    """The share of the full search's advantage over Flux that the second-highest effort reaches."""
    won = curve["flux"] - curve["milp"][-1]
    return (curve["flux"] - curve["milp"][-2]) / won if won > 0 else 1.0


def draw(results: Results, figure: Figure) -> None:
    """Load distance against solving time, and against the moves allowed."""
    left, right = figure.subplots(1, 2)
    curves = results.series["curves"]
    shades = range(len(curves)) if len(curves) > 2 else (0, 2)
    for shade, (varies, curve) in zip(shades, curves.items(), strict=True):
        left.plot(curve["steps"], curve["milp"], "o-", color=BLUES[shade], label=f"MILP, varies {varies}")
    for shade, (varies, curve) in zip(shades, curves.items(), strict=True):
        left.axhline(curve["flux"], linestyle="--", color=ORANGES[shade], label=f"Flux, varies {varies}")
    most, slowest = curve["steps"][-1], results.series["slowest_seconds"]
    left.set(xscale="log", yscale="log", ylabel="load distance (points)")
    left.set_xlabel(f"steps of the search ({most:,} took at most {slowest:.1f} s)")
    left.set_title(f"{MOVES} moves: a second is enough")
    left.legend(ncols=2, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    rows = results.series["moves"]
    moves = [row["moves"] for row in rows]
    right.plot(moves, [row["flux"] for row in rows], "s--", color=OTHERS, label="Flux")
    right.plot(moves, [row["milp"] for row in rows], "o-", color=OURS, label="MILP")
    proved = [row["bound"] if row["bound"] > LEAST_SHOWN else float("nan") for row in rows]
    right.plot(moves, proved, "x:", color=BOUND, label="no plan is below (proved)")
    right.set(xscale="log", yscale="log", xlabel="moves allowed (maxMigrations)", ylabel="load distance (points)")
    right.set_xticks(moves, [str(count) for count in moves])
    right.set_xticks([], minor=True)
    for axis in (left.yaxis, right.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    right.set_title(f"varies {USUAL_VARIES:.0f}: what a move buys")
    right.legend(ncols=3, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.2))


def _experiment(figure: int, nodes: int, units: int, operators: int) -> Experiment:
    return Experiment(
        id=f"milp-fig{figure}",
        paper="Madsen 2017",
        figures=f"figure {figure}",
        claim=(
            f"With {nodes} nodes, {units} key groups and {operators} operators the MILP reaches a lower load distance "
            "than Flux at the same number of migrations, within a few seconds."
        ),
        workload=(
            f"Synthetic clusters as in section 5.1: {nodes} nodes at 50 % (the paper doesn't say), {units} key groups "
            "of +-5 %, a fifth of the nodes shifted by half of `varies`. Ours is not CPLEX on the program as printed, "
            "but a search with a proven bound; its time is set by steps, so that results don't depend on the machine."
        ),
        run=partial(run, nodes=nodes, units=units, operators=operators),
        holds=holds,
        draw=draw,
        size_inches=(9.0, 4.6),
    )


FIGURE_2 = _experiment(2, 20, 400, 10)
FIGURE_3 = _experiment(3, 40, 800, 20)
FIGURE_4 = _experiment(4, 60, 1200, 30)
