"""FirstOrderModel: how an action changes a measurement, in two numbers and a delay."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.errors import BalanceError


@dataclass(frozen=True, slots=True)
class FirstOrderModel:
    """`y(k + 1) = a y(k) + b u(k - delay)`: the measurement y, the action u, one step per interval.

    Both are deviations from an operating point (see `Identified`). `delay` counts the whole intervals that an action
    waits before it takes effect. With 0 the effect of an action taken at the start of an interval is measured at its
    end, which is equation 1 of the paper; with 1, the default, it is in force only in the next interval, which the
    paper's authors had left out and found by accident (section 4).

    a   the share of a deviation that is left after an interval; 1 is a plain queue, which keeps all of it
    b   the effect of one unit of action on the measurement in an interval, with its sign

    >>> model = FirstOrderModel(0.985, -134.0, delay=0)  # free space against event rate, section 3.1
    >>> round(model.steady_state_gain), round(model.settling_intervals, 1)
    (-8933, 264.7)

    The paper prints 264 for the latter and -3,190 for the former, which is the gain of `a = 0.958`: two digits are
    swapped in one of the two places.

    >>> round(FirstOrderModel(0.958, -134.0).steady_state_gain)
    -3190
    """

    a: float
    b: float
    delay: int = 1

    def __post_init__(self) -> None:
        """Raise BalanceError for a model that can't be controlled."""
        if not (math.isfinite(self.a) and math.isfinite(self.b)):
            raise BalanceError("control.model", f"a = {self.a} and b = {self.b} must be finite")
        if self.b == 0:
            raise BalanceError(
                "control.gain", "b is 0: the action does not change what is measured", "set something that does"
            )
        if self.delay < 0 or self.delay != int(self.delay):
            raise BalanceError("control.model", f"delay is {self.delay}", "0, 1, 2 ... whole intervals")

    @property
    def steady_state_gain(self) -> float:
        """The final effect of one more unit of action, if kept up: `b / (1 - a)`. Infinite if `a` is 1 or more."""
        return self.b / (1.0 - self.a) if abs(self.a) < 1 else math.copysign(math.inf, self.b)

    @property
    def settling_intervals(self) -> float:
        """How long a disturbance lasts without control (equation 3)."""
        return settling_of(self.a)

    def next(self, y: float, u: float) -> float:
        """The measurement after one more interval, `u` being the action of `delay` intervals ago."""
        return self.a * y + self.b * u


def settling_of(pole: complex) -> float:
    """Intervals until a deviation with this pole is down to about 2 %: `-4 / ln|pole|` (equation 3).

    0 for a pole at 0, infinite for one on the unit circle or outside it.

    >>> round(settling_of(0.449), 2), settling_of(1.0)
    (5.0, inf)
    """
    radius = abs(pole)
    if radius >= 1:
        return math.inf
    return -4.0 / math.log(radius) if radius > 0 else 0.0


def radius_of(settling_intervals: float) -> float:
    """The inverse, `exp(-4 / settling)`. The paper's section 3.1 prints the inverse of the exponent.

    >>> round(radius_of(5), 3)
    0.449
    """
    return math.exp(-4.0 / settling_intervals)
