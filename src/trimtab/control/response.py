"""How a loop responds to a step of its reference: samples, settling time, overshoot."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trimtab.control.loop import PIGains
from trimtab.control.model import FirstOrderModel
from trimtab.control.pi import PIController

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StepResponse:
    """Outputs and actions after the reference goes from 0 to `reference` at time 0; one entry per interval."""

    outputs: Float64Array
    actions: Float64Array
    reference: float

    def settling_intervals(self, band: float = 0.02) -> int | None:
        """The interval from which on the output stays within `band` of the reference; None: there is none."""
        return settled_after(self.outputs, self.reference, band * abs(self.reference))

    @property
    def overshoot(self) -> float:
        """How far the output went past the reference, as a share of the reference; 0 if it never did."""
        return max(0.0, float((self.outputs / self.reference).max()) - 1.0)


def step_response(
    model: FirstOrderModel,
    gains: PIGains,
    *,
    intervals: int = 200,
    reference: float = 1.0,
    minimum: float = -math.inf,
    maximum: float = math.inf,
) -> StepResponse:
    """Run the controller itself with the model.

    >>> response = step_response(FirstOrderModel(0.5, 2.0, delay=1), PIGains(0.06, 0.06))
    >>> response.outputs[:6].round(2)
    array([0.  , 0.  , 0.12, 0.3 , 0.48, 0.63])
    >>> response.settling_intervals(0.02), response.settling_intervals(0.05), response.overshoot
    (12, 10, 0.0)
    """
    controller = PIController(gains, 0.0, minimum, maximum)
    state, _ = controller.step(controller.start(0.0), 0.0)
    controller = replace(controller, reference=reference)
    outputs, actions = np.zeros(intervals), np.zeros(intervals)
    y = 0.0
    for k in range(intervals):
        outputs[k] = y
        state, actions[k] = controller.step(state, y)
        y = model.next(y, actions[k - model.delay] if k >= model.delay else 0.0)
        if abs(y) > 1e300:  # an unstable loop: later outputs must not become infinite
            outputs[k + 1 :], actions[k + 1 :] = y, actions[k]
            break
    return StepResponse(outputs, actions, reference)


def settled_after(outputs: npt.ArrayLike, final: float, tolerance: float) -> int | None:
    """The first index from which on all outputs are within `tolerance` of `final`; None if the last one is not.

    >>> settled_after([0.0, 1.2, 0.9, 1.01, 1.0], 1.0, 0.05)
    3
    """
    outside = np.flatnonzero(np.abs(np.asarray(outputs, dtype=np.float64) - final) > tolerance)
    if outside.size == 0:
        return 0
    last = int(outside[-1])
    return None if last == len(np.atleast_1d(outputs)) - 1 else last + 1
