"""Figure 3: without control, results are dropped as the result queue fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.control import PIController
from trimtab_lab.experiment import Check, Experiment, Results, Settings, Table, Verdict
from trimtab_lab.simulation.intake_loop import run_intake
from trimtab_lab.xu_2005.testbed import (
    BLUE,
    FLOW_ELEMENT,
    FULL_SPEED,
    GREEN,
    GREY,
    INTERVAL,
    MADE_UP,
    MB,
    ORANGE,
    PAPER,
    REAL,
    REFERENCE_BYTES,
    designed,
    plain,
    repeats,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5)
"""Event rates, as shares of the highest sustainable rate."""

HOLD = 150
"""How many intervals each rate lasts."""


def run(settings: Settings) -> Results:
    """Raise the event rate step by step, without control and with the intake controlled."""
    rates = np.repeat(LEVELS, HOLD) * FULL_SPEED
    controller = PIController(designed(REAL).gains, REFERENCE_BYTES, minimum=0.0)
    arrived, dropped, free, early, held_drops, waiting = [], [], [], 0.0, 0.0, []
    seeds = repeats(settings)
    for i, seed in enumerate(seeds):
        settings.progress(i / len(seeds), "raising the event rate")
        trace = run_intake(FLOW_ELEMENT, rates, seed=seed)
        held = run_intake(FLOW_ELEMENT, rates, controller=controller, first_action=rates[0], seed=seed)
        per_level = (len(LEVELS), HOLD)
        # The second half of each step: in the first half the queue is still moving to its new level.
        arrived.append(trace.arrived.reshape(per_level)[:, HOLD // 2 :].mean(axis=1))
        dropped.append(trace.dropped.reshape(per_level)[:, HOLD // 2 :].mean(axis=1))
        free.append(trace.free_bytes.reshape(per_level)[:, HOLD // 2 :].mean(axis=1))
        # Free space is measured at the start of an interval, so what is left at its end is the next entry.
        early += float(trace.dropped[:-1][trace.free_bytes[1:] > 0].sum())
        held_drops += float(held.dropped.sum())
        waiting.append(held.waiting.max())
        if i == 0:
            shown, shown_held = trace, held
    rate, drop, space = (
        np.mean(column, axis=0) / unit for column, unit in ((arrived, 1e3), (dropped, 1e3), (free, MB))
    )
    rows = tuple(
        (
            round(level, 2),
            float(rate[i] / INTERVAL),
            float(drop[i] / INTERVAL),
            float(100 * drop[i] / rate[i]),
            float(space[i]),
        )
        for i, level in enumerate(LEVELS)
    )
    table = Table(
        "Without control, mean of the second half of each step",
        ("load", "k events a second", "k drops a second", "dropped, %", "free space, MB"),
        rows,
    )
    every = slice(None, None, 4)
    series = {
        "time": plain(np.arange(len(rates))[every] * INTERVAL),
        "input_rate": plain(shown.arrived[every] / 1e3 / INTERVAL),
        "drop_rate": plain(shown.dropped[every] / 1e3 / INTERVAL),
        "free_mb": plain(shown.free_bytes[every] / MB, 1),
        "held_free_mb": plain(shown_held.free_bytes[every] / MB, 1),
        "drops_by_level": plain(drop, 6),
        "free_by_level": plain(space, 3),
        "drops_with_room_left": early,
        "drops_under_control": held_drops,
        "most_waiting_millions": float(np.mean(waiting) / 1e6),
    }
    return Results((table,), series, (f"Mean of {len(seeds)} seeded runs.",))


def holds(results: Results) -> Verdict:
    """Drops begin when there is no free space, and grow with the rate."""
    drops, free = np.array(results.series["drops_by_level"]), np.array(results.series["free_by_level"])
    heavy = drops > 0
    light = np.array(LEVELS) <= 0.7
    first = LEVELS[int(np.argmax(heavy))] if heavy.any() else float("nan")
    return Verdict(
        (
            Check("light loads drop nothing", not heavy[light].any(), "-", f"no drop up to a load of {LEVELS[2]}"),
            Check(
                "moderate to heavy loads do", bool(heavy[~light].any()), "shown in the plot", f"from a load of {first}"
            ),
            Check(
                "drops happen only where the free space has gone to 0",
                results.series["drops_with_room_left"] == 0 and bool((free[drops > 0.01 * FULL_SPEED / 1e3] < 1).all()),
                "'drops occur as the free space goes to 0'",
                f"{results.series['drops_with_room_left']:.0f} results dropped while there was room",
            ),
            Check(
                "the drop rate increases with the event rate",
                bool((np.diff(drops[heavy]) > 0).all()) and int(heavy.sum()) >= 3,
                "shown in the plot",
                ", ".join(f"{drop / INTERVAL:.1f}" for drop in drops[heavy]) + " k a second",
            ),
            Check(
                "(not in the figure) with the intake controlled nothing is dropped",
                results.series["drops_under_control"] == 0,
                "the aim of section 3.1",
                f"{results.series['drops_under_control']:.0f} dropped; at most "
                f"{results.series['most_waiting_millions']:.1f} M events wait in the input queue instead",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Rates above, free space below, as in the paper."""
    series = results.series
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(series["time"], series["input_rate"], color=BLUE, label="events in")
    above.plot(series["time"], series["drop_rate"], color=ORANGE, label="results dropped, without control")
    above.axhline(FULL_SPEED / 1e3 / INTERVAL, color=GREY, linestyle=":", label="what the element can keep up")
    above.set_ylabel("thousand a second")
    above.set_title("Without control, what is too much is dropped after the work was done")
    above.legend(loc="upper left")
    below.plot(series["time"], series["free_mb"], color=ORANGE, label="without control")
    below.plot(series["time"], series["held_free_mb"], color=GREEN, label="PI control, reference 400 MB")
    below.set_ylabel("free space of the\nresult queue, MB")
    below.set_xlabel("time, s")
    below.set_ylim(bottom=-20)
    below.legend(loc="upper right")


FIGURE_3 = Experiment(
    id="xu-fig3",
    paper=PAPER,
    figures="figure 3",
    claim="Without control, events are dropped as the result queue fills; the drop rate increases with the event rate.",
    workload=MADE_UP
    + " The event rate rises in eight steps of 300 s, from 0.3 to 1.5 of the element's highest sustainable rate.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(9.0, 5.5),
)
