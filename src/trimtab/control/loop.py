"""The closed loop of a first-order model and a PI controller: its polynomial, its poles, whether it is stable.

A pole is a complex number; in every interval a disturbance is multiplied by its size. Disturbances of poles inside the
unit circle die out, those of poles outside grow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.control.model import FirstOrderModel
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]
Complex128Array = npt.NDArray[np.complex128]

MOST_MARGIN = 1e6
"""A loop that is stable at this factor counts as stable at any."""


@dataclass(frozen=True, slots=True)
class PIGains:
    """KP and KI of equation 4: `u(k) = u(k - 1) + (KP + KI) e(k) - KP e(k - 1)`."""

    proportional: float
    integral: float

    def __post_init__(self) -> None:
        """Raise BalanceError for gains with which a reference is never reached."""
        if not (math.isfinite(self.proportional) and math.isfinite(self.integral)):
            raise BalanceError("control.gain", f"the gains {self.proportional} and {self.integral} must be finite")
        if self.integral == 0:
            raise BalanceError(
                "control.gain", "the integral gain is 0: the reference would never be reached", "any other number"
            )


def closed_loop(model: FirstOrderModel, gains: PIGains) -> Float64Array:
    """The loop's characteristic polynomial, highest power first: `z^d (z - 1)(z - a) + b ((KP + KI) z - KP)`.

    With the paper's model and no delay this is its `z^2 - (134 KP + 134 KI + 1.985) z + 134 KP + 0.985`. The gains
    that it prints there, KP = -0.00614 and KI = 0.02168, don't give its zeros 0.046 +- 0.4i but an unstable loop:

    >>> model = FirstOrderModel(0.985, -134.0, delay=0)
    >>> poles(model, PIGains(-0.00614, 0.02168)).real.round(3)
    array([4.027, 0.04 ])

    KI = -0.00799 gives them, with the KP that is printed:

    >>> poles(model, PIGains(-0.00614, -0.00799)).round(2)
    array([0.05+0.4j, 0.05-0.4j])

    The printed KI is the result if the sign of 1.985 is wrong after moving it to the other side of the equation.
    """
    polynomial = np.zeros(model.delay + 3)
    polynomial[:3] = 1.0, -(1.0 + model.a), model.a
    polynomial[-2] += model.b * (gains.proportional + gains.integral)
    polynomial[-1] -= model.b * gains.proportional
    return polynomial


def poles(model: FirstOrderModel, gains: PIGains) -> Complex128Array:
    """The loop's poles, slowest first; of a conjugate pair the one above the axis first."""
    found = np.roots(closed_loop(model, gains)).astype(np.complex128)
    # A delay with no proportional part leaves trailing zeros, which `roots` returns as exact zeros: none is lost.
    order = np.lexsort((-found.imag, -np.abs(found).round(12)))
    return found[order]


def spectral_radius(model: FirstOrderModel, gains: PIGains) -> float:
    """The size of the slowest pole: by what a disturbance is multiplied per interval, in the long run."""
    return float(np.abs(poles(model, gains)).max())


def is_stable(model: FirstOrderModel, gains: PIGains) -> bool:
    """Whether every disturbance dies out.

    The delay decides: the same gains, without the delay and with it (the paper's figure 9).

    >>> gains = PIGains(-0.005844, -0.002263)
    >>> is_stable(FirstOrderModel(0.985, -134.0, delay=0), gains), is_stable(FirstOrderModel(0.985, -134.0), gains)
    (True, False)
    """
    return spectral_radius(model, gains) < 1.0


def gain_margin(model: FirstOrderModel, gains: PIGains) -> float:
    """By what factor `b` may be greater than in the model until the loop is unstable; 0 if it is already.

    A model is fitted around one operating point. A margin of 2 means that an action may do twice as much elsewhere.

    >>> round(gain_margin(FirstOrderModel(0.5, 1.0, delay=0), PIGains(0.2, 0.3)), 2)
    4.29
    """

    def stable_at(factor: float) -> bool:
        return is_stable(FirstOrderModel(model.a, model.b * factor, model.delay), gains)

    if not stable_at(1.0):
        return 0.0
    low = high = 1.0
    while stable_at(high):
        if high > MOST_MARGIN:
            return math.inf
        low, high = high, high * 1.2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if stable_at(middle) else (low, middle)
    return low
