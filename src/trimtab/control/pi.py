"""PIController: holds one measurement at a reference by setting one action (the paper's equation 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.control.loop import PIGains
from trimtab.errors import BalanceError


@dataclass(frozen=True, slots=True)
class PIState:
    """The state of a PI controller: its last action, and the last measurement (None: none yet)."""

    action: float
    measurement: float | None = None


@dataclass(frozen=True, slots=True)
class PIController:
    """`u(k) = u(k - 1) + (KP + KI) e(k) - KP e(k - 1)`, with `e = reference - y`, kept between two limits.

    The state is the last action, cut to the limits, and not a sum of errors. So there is no wind-up: however long the
    action has been at a limit, it leaves it in the interval in which the equation says so. If another action than the
    last one was in force (for instance because fewer events arrived than were requested), pass it as `applied`, and
    there is no wind-up either.

    It starts without a jump, from the action in force. A reference may change during a run: make a controller with the
    new one (`dataclasses.replace`) and continue with the old state; the proportional part doesn't jump then, because
    `e(k - 1)` is computed with the new reference too. With a constant reference this is exactly equation 4.

    >>> controller = PIController(PIGains(-0.5, -0.25), reference=100.0, minimum=0.0, maximum=40.0)
    >>> state = controller.start(10.0)
    >>> for free in (120.0, 140.0, 90.0):
    ...     state, intake = controller.step(state, free)
    ...     print(intake)
    15.0
    35.0
    7.5
    """

    gains: PIGains
    reference: float
    minimum: float = -math.inf
    maximum: float = math.inf

    def __post_init__(self) -> None:
        """Raise BalanceError for a reference or limits that are out of range."""
        if not math.isfinite(self.reference):
            raise BalanceError("control.measurement", f"the reference is {self.reference}", "a finite number")
        if not self.minimum <= self.maximum:
            raise BalanceError(
                "control.limits", f"minimum {self.minimum} is not below maximum {self.maximum}", "swap the two"
            )

    def start(self, action: float) -> PIState:
        """The state when control begins while `action` is in force; one outside the limits is cut to the limit."""
        if math.isnan(action):
            raise BalanceError("control.measurement", "the action in force is not a number")
        return PIState(self._within(action))

    def step(self, state: PIState, measurement: float, *, applied: float | None = None) -> tuple[PIState, float]:
        """The action for the next interval."""
        if not math.isfinite(measurement):
            raise BalanceError(
                "control.measurement", f"measured {measurement}", "skip the step when there is no measurement"
            )
        before = measurement if state.measurement is None else state.measurement
        last = state.action if applied is None else self._within(applied)
        # (KP + KI) e(k) - KP e(k - 1), written so that the reference cancels exactly in the difference of the errors.
        change = self.gains.integral * (self.reference - measurement) - self.gains.proportional * (measurement - before)
        action = self._within(last + change)
        return PIState(action, measurement), action

    def _within(self, action: float) -> float:
        return min(max(action, self.minimum), self.maximum)
