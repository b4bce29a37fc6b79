"""Plans: the load distance of `milp` compared with Flux and with the proven bound, and the time it takes."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from benchmarks.results import Bar, Number, Result, Side, Table
from trimtab.planning.flux import flux
from trimtab.planning.milp import milp
from trimtab.planning.plan import Plan
from trimtab.planning.problem import Problem
from trimtab_lab.planners.paper_milp import paper_milp
from trimtab_lab.workloads.clusters import synthetic_cluster

HALF, QUARTER = 0.5, 0.25
"""The bar: at most half of Flux's load distance, or within a quarter of the proven bound."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run.

    clusters        nodes and units
    varies          by how many points the fullest and the emptiest nodes differ
    seeds           of the instances; the search was tuned on 0 to 110 and 500 to 507
    time_limit_s    for a plan
    paper_limit_s   for a plan by the program as the paper prints it
    large           nodes and units of a large cluster, the points by which its nodes vary, and the budget in moves
    large_limit_s   for a plan of that
    """

    clusters: tuple[tuple[int, int], ...]
    varies: tuple[float, ...]
    seeds: range
    time_limit_s: float
    paper_limit_s: float
    large: tuple[tuple[int, int, float, int | None], ...]
    large_limit_s: float


FULL = Sizes(
    clusters=((20, 400), (40, 800), (60, 1_200)),
    varies=(10.0, 20.0, 30.0, 40.0, 50.0),
    seeds=range(1000, 1020),
    time_limit_s=2.0,
    paper_limit_s=15.0,  # with a limit of 30 s, HiGHS once took 109 s
    large=tuple((1_000, 100_000, varies, moves) for varies in (10.0, 30.0, 50.0) for moves in (1_000, 2_000, None)),
    large_limit_s=8.0,
)
QUICK = Sizes(FULL.clusters, (10.0, 30.0, 50.0), range(1000, 1002), 2.0, 2.0, ((1_000, 100_000, 30.0, 2_000),), 8.0)
TINY = Sizes(((6, 60),), (30.0,), range(1000, 1002), 2.0, 1.0, ((20, 400, 30.0, 30),), 2.0)


@dataclass(frozen=True, slots=True)
class Pair:
    """One instance, planned by both planners."""

    ours: Plan
    flux: Plan

    @property
    def ratio(self) -> float:
        """Our load distance as a share of Flux's."""
        return self.ours.load_distance / self.flux.load_distance

    @property
    def good(self) -> bool:
        """Whether it meets the bar."""
        return self.ratio <= HALF or self.ours.gap <= QUARTER


def run(sizes: Sizes) -> Result:
    """Plan every instance with both planners; some also with the paper's program."""
    milp(synthetic_cluster(4, 40, varies=10.0, seed=0))  # compiles, so that plans are timed without that
    flux(synthetic_cluster(4, 40, varies=10.0, seed=0))
    groups = {
        (nodes, units, varies): [
            _pair(synthetic_cluster(nodes, units, varies=varies, seed=seed), sizes.time_limit_s) for seed in sizes.seeds
        ]
        for nodes, units in sizes.clusters
        for varies in sizes.varies
    }
    large = {
        case: _pair(
            synthetic_cluster(case[0], case[1], varies=case[2], seed=1000, max_moves=case[3]), sizes.large_limit_s
        )
        for case in sizes.large
    }
    every = [pair for pairs in groups.values() for pair in pairs]
    good = 100.0 * sum(pair.good for pair in every) / len(every)
    slowest = max(pair.ours.seconds for pair in large.values())
    worst = max(pair.ratio for pair in large.values())
    return Result(
        "Plans",
        f"Synthetic clusters as in Madsen et al. (2017, section 5.1), 20 moves, {len(sizes.seeds)} instances a row,"
        f" {sizes.time_limit_s:g} s for a plan. Load distance is in percentage points. A gap is how far it is above the"
        " bound that was proved with the plan, as a share of the bound.",
        (_quality(groups), _paper(sizes), _large(large)),
        (
            Bar(
                "plans with at most half of Flux's load distance or within 25 % of their bound",
                Number(good, good, good, "%", 1),
                Side.AT_LEAST,
                100.0,
            ),
            Bar(
                "a plan for 1,000 nodes and 100,000 units, the slowest",
                Number(slowest, slowest, slowest, "s", 1),
                Side.AT_MOST,
                10.0,
            ),
            Bar("its load distance over Flux's, the worst", Number(worst, worst, worst, "x", 1), Side.AT_MOST, 1.0),
        ),
        (
            "Flux stops when no pair of nodes gains from a move, often before its budget is spent; both have the same.",
            "Where 20 moves are too few to unload the fullest nodes, Flux is nearly as good as any plan: the ratio is"
            " close to 1 and the gap to 0.",
            "Without a limit on moves the only proven bound is 0, and any gap is infinite.",
        ),
    )


def _pair(problem: Problem, time_limit_s: float) -> Pair:
    ours, theirs = milp(problem, time_limit_s=time_limit_s), flux(problem)
    for plan in (ours, theirs):
        if found := problem.faults(plan.owner):
            raise AssertionError(f"{plan.planner}: {found}")
    return Pair(ours, theirs)


def _quality(groups: dict[tuple[int, int, float], list[Pair]]) -> Table:
    rows = []
    for (nodes, units, varies), pairs in groups.items():
        good = sum(pair.good for pair in pairs)
        rows.append(
            (
                f"{nodes} / {units:,}",
                f"{varies:g}",
                f"{statistics.median(pair.ours.load_distance for pair in pairs):.3f}",
                f"{statistics.median(pair.flux.load_distance for pair in pairs):.3f}",
                _median_and_worst([pair.ratio for pair in pairs], "{:.2f}"),
                _median_and_worst([100 * pair.ours.gap for pair in pairs], "{:.1f} %"),
                _median_and_worst([pair.ours.seconds for pair in pairs], "{:.2f} s"),
                f"{good} of {len(pairs)}",
            )
        )
    columns = ("nodes / units", "varies", "`milp`", "Flux", "ratio, worst", "gap, worst", "time, worst", "in the bar")
    return Table(columns, tuple(rows), "Medians, and the worst instance")


def _median_and_worst(values: list[float], shown: str) -> str:
    """The median and the largest value as text; without a bound a gap is infinite.

    >>> _median_and_worst([1.0, 2.0, 9.0], "{:.1f} s")
    '2.0 s, 9.0 s'
    """
    both = (statistics.median(values), max(values))
    return ", ".join(shown.format(value) if math.isfinite(value) else "no bound" for value in both)


def _paper(sizes: Sizes) -> Table:
    rows = []
    for nodes, units in dict.fromkeys((sizes.clusters[0], sizes.clusters[-1])):
        problem = synthetic_cluster(nodes, units, varies=sizes.varies[0], seed=sizes.seeds[0])
        plans = (
            milp(problem, time_limit_s=sizes.time_limit_s),
            paper_milp(problem, time_limit_s=sizes.paper_limit_s),
            flux(problem),
        )
        rows += [
            (f"{nodes} / {units:,}", f"`{plan.planner}`", *_distance_bound_gap(plan), f"{plan.seconds:.2f} s")
            for plan in plans
        ]
    columns = ("nodes / units", "planner", "load distance", "bound", "gap", "time")
    title = f"Beside the program as the paper prints it, solved by HiGHS (varies {sizes.varies[0]:g})"
    return Table(columns, tuple(rows), title)


def _large(pairs: dict[tuple[int, int, float, int | None], Pair]) -> Table:
    rows = [
        (
            f"{nodes:,} / {units:,}",
            f"{varies:g}",
            "no limit" if moves is None else f"{moves:,}",
            *_distance_bound_gap(pair.ours),
            f"{len(pair.ours.moves):,}",
            f"{pair.ours.seconds:.1f} s",
            f"{pair.flux.load_distance:.3f}",
            f"{len(pair.flux.moves):,}",
            f"{pair.flux.seconds:.2f} s",
        )
        for (nodes, units, varies, moves), pair in pairs.items()
    ]
    columns = (
        "nodes / units",
        "varies",
        "budget",
        "`milp`",
        "bound",
        "gap",
        "moves",
        "time",
        "Flux",
        "Flux's moves",
        "Flux's time",
    )
    return Table(columns, tuple(rows), "A large cluster")


def _distance_bound_gap(plan: Plan) -> tuple[str, str, str]:
    gap = f"{100 * plan.gap:.1f} %" if plan.lower_bound > 0 else "no bound"
    return f"{plan.load_distance:.3g}", f"{plan.lower_bound:.3g}", gap


if __name__ == "__main__":
    import argparse

    from benchmarks.report import section

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few instances")
    print(section(run(QUICK if parser.parse_args().quick else FULL)))
