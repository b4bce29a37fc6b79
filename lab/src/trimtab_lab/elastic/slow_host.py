"""A host is slow for a while: it gets less work, and then its former share again."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from trimtab_lab.elastic.machines import outcome_of
from trimtab_lab.elastic.orders import WORKERS, FeedOrder, Phase, Place
from trimtab_lab.experiment import Check, Experiment, Results, Scale, Settings, Table, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLOWER = 3
SLOW_ENGINE = 1
EXPONENT, EVENTS, WAIT_US = 0.8, 1_600, 1_000
FULL, REDUCED = (8, 14, 14), (4, 7, 1)
"""Batches before, while and after the host is slow."""
WITHIN = 6
"""The number of batches within which the share has to adapt."""
BEFORE, FIRST, SLOW, AFTER = "before", "slow: first two", "slow: settled", "after: settled"


def run(settings: Settings) -> Results:
    """One run in three phases."""
    full = settings.scale is Scale.FULL
    settings.progress(0.0, "a run of minutes" if full else "a run of seconds")
    batches = FULL if full else REDUCED
    costs = (WAIT_US, SLOWER * WAIT_US, WAIT_US)
    events = EVENTS if full else EVENTS // 2
    phases = tuple(Phase(count, events, EXPONENT, WAIT_US, cost) for count, cost in zip(batches, costs, strict=True))
    outcome = outcome_of(
        Place.CLUSTER, FeedOrder(engines=WORKERS, phases=phases, slow_engine=SLOW_ENGINE, seed=settings.seed)
    )
    hosts = sorted({engine.host for batch in outcome.batches for engine in batch.engines})
    series: dict[str, Any] = {
        "full": full,
        "phases": list(batches),
        "slow_host": outcome.slow_host,
        "shares": {host: [100 * batch.share_of(host) for batch in outcome.batches] for host in hosts},
        "batch_ms": [batch.batch_ms for batch in outcome.batches],
        "rstd": [batch.rstd for batch in outcome.batches],
        "moved": [batch.moved for batch in outcome.batches],
        "wrong_keys": outcome.wrong_keys,
    }
    series["means"] = {name: _means(series, first, last) for name, first, last in _spans(batches)}
    rows = tuple((name, *means.values()) for name, means in series["means"].items())
    columns = ("batches", "slow host's share, %", "RSTD of work, %", "batch, ms")
    return Results((Table("Before, while and after one of four hosts is slow", columns, rows),), series)


def _spans(batches: tuple[int, int, int]) -> list[tuple[str, int, int]]:
    before, while_slow, after = batches
    slow, back = before, before + while_slow
    return [
        (BEFORE, before // 2, slow),
        (FIRST, slow, slow + 2),
        (SLOW, min(slow + WITHIN, back - 1), back),
        (AFTER, min(back + WITHIN, back + after - 1), back + after),
    ]


def _means(series: dict[str, Any], first: int, last: int) -> dict[str, float]:
    shares = series["shares"][series["slow_host"]]
    measures = {"share": shares, "rstd": series["rstd"], "batch_ms": series["batch_ms"]}
    return {name: fmean(each[first:last]) for name, each in measures.items()}


def holds(results: Results) -> Verdict:
    """A smaller share within a few batches, and the former one afterwards."""
    series = results.series
    before, slow, after = (series["means"][name]["share"] for name in (BEFORE, SLOW, AFTER))
    wrong, fair = series["wrong_keys"], 100 / (1 + SLOWER * (WORKERS - 1))
    checks = [
        Check("Every key is counted right", wrong == 0, "", f"{wrong} keys wrong"),
        Check(
            f"A host that is {SLOWER} times slower gets less within {WITHIN} batches",
            slow < 0.75 * before,
            "",
            f"{before:.0f} % of the events before, {slow:.0f} % then; {fair:.0f} % would be level",
        ),
    ]
    if series["full"]:
        first_rstd, rstd = (series["means"][name]["rstd"] for name in (FIRST, SLOW))
        checks += [
            Check(
                "It gets about what it can bear",
                slow < fair + 6,
                "",
                f"{slow:.0f} % of the events; RSTD of work {first_rstd:.0f} % at first, then {rstd:.0f} %",
            ),
            Check(
                f"Its share comes back within {WITHIN} batches after that",
                after > 0.8 * before,
                "",
                f"{after:.0f} % of the events",
            ),
        ]
    return Verdict(tuple(checks), "" if all(check.holds for check in checks) else REASON)


REASON = "Speeds are measured: what else the machine does slows hosts, too."


def draw(results: Results, figure: Figure) -> None:
    """Shares of all hosts over time, and how long batches took."""
    series = results.series
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.6, 1))
    for host, shares in series["shares"].items():
        is_slow = host == series["slow_host"]
        label = "the slow host" if is_slow else None
        above.plot(shares, color="#d55e00" if is_slow else "#999999", linewidth=2.4 if is_slow else 1.2, label=label)
    below.plot(series["batch_ms"], color="#0072b2")
    slow, back = series["phases"][0], series["phases"][0] + series["phases"][1]
    for axes in (above, below):
        axes.axvspan(slow - 0.5, back - 0.5, color="#f3d9c9", zorder=0)
        axes.set_ylim(0, None)
    above.set_ylabel("events, %")
    above.set_title(f"One of four hosts is {SLOWER} times slower for a while (shaded)")
    above.legend(loc="lower right")
    below.set_ylim(0, 1.2 * max(series["batch_ms"][2:]))  # the first two batches load code
    below.set_ylabel("batch, ms")
    below.set_xlabel("batch")


EXPERIMENT = Experiment(
    id="live-slow-host",
    paper="beyond the papers",
    figures="a host that is slow for a while",
    claim="A host that becomes slow gets less within a few batches, as much as it can bear, and its share again when "
    "it is as fast as before.",
    workload=f"Standalone cluster of 4 one-core executors; 1,000 keys, Zipf {EXPONENT}, {EVENTS:,} events a batch, "
    f"which wait 1 ms each, and {SLOWER} ms on one executor for {FULL[1]} batches. The coordinator isn't told.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(9.0, 5.0),
    alone=True,
    live=True,
)
