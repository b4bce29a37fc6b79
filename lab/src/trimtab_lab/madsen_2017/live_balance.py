"""Figures 6 and 7, live: the load distance of MILP, Flux and PoTC, and how many key groups they move for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimtab_lab.experiment import Cell, Check, Experiment, Results, Scale, Settings, Table, Verdict
from trimtab_lab.madsen_2017.live_runs import WORKLOAD, PlannedRun, mean, planned_run, split_run
from trimtab_lab.madsen_2017.planner_colours import BOUND, OTHERS, OURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MILP, FLUX, POTC = "MILP", "Flux", "PoTC"
MAX_MOVES = 13
STYLES = {MILP: ("o-", OURS), FLUX: ("s--", OTHERS), POTC: ("^:", BOUND)}


def run(settings: Settings) -> Results:
    """Run the same updates under each of the three."""
    scale, seed = settings.scale, settings.seed
    runs: dict[str, PlannedRun] = {}
    for place, (name, planner) in enumerate(((MILP, "milp"), (FLUX, "flux"), (POTC, ""))):
        settings.progress(place / 3, name)
        runs[name] = planned_run(planner, MAX_MOVES, scale, seed) if planner else split_run(scale, seed)
    found: dict[str, dict[str, Any]] = {name: _measured(name, each) for name, each in runs.items()}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            mean(one["after"]),
            max(one["after"]),
            mean(one["until_next"]),
            max(one["until_next"]),
            runs[name].measured_distance,
            mean(one["moves"]),
            max(one["moves"]),
            sum(one["moves"]),
        )
        for name, one in found.items()
    )
    columns = (
        "planner",
        "load distance after moves, mean",
        "largest",
        "until the next moves, mean",
        "largest ",
        "in a batch, by the engines' own time",
        "moves a period, mean",
        "most",
        "all moves",
    )
    notes = (
        "Load distance after moves: the loads as the coordinator knew them, an average over the last batches, as they "
        "lie after the moves. Until the next moves: what really came then. PoTC moves nothing: for it both are the "
        "loads of a period.",
        "PoTC is done in the feed: a column sends an update to the less loaded of its key's two engines, and after "
        "each window a row for every partial count goes to the engine that merges it, and costs half of an update for "
        "each article. The cost of merging is our assumption; the paper doesn't give its own.",
        "PoTC decides anew for every update, so that it follows a change at once; what it leaves uneven comes from "
        "merging. By what really came it may be the more level one: no plan for a period knows what changes in it.",
        "Ours stops at a load distance of 2 % of the mean, which is 1 point here: a better one isn't worth a move.",
    )
    series = {"planners": found, "full": settings.scale is Scale.FULL}
    return Results((Table(f"{MAX_MOVES} moves a period", columns, rows),), series, notes)


def _measured(name: str, run: PlannedRun) -> dict[str, Any]:
    after = run.until_next if name == POTC else run.after_moves
    return {
        "batches": run.turns.tolist(),
        "after": after.tolist(),
        "until_next": run.until_next.tolist(),
        "moves": [0] * len(run.turns) if name == POTC else run.moved[run.turns].tolist(),
    }


def _settled(one: dict[str, Any]) -> list[float]:
    """Load distances after the moves, without the first two periods: the paper leaves out how its runs begin, too."""
    settled: list[float] = one["after"][2:]
    return settled or one["after"]


def quality(results: Results) -> Verdict:
    """Figure 6: MILP is level to a point, Flux and PoTC aren't."""
    found = results.series["planners"]
    levels = {name: _settled(one) for name, one in found.items()}
    checks = (
        Check(
            "MILP's load distance is a point or less after the moves of a period",
            max(levels[MILP]) <= 1.0 or not results.series["full"],
            "consistently below 1 %",
            f"{mean(levels[MILP]):.2f} on average, {max(levels[MILP]):.2f} at most",
        ),
        Check(
            "Flux's is larger, and fluctuates",
            mean(levels[FLUX]) > mean(levels[MILP]) and max(levels[FLUX]) > max(levels[MILP]),
            "up to 7 %",
            f"{mean(levels[FLUX]):.2f} on average, {max(levels[FLUX]):.2f} at most",
        ),
        Check(
            "PoTC's is larger than MILP's, too",
            mean(levels[POTC]) > mean(levels[MILP]),
            "not consistently good",
            f"{mean(levels[POTC]):.2f} on average, {max(levels[POTC]):.2f} at most",
        ),
    )
    reason = (
        "The loads that a plan is made for are averages over the last batches, and the coordinator stops where it is "
        "near enough by those; by the loads of the whole period the same placement is a little off."
    )
    return Verdict(checks, "" if all(check.holds for check in checks) else reason)


def overhead(results: Results) -> Verdict:
    """Figure 7: both keep to the limit, and MILP gets more for its moves."""
    found = results.series["planners"]
    moves = {name: found[name]["moves"] for name in (MILP, FLUX)}
    checks = (
        Check(
            f"neither moves more than {MAX_MOVES} key groups in a period",
            0 < max(moves[MILP]) <= MAX_MOVES and 0 < max(moves[FLUX]) <= MAX_MOVES,
            f"at most {MAX_MOVES}",
            f"MILP at most {max(moves[MILP])}, Flux {max(moves[FLUX])}",
        ),
        Check(
            "with no more moves than that MILP is closer to level than Flux",
            mean(_settled(found[MILP])) < mean(_settled(found[FLUX])),
            "Flux needs more moves than necessary",
            f"{mean(moves[MILP]):.1f} moves a period for {mean(_settled(found[MILP])):.2f} points, "
            f"Flux {mean(moves[FLUX]):.1f} for {mean(_settled(found[FLUX])):.2f}",
        ),
    )
    reason = "How many moves a period takes depends on how much has changed, and that isn't much in every period."
    return Verdict(checks, "" if all(check.holds for check in checks) else reason)


def draw_quality(results: Results, figure: Figure) -> None:
    """Load distance after the moves of each period, and until the next."""
    left, right = figure.subplots(1, 2, sharey=True)
    for name, one in results.series["planners"].items():
        style, colour = STYLES[name]
        left.plot(one["batches"], one["after"], style, color=colour, label=name)
        right.plot(one["batches"], one["until_next"], style, color=colour, label=name)
    left.axhline(1.0, color="#999999", linewidth=1.0)
    left.set(xlabel="batch", ylabel="load distance (points at a mean load of 50)")
    left.set_ylim(bottom=0)
    left.set_title(f"Directly after {MAX_MOVES} moves at most")
    right.set_xlabel("batch")
    right.set_title("By what came until the next moves")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def draw_overhead(results: Results, figure: Figure) -> None:
    """Moves of each period."""
    axes = figure.add_subplot()
    for name in (MILP, FLUX):
        one, (style, colour) = results.series["planners"][name], STYLES[name]
        axes.plot(one["batches"], one["moves"], style, color=colour, label=name)
    axes.axhline(MAX_MOVES, color="#999999", linewidth=1.0)
    axes.set(xlabel="batch", ylabel="key groups moved")
    axes.set_ylim(bottom=0)
    axes.set_title(f"Moves a period, {MAX_MOVES} allowed")
    axes.legend()


FIGURE_6 = Experiment(
    id="milp-fig6",
    paper="Madsen 2017",
    figures="figure 6",
    claim="In a live TopK job with 13 moves a period MILP's load distance stays below 1 %, Flux's reaches 7 %, and "
    "PoTC's isn't consistently good.",
    workload=WORKLOAD,
    run=run,
    holds=quality,
    draw=draw_quality,
    size_inches=(10.0, 4.2),
    alone=True,
    live=True,
)
FIGURE_7 = Experiment(
    id="milp-fig7",
    paper="Madsen 2017",
    figures="figure 7",
    claim="Both MILP and Flux keep to 13 moves a period, and MILP gets a better balance for them.",
    workload=WORKLOAD,
    run=run,
    holds=overhead,
    draw=draw_overhead,
    size_inches=(8.0, 4.0),
    alone=True,
    live=True,
)
