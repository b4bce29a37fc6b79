"""The paper's testbed as far as its text describes it: the element, the intervals, the model, and our assumptions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from trimtab.control import Design, FirstOrderModel, Identified, Schedule, excitation, identify, place_poles
from trimtab_lab.experiment import Scale, Settings
from trimtab_lab.simulation.intake_loop import Element, arrival_rates, run_intake, run_split

PAPER = "Xu 2005"
MB = 1e6
INTERVAL = 2
"""Seconds between two actions (section 4)."""

REFERENCE_BYTES = 400 * MB
"""The free space to hold (figure 6)."""

PRINTED = FirstOrderModel(a=0.985, b=-134.0, delay=0)
"""Section 3.1, where an action has no delay."""

REAL = replace(PRINTED, delay=1)
"""The same, with what section 4 found out: control actions take place in the next time interval."""

WANTED_SETTLING = 5.0
"""Intervals (section 3.1)."""

HELD_RESULTS = REFERENCE_BYTES / 134.0
"""Results in a queue of twice that size when the free space is at its reference."""

USUAL_INTAKE = 2 * (1 - PRINTED.a) * HELD_RESULTS
"""Events an interval that keep it there. With this and the element below, the model near that point is the paper's."""

FLOW_ELEMENT = Element(
    rate=2 * USUAL_INTAKE, half_speed=HELD_RESULTS, room=2 * HELD_RESULTS, result_bytes=134.0, jitter=0.02
)
FULL_SPEED = FLOW_ELEMENT.rate * FLOW_ELEMENT.room / (FLOW_ELEMENT.room + FLOW_ELEMENT.half_speed)
"""Events an interval that leave when the result queue is full: the highest sustainable rate."""

SPLIT_ELEMENT = Element(rate=1000.0, half_speed=600.0, jitter=0.02)
SPLIT_RATE = 1100.0
"""Events an interval for two elements: 55 % of their capacity."""

MADE_UP = (
    "Simulated: a fluid element with a result queue of 800 MB, whose speed is set so that its linear model about 400 MB"
    " is the paper's (a = 0.985, b = -134); Poisson arrivals, 2 % noise on the speed. The paper gives neither the size"
    " of its queue nor its event rates."
)

SPLIT_MADE_UP = (
    "Simulated: two fluid elements of 1,000 events an interval after a splitter, 1,100 events an interval, Poisson"
    " arrivals, 2 % noise on the speeds; a combiner as a barrier; new shares work one interval later. The paper gives"
    " no rates. Its machines have two processors, so a CPU hog is taken to leave half of the speed."
)

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#4d4d4d"


def repeats(settings: Settings) -> list[int]:
    """The seeds of the repeated runs; the first one is drawn."""
    return [settings.seed + i for i in range(12 if settings.scale is Scale.FULL else 3)]


def identified_flow(seed: int) -> Identified:
    """Fit the element as the paper did: vary the intake around its usual level, and measure the free space."""
    actions = excitation(USUAL_INTAKE, 0.5 * USUAL_INTAKE, intervals=300, hold=3, seed=seed)
    trace = run_intake(
        FLOW_ELEMENT,
        arrival_rates(len(actions), 10 * USUAL_INTAKE),
        controller=Schedule(tuple(actions)),
        first_action=USUAL_INTAKE,
        first_results=HELD_RESULTS,
        seed=seed,
    )
    return identify(actions, trace.free_bytes)


def identified_pair(seed: int) -> Identified:
    """Fit two elements after a splitter: the difference of their responses against the share of the first one."""
    firsts = excitation(0.5, 0.1, intervals=300, hold=3, seed=seed)
    schedule = Schedule([np.array([first, 1.0 - first]) for first in firsts])
    trace = run_split([SPLIT_ELEMENT] * 2, arrival_rates(len(firsts), SPLIT_RATE), balancer=schedule, seed=seed)
    return identify(firsts, trace.responses[:, 0] - trace.responses[:, 1])


def designed(model: FirstOrderModel, overshoot: float = 0.0) -> Design:
    """The gains for the paper's settling time, or as near to it as the model's delay allows."""
    return place_poles(model, settling_intervals=WANTED_SETTLING, overshoot=overshoot)


def plain(values: npt.ArrayLike, digits: int = 4) -> list[float | None]:
    """A column for the results file: rounded, with None for NaN."""
    return [
        None if np.isnan(value) else round(float(value), digits)
        for value in np.asarray(values, dtype=np.float64).ravel()
    ]
