"""How evenly engines are loaded: 4 on their own executors, 8 in one process, with keys from even to skewed."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from trimtab_lab.elastic.machines import outcome_of
from trimtab_lab.elastic.orders import LOCAL_SLOTS, WORKERS, FeedOrder, Outcome, Phase, Place, deviation
from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPONENTS = (0.2, 1.0, 1.5)
ENGINES = {Place.CLUSTER: WORKERS, Place.LOCAL: LOCAL_SLOTS}
PLACES = {Place.CLUSTER: "4 executors", Place.LOCAL: "8 engines in a process"}
LEVEL, MARGIN = 15.0, 1.15
"""The highest acceptable RSTD, in percent; and how far above the least possible RSTD it may be where that is more."""
MEASURED = 4
BATCHES, HASHED_BATCHES, WORK_MS, WAIT_US = 14, 6, 500, 800
"""Batches, and what they cost each engine if the load is even."""


def run(settings: Settings) -> Results:
    """Hashed and balanced, at every place and skew."""
    full = settings.scale is Scale.FULL
    cases = [(place, exponent) for place in ENGINES for exponent in EXPONENTS] if full else [(Place.CLUSTER, 1.0)]
    found: dict[str, Any] = {}
    for step, (place, exponent) in enumerate(cases):
        name = f"{PLACES[place]}, Zipf {exponent}"
        settings.progress(step / len(cases), name)
        # Reduced, load is counted in events: in a test, times depend on what else is running.
        balanced = outcome_of(place, _order(settings, place, exponent, measure="busy" if full else "events"))
        found[name] = {"balanced": _measured(balanced, full)}
        if full:
            found[name]["hashed"] = _measured(
                outcome_of(place, _order(settings, place, exponent, balanced=False)), full
            )
    rows = tuple((name, *_row(one)) for name, one in found.items())
    columns = ("engines and keys", "hashed: RSTD, %", "balanced: RSTD, %", "least possible, %", "key groups moved")
    title = f"Deviation of the engines' work in the last {MEASURED} batches together"
    return Results((Table(title, columns, rows),), {"cases": found, "full": full})


def _order(
    settings: Settings, place: Place, exponent: float, *, measure: str = "busy", balanced: bool = True
) -> FeedOrder:
    full, engines = settings.scale is Scale.FULL, ENGINES[place]
    batches = (BATCHES if balanced else HASHED_BATCHES) if full else 8
    phase = Phase.even(batches, (WORK_MS if full else 200) * 1_000 * engines // WAIT_US, exponent, WAIT_US)
    return FeedOrder(engines=engines, phases=(phase,), balanced=balanced, measure=measure, seed=settings.seed)


def _measured(outcome: Outcome, by_time: bool) -> dict[str, Any]:
    loads = [[each.worked_ms if by_time else each.events for each in batch.engines] for batch in outcome.batches]
    together = [sum(of_engine) for of_engine in zip(*loads[-MEASURED:], strict=True)]
    least = [batch.least_rstd for batch in outcome.batches[-MEASURED:] if batch.least_rstd is not None]
    return {
        "rstd_by_batch": [deviation(each) for each in loads],
        "rstd": deviation(together),
        "least": fmean(least) if least else None,
        "moved": sum(batch.moved for batch in outcome.batches),
        "wrong_keys": outcome.wrong_keys,
    }


def _row(one: dict[str, Any]) -> tuple[float | None, ...]:
    hashed, balanced = one.get("hashed"), one["balanced"]
    return (None if hashed is None else hashed["rstd"], balanced["rstd"], balanced["least"], balanced["moved"])


def holds(results: Results) -> Verdict:
    """Evenly loaded wherever the hottest key allows it."""
    cases = results.series["cases"]
    wrong = sum(one["wrong_keys"] for case in cases.values() for one in case.values())
    checks = [Check("Every run counts every key right", wrong == 0, "", f"{wrong} keys wrong")]
    for name, case in cases.items():
        rstd, least = case["balanced"]["rstd"], case["balanced"]["least"]
        most = max(LEVEL, MARGIN * least)
        sentence = f"{name}: RSTD is under {LEVEL:.0f} %"
        if least >= LEVEL:
            sentence = f"{name}: RSTD is near what the hottest key leaves possible"
        checks.append(Check(sentence, rstd <= most, "", f"{rstd:.1f} %, and {least:.1f} % is the least possible"))
    return Verdict(tuple(checks), "" if all(check.holds for check in checks) else REASON)


REASON = "Where work is measured in time, what else the machine does counts as work of the engine that it held up."


def draw(results: Results, figure: Figure) -> None:
    """Draw the deviation, batch by batch."""
    cases = results.series["cases"]
    axes = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    for each, (name, case) in zip(axes, cases.items(), strict=True):
        if "hashed" in case:
            each.plot(case["hashed"]["rstd_by_batch"], color="#d55e00", label="hashed")
        each.plot(case["balanced"]["rstd_by_batch"], color="#0072b2", label="balanced")
        each.axhline(LEVEL, color="#4d4d4d", linestyle=":", linewidth=1.2)
        least = case["balanced"]["least"]
        if least and least > LEVEL:
            each.axhline(least, color="#009e73", linestyle="--", linewidth=1.2, label="least possible")
        engines, keys = name.split(", ")
        each.set_title(f"{engines}\n{keys}", fontsize=9.5)
        each.set_xlabel("batch")
        each.set_ylim(0, None)
    axes[0].set_ylabel("RSTD of the engines' work, %")
    axes[-1].legend(loc="upper right")


EXPERIMENT = Experiment(
    id="live-cluster",
    paper="beyond the papers",
    figures="level engines on a cluster, and 8 of them",
    claim="The coordinator keeps the engines' work within an RSTD of 15 % wherever the hottest key allows it.",
    workload="1,000 keys by Zipf's law with exponents 0.2, 1.0 and 1.5; events wait 0.8 ms, half a second a batch and "
    "engine if they are level; on a standalone cluster of 4 one-core executors, and 8 engines in one process.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(12.0, 3.6),
    alone=True,
    live=True,
)
