"""What the log of a job tells of its intake: a model of what rows do to the measure, and gains designed from it. Pure.

Section 3 of Xu (2005): excite, fit, place the poles. A batch is an interval: its rows are the action, and what was
measured after it is the measurement.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.control.identify import Identified, identify
from trimtab.control.intake import Held
from trimtab.control.pole_placement import Design, place_poles
from trimtab.deciding.decision_log import Entry
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]

FEWEST = 20
"""With fewer batches a fit would be luck."""

SKIPPED = 3
"""After each start of a job: they also compile."""

LEAST_VARIATION = 0.03
"""The standard deviation of the rows, of their mean: with less, what a batch takes differs for other reasons."""

EXCITE = "let the job run for a while with Intake(excite=100), or `excite = 100` in [job.intake]"


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Batches one after the other: the rows of each, and the measure after it.

    `is_open`: the rows were set at random, and not by the controller.
    """

    held: Held
    reference: float
    batches: tuple[int, ...]
    rows: Float64Array
    measures: Float64Array
    is_open: bool

    @property
    def variation(self) -> float:
        """The standard deviation of the rows, as a share of their mean."""
        return float(self.rows.std() / self.rows.mean()) if len(self.rows) else 0.0


@dataclass(frozen=True, slots=True)
class Tuning:
    """A model of one stream's intake with the evidence for it, and a design for that model."""

    samples: Samples
    found: Identified
    design: Design

    @property
    def residual(self) -> float:
        """The root mean square of what the model doesn't explain of the measure."""
        return self.found.residuals[self.found.model.delay]

    @property
    def without_rows(self) -> float:
        """What would be measured without rows, if the model held that far."""
        return self.found.mean_y - self.found.model.steady_state_gain * self.found.mean_u


def tune(entries: Sequence[Entry], *, settling_batches: float, overshoot: float = 0.0) -> Tuning:
    """Fit a model to the log of a stream, and design gains for it.

    If limits were set at random (`Intake(excite=...)`), only those batches are used. Raises BalanceError `control.data`
    if there are too few batches, or if their rows vary too little, and those of `place_poles`.
    """
    samples = samples_of(entries)
    if len(samples.rows) < FEWEST:
        message = f"the log has {len(samples.rows)} batches in a row with a measure, and {FEWEST} are needed"
        raise BalanceError("control.data", message, EXCITE)
    if samples.variation < LEAST_VARIATION:
        message = f"the batches have nearly equally many rows: they differ by {100 * samples.variation:.1f} %"
        raise BalanceError("control.data", message, EXCITE)
    # `identify` wants the measure at the begin of an interval: that of the batch before. No limit is late, as is known;
    # where control itself set the rows, other delays would only fit its own answers.
    found = identify(samples.rows[1:], samples.measures[:-1], delays=(0,))
    return Tuning(samples, found, place_poles(found.model, settling_intervals=settling_batches, overshoot=overshoot))


def samples_of(entries: Sequence[Entry]) -> Samples:
    """The batches of a log that a model can be fitted to: the longest stretch of those that were set at random, or any.

    Raises BalanceError `control.data` if nothing limits the intake.
    """
    last = entries[-1].intake if entries else None
    if last is None:
        raise BalanceError("control.data", "nothing limits the intake of this stream", "only that can be tuned")
    held = last.held
    stretches = [list(each) for each in _stretches(entries, held)]
    excited = [part for each in stretches for part in _excited(each)]
    is_open = any(len(each) >= FEWEST for each in excited)
    chosen = max(excited, key=len) if is_open else max(stretches, key=len, default=[])
    taken = [(each.observed.batch, each.observed.intake) for each in chosen]
    found = [(batch, seen.rows, seen.measure(held)) for batch, seen in taken if seen is not None]
    return Samples(
        held,
        last.reference(entries[-1].interval_s),
        tuple(batch for batch, _, _ in found),
        np.array([rows for _, rows, _ in found], np.float64),
        np.array([measure for _, _, measure in found], np.float64),
        is_open,
    )


def _stretches(entries: Sequence[Entry], held: Held) -> list[list[Entry]]:
    """Batches without a gap in which the same was held, and measured.

    The first ones of each start are left out, and those in which engines lacked machine code.
    """
    stretches: list[list[Entry]] = [[]]
    since_start = SKIPPED  # the log may begin in the middle of a run
    for before, entry in zip([None, *entries], entries, strict=False):
        since_start = 0 if entry.is_first else since_start + 1
        seen = entry.observed.intake
        is_good = seen is not None and seen.rows > 0 and not seen.is_plain and seen.measure(held) is not None
        is_good = is_good and since_start >= SKIPPED
        is_same = entry.intake is not None and entry.intake.held is held
        if before is not None and entry.observed.batch != before.observed.batch + 1:
            stretches.append([])
        if is_good and is_same:
            stretches[-1].append(entry)
        else:
            stretches.append([])
    return stretches


def _excited(stretch: Sequence[Entry]) -> list[list[Entry]]:
    """The parts of a stretch whose limits were set at random: in each batch one more of them was."""
    counts = [0 if each.intake_state is None else each.intake_state.excited for each in stretch]
    grows = [now > before for before, now in zip([0, *counts], counts, strict=False)]
    pairs = itertools.groupby(zip(stretch, grows, strict=True), lambda pair: pair[1])
    return [[entry for entry, _ in part] for is_set, part in pairs if is_set]
