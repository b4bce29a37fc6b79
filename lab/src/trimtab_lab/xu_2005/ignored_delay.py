"""Figure 9: a controller designed as if actions had no delay oscillates more and more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trimtab.control import (
    FirstOrderModel,
    PairBalancer,
    PIController,
    PIGains,
    place_poles,
    poles,
    spectral_radius,
    step_response,
)
from trimtab_lab.experiment import Cell, Check, Experiment, Results, Settings, Table, Verdict
from trimtab_lab.simulation.intake_loop import arrival_rates, run_intake, run_split
from trimtab_lab.xu_2005.printed_figures import PAPER_POLE, corrected_gains, printed_figures
from trimtab_lab.xu_2005.testbed import (
    BLUE,
    FLOW_ELEMENT,
    GREY,
    HELD_RESULTS,
    INTERVAL,
    MADE_UP,
    MB,
    ORANGE,
    PAPER,
    PRINTED,
    REAL,
    REFERENCE_BYTES,
    SPLIT_ELEMENT,
    SPLIT_MADE_UP,
    SPLIT_RATE,
    USUAL_INTAKE,
    designed,
    identified_flow,
    identified_pair,
    plain,
    repeats,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Float64Array = npt.NDArray[np.float64]

OVERSHOOT = 0.05
"""The request of the runs: settled in 5 intervals, as in the paper, and 5 % overshoot."""

INTERVALS = 100
WINDOWS = ((0, 8), (8, 16), (16, 24), (60, 100))
"""The swing is measured in these intervals: three while it grows, and one after the action has reached its limits."""

LOOPS = ("flow", "balance")
HASTE = (0.0, 0.05, 0.14)
"""Requested overshoots; the last one is that of the paper's poles."""

WISHES = (5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 40.0)


def run(settings: Settings) -> Results:
    """Compute poles for many requests, then run both loops of the testbed with either design."""
    seeds = repeats(settings)
    swings: dict[str, list[Float64Array]] = {}
    shown: dict[str, list[float | None]] = {}
    delays_found, radii = [], []
    hasty: dict[tuple[str, float], list[float]] = {(loop, wish): [] for loop in LOOPS for wish in HASTE}
    for i, seed in enumerate(seeds):
        settings.progress(i / len(seeds), "closing the loops")
        flow, pair = identified_flow(seed), identified_pair(seed)
        delays_found += [flow.model.delay, pair.model.delay]
        loops: tuple[tuple[str, FirstOrderModel, Callable[[PIGains, int], Float64Array]], ...] = (
            ("flow", flow.model, _free_space),
            ("balance", pair.model, _difference),
        )
        for name, model, simulate in loops:
            for wish in HASTE:
                hasty[name, wish].append(spectral_radius(model, designed(replace(model, delay=0), wish).gains))
            for kind, believed in (("ignored", replace(model, delay=0)), ("known", model)):
                gains = designed(believed, OVERSHOOT).gains
                radii.append((name, kind, spectral_radius(model, gains)))
                output = simulate(gains, seed)
                swings.setdefault(f"{name}, delay {kind}", []).append(_swings(output))
                if i == 0:
                    shown[f"{name}, delay {kind}"] = plain(output)
                    if name == "balance":
                        shown[f"delays, delay {kind}"] = plain(_delays(gains, seed) * INTERVAL)
    medians = {name: np.median(rows, axis=0) for name, rows in swings.items()}
    wrong = [radius for _, kind, radius in radii if kind == "ignored"]
    right = [radius for _, kind, radius in radii if kind == "known"]
    wishes = _wishes()
    series: dict[str, Any] = {
        "time": plain(np.arange(INTERVALS) * INTERVAL),
        "shown": shown,
        "swings": {name: plain(row, 6) for name, row in medians.items()},
        "ignored_radii": [min(wrong), max(wrong)],
        "known_radii": [min(right), max(right)],
        "delays_found": delays_found,
        "steps": _steps(),
        "poles": _pole_lists(),
        "wishes": [list(row) for row in wishes],
    }
    swing_rows: tuple[tuple[Cell, ...], ...] = tuple((name, *row.tolist()) for name, row in medians.items())
    tables = (
        Table(
            "The paper's model: spectral radius of the loop for a wanted settling time",
            ("wanted, intervals", "delay ignored: believed", "in truth", "delay known", "that: within 2 % after"),
            wishes,
        ),
        Table(
            "Swing (root mean square) of free space, MB, and of the difference of response times, intervals",
            ("loop", *(f"intervals {start} to {stop}" for start, stop in WINDOWS)),
            swing_rows,
        ),
        Table(
            "How fast a requested loop must be for the ignored delay to matter: real spectral radius, median of fits",
            ("settled in 5 intervals, with an overshoot of", "flow control", "load balancing"),
            tuple((f"{100 * wish:.0f} %", *(float(np.median(hasty[loop, wish])) for loop in LOOPS)) for wish in HASTE),
        ),
        printed_figures(),
    )
    gentle = float(np.median(hasty["balance", 0.0]))
    harmless = next(row[0] for row in wishes if float(row[2] or 0) < 1)
    notes = (
        f"Medians of {len(seeds)} seeded runs. In the simulation the swing stops growing where an action meets its "
        "limit: an intake can't be less than 0, nor a share outside 0 to 1.",
        f"With no overshoot requested the balancing loop bears the ignored delay (spectral radius {gentle:.2f}): its "
        "elements forget faster than the flow's. The runs ask for 5 %.",
        f"Ignoring the delay does no harm to the paper's flow loop where it only has to settle after "
        f"{harmless:.0f} intervals or more.",
        "The text calls the controller of figure 9 a flow controller, its caption a load balancing controller; both "
        "loops are shown.",
    )
    return Results(tables, series, notes)


def _free_space(gains: PIGains, seed: int) -> Float64Array:
    """Free space minus its reference, in MB, beginning at the reference."""
    trace = run_intake(
        FLOW_ELEMENT,
        arrival_rates(INTERVALS, 40 * USUAL_INTAKE),
        controller=PIController(gains, REFERENCE_BYTES, minimum=0.0),
        first_action=USUAL_INTAKE,
        first_results=HELD_RESULTS,
        seed=seed,
    )
    return (trace.free_bytes - REFERENCE_BYTES) / MB


def _difference(gains: PIGains, seed: int) -> Float64Array:
    """The response time of the first element minus that of the second, in intervals."""
    rates = arrival_rates(INTERVALS, SPLIT_RATE)
    trace = run_split([SPLIT_ELEMENT] * 2, rates, balancer=PairBalancer(gains), seed=seed)
    return trace.responses[:, 0] - trace.responses[:, 1]


def _delays(gains: PIGains, seed: int) -> Float64Array:
    rates = arrival_rates(INTERVALS + 20, SPLIT_RATE)
    trace = run_split([SPLIT_ELEMENT] * 2, rates, balancer=PairBalancer(gains), seed=seed)
    return trace.delays[:INTERVALS]


def _swings(output: Float64Array) -> Float64Array:
    return np.array([np.sqrt(np.mean(output[start:stop] ** 2)) for start, stop in WINDOWS])


def _wishes() -> tuple[tuple[float | None, ...], ...]:
    rows: list[tuple[float | None, ...]] = []
    for wish in WISHES:
        ignored, known = place_poles(PRINTED, settling_intervals=wish), place_poles(REAL, settling_intervals=wish)
        truth = spectral_radius(REAL, ignored.gains)
        rows.append((wish, ignored.spectral_radius, truth, known.spectral_radius, known.settled_after))
    return tuple(rows)


def _steps() -> dict[str, list[float | None]]:
    """Step responses of the paper's model, without limits or noise: without the delay, with it, and designed for it."""
    ignored, known = designed(PRINTED, OVERSHOOT).gains, designed(REAL, OVERSHOOT).gains
    cases = (("believed", PRINTED, ignored), ("in truth", REAL, ignored), ("delay known", REAL, known))
    return {name: plain(step_response(model, gains, intervals=24).outputs) for name, model, gains in cases}


def _pole_lists() -> dict[str, list[list[float]]]:
    ignored, known = designed(PRINTED, OVERSHOOT).gains, designed(REAL, OVERSHOOT).gains
    return {
        name: [[float(pole.real), float(pole.imag)] for pole in poles(REAL, gains)]
        for name, gains in (("ignored", ignored), ("known", known))
    }


def holds(results: Results) -> Verdict:
    """With poles outside the unit circle the swing grows, with poles inside it doesn't."""
    series = results.series
    paper_truth = spectral_radius(REAL, corrected_gains())
    swings = series["swings"]
    wrong = [swings[f"{loop}, delay ignored"] for loop in LOOPS]
    right = [swings[f"{loop}, delay known"] for loop in LOOPS]
    grows = all(row[2] > 1.5 * row[1] > 2.25 * row[0] and row[3] > 5 * row[0] for row in wrong)
    quiet = all(max(row[1:]) < 3 * row[0] and row[3] < 0.2 * other[3] for row, other in zip(right, wrong, strict=True))
    low, high = series["ignored_radii"]
    known_low, known_high = series["known_radii"]
    return Verdict(
        (
            Check(
                "with the paper's poles the loop is stable without the delay and unstable with it",
                abs(PAPER_POLE) < 1 < paper_truth,
                "0.4 as designed; 'predicted a stable system'",
                f"spectral radius {abs(PAPER_POLE):.2f} believed, {paper_truth:.2f} in truth",
            ),
            Check(
                "designed without the delay, for 5 intervals and 5 % overshoot, both loops of the testbed are unstable",
                low > 1,
                "unstable",
                f"spectral radius {low:.2f} to {high:.2f}",
            ),
            Check(
                "there are oscillations that increase in amplitude",
                grows,
                "shown in the plot",
                "swing of the free space in three stretches of 8 intervals: "
                + "{:.2f}, {:.1f}, {:.1f} MB".format(*wrong[0][:3])
                + "; of the difference of responses: "
                + "{:.2f}, {:.2f}, {:.2f} intervals".format(*wrong[1][:3]),
            ),
            Check(
                "fitting the model with its delay finds it",
                set(series["delays_found"]) == {1},
                "'control actions take place in the next time interval'",
                f"1 in {series['delays_found'].count(1)} of {len(series['delays_found'])} fits",
            ),
            Check(
                "designed with it they are stable and don't grow",
                known_high < 1 and quiet,
                "'resulted in the performance displayed in figure 6'",
                f"spectral radius {known_low:.2f} to {known_high:.2f}",
            ),
        )
    )


def draw(results: Results, figure: Figure) -> None:
    """Poles, step response, and the two loops."""
    series = results.series
    (circle, steps), (flow, delay) = figure.subplots(2, 2, gridspec_kw={"width_ratios": (1, 1.6)})
    angle = np.linspace(0, 2 * np.pi, 200)
    circle.plot(np.cos(angle), np.sin(angle), color=GREY, linewidth=1)
    for name, colour, marker in (("ignored", ORANGE, "x"), ("known", BLUE, "o")):
        points = np.array(series["poles"][name])
        circle.scatter(points[:, 0], points[:, 1], color=colour, marker=marker, label=f"delay {name}", zorder=3)
    circle.set_aspect("equal")
    circle.set_title("Poles: outside the circle it grows")
    circle.set_xlabel("real part")
    circle.set_ylabel("imaginary part")
    circle.legend(loc="center left", bbox_to_anchor=(0.06, 0.5))
    styles = {
        "believed": (GREY, ":", "delay ignored, as believed"),
        "in truth": (ORANGE, "-", "delay ignored, in truth"),
        "delay known": (BLUE, "-", "delay known"),
    }
    for name, outputs in series["steps"].items():
        colour, line, label = styles[name]
        steps.plot(outputs, color=colour, linestyle=line, label=label)
    steps.set_ylim(-3, 5)
    steps.set_title("Step response of the paper's model (no limits, no noise)")
    steps.set_xlabel("intervals")
    steps.set_ylabel("output / reference")
    steps.legend(loc="upper left")
    for kind, colour in (("ignored", ORANGE), ("known", BLUE)):
        flow.plot(series["time"], series["shown"][f"flow, delay {kind}"], color=colour, linewidth=1.4)
        delay.plot(
            series["time"], series["shown"][f"delays, delay {kind}"], color=colour, linewidth=1.4, label=f"delay {kind}"
        )
    flow.set_title("Flow control, simulated")
    flow.set_xlabel("time, s")
    flow.set_ylabel("free space - reference, MB")
    delay.set_title("Load balancing, simulated")
    delay.set_xlabel("time, s")
    delay.set_ylabel("end-to-end delay, s")
    delay.set_ylim(bottom=0)
    delay.legend(loc="upper left")


FIGURE_9 = Experiment(
    id="xu-fig9",
    paper=PAPER,
    figures="figure 9",
    claim="Ignoring that actions work one interval later makes the loop oscillate and grow; knowing it doesn't.",
    workload=f"{MADE_UP} {SPLIT_MADE_UP} Both are designed to settle in 5 intervals with 5 % overshoot.",
    run=run,
    holds=holds,
    draw=draw,
    size_inches=(11.0, 7.0),
)
