"""Figures 8 and 9, live: load distance and cost of moves if more key groups may move in a period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimtab_lab.experiment import Cell, Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.madsen_2017.live_runs import ALL_MOVES, WORKLOAD, PlannedRun, mean, planned_run
from trimtab_lab.madsen_2017.planner_colours import BLUES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMITS = (5, 13, ALL_MOVES)
PAPER_MOVE_S = 2.5
"""For how long a move paused a key group in the paper's system."""
MOST_EXTRA = 0.2
"""A batch with moves counts as no longer than others if it takes at most this share longer."""


def run(settings: Settings) -> Results:
    """Run the same updates with every limit."""
    scale, seed = settings.scale, settings.seed
    runs: dict[int, PlannedRun] = {}
    for place, limit in enumerate(LIMITS):
        settings.progress(place / len(LIMITS), _name(limit))
        runs[limit] = planned_run("milp", limit, scale, seed)
    found: dict[str, dict[str, Any]] = {_name(limit): _measured(each) for limit, each in runs.items()}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            one["mean"],
            one["largest"],
            mean(one["until_next"]),
            mean(one["moves"]),
            max(one["moves"]),
            one["extra_ms"],
            one["batch_ms"],
            PAPER_MOVE_S * mean(one["moves"]),
        )
        for name, one in found.items()
    )
    columns = (
        "moves allowed",
        "load distance after moves, mean",
        "largest",
        "until the next moves, mean",
        "moves a period, mean",
        "most",
        "longer batch with moves, measured (ms)",
        "batch (ms)",
        "latency of migration as in the paper, computed (s)",
    )
    notes = (
        "Measured: the median time of batches before which something moved, less that of the others. Nothing is "
        "paused: the new engine maps the files that the old one wrote.",
        f"Computed: the moves of a period times the {PAPER_MOVE_S} s that the paper gives for one, which is what its "
        "figure 9 adds up.",
        "The paper's limits are 10 key groups and none; ours shows 5, 13 and none, as 13 moves are nearly enough here.",
    )
    return Results((Table("MILP", columns, rows),), {"limits": found, "full": scale is Scale.FULL}, notes)


def _name(limit: int) -> str:
    return "no limit" if limit == ALL_MOVES else str(limit)


def _measured(run: PlannedRun) -> dict[str, Any]:
    after = run.after_moves.tolist()
    return {
        "batches": run.turns.tolist(),
        "after": after,
        "mean": mean(after),
        "largest": max(after),
        "until_next": run.until_next.tolist(),
        "moves": run.moved[run.turns].tolist(),
        "extra_ms": run.extra_ms,
        "batch_ms": run.batch_ms,
    }


def quality(results: Results) -> Verdict:
    """Figure 8: more moves, better balance."""
    found = results.series["limits"]
    few, usual, any_ = (found[_name(limit)] for limit in LIMITS)
    checks = (
        Check(
            "with few moves allowed the load distance is higher than with more, or without a limit",
            few["mean"] > max(usual["mean"], any_["mean"]),
            "highly correlated",
            ", ".join(f"{name}: {one['mean']:.2f}" for name, one in found.items()),
        ),
        Check(
            "with the lowest limit it has spikes, without one it has none",
            few["largest"] > 2 * any_["largest"],
            "significant spikes with 10",
            f"at most {few['largest']:.1f} against {any_['largest']:.1f}",
        ),
    )
    reason = "What 13 moves don't level in one period, they level in the next: a limit only makes it take longer."
    return Verdict(checks, "" if all(check.holds for check in checks) else reason)


def overhead(results: Results) -> Verdict:
    """Figure 9: more moves, more latency where a move costs some; here it doesn't."""
    found = results.series["limits"]
    few, _, any_ = (found[_name(limit)] for limit in LIMITS)
    first = max(any_["moves"])
    checks = [
        Check(
            "without a limit some periods migrate many more key groups than with the lowest one, so that the latency "
            "of migration (computed) is many times as long",
            first > 2 * max(few["moves"]),
            "very large without a limit",
            f"{PAPER_MOVE_S * first:.0f} s for {first} moves against {PAPER_MOVE_S * max(few['moves']):.0f} s",
        )
    ]
    if results.series["full"]:  # measured times, which tests don't check
        longest = max(one["extra_ms"] / one["batch_ms"] for one in found.values())
        checks.append(
            Check(
                "beyond the paper: as measured, batches with moves take no longer than others "
                f"(at most {100 * MOST_EXTRA:.0f} %)",
                longest <= MOST_EXTRA,
                "2.5 s a key group",
                ", ".join(f"{name}: {one['extra_ms']:+.0f} ms" for name, one in found.items()),
            )
        )
    reason = "Where a few moves are nearly enough, not many more are made, with or without a limit."
    return Verdict(tuple(checks), "" if all(check.holds for check in checks) else reason)


def draw_quality(results: Results, figure: Figure) -> None:
    """Load distance after the moves of each period, one line per limit."""
    axes = figure.add_subplot()
    for (name, one), colour in zip(results.series["limits"].items(), BLUES, strict=True):
        axes.plot(one["batches"], one["after"], "o-", color=colour, label=f"{name} moves" if name.isdigit() else name)
    axes.set(xlabel="batch", ylabel="load distance (points at a mean load of 50)")
    axes.set_ylim(bottom=0)
    axes.set_title("MILP: load distance directly after the moves of a period")
    axes.legend()


def draw_overhead(results: Results, figure: Figure) -> None:
    """Moves of each period with the paper's latency for them, and how much longer batches really took."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    limits = results.series["limits"]
    for (name, one), colour in zip(limits.items(), BLUES, strict=True):
        label = f"{name} moves" if name.isdigit() else name
        left.plot(one["batches"], [PAPER_MOVE_S * moves for moves in one["moves"]], "o-", color=colour, label=label)
    left.set(xlabel="batch", ylabel="latency of migration (s)")
    left.set_ylim(bottom=0)
    left.set_title("Computed: 2.5 s a move, as in the paper")
    left.legend()
    right.bar(list(limits), [one["extra_ms"] for one in limits.values()], color=BLUES)
    right.axhline(0, color="#999999", linewidth=1.0)
    right.set(xlabel="moves allowed", ylabel="longer batch with moves (ms)")
    right.set_title("Measured here")


FIGURE_8 = Experiment(
    id="milp-fig8",
    paper="Madsen 2017",
    figures="figure 8",
    claim="The more migrations a period may have, the better the load is balanced.",
    workload=WORKLOAD,
    run=run,
    holds=quality,
    draw=draw_quality,
    size_inches=(8.0, 4.0),
    alone=True,
    live=True,
)
FIGURE_9 = Experiment(
    id="milp-fig9",
    paper="Madsen 2017",
    figures="figure 9",
    claim="The latency of migration grows with the number of migrations, and is very large without a limit.",
    workload=WORKLOAD,
    run=run,
    holds=overhead,
    draw=draw_overhead,
    size_inches=(10.0, 4.2),
    alone=True,
    live=True,
)
