"""PIController: holds one measurement at a reference by setting one action (the paper's equation 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trimtab.errors import BalanceError
from trimtab_lab.control.loop import PIGains


@dataclass(frozen=True, slots=True)
class PIState:
    """What a PI controller remembers: its last action, and what it last measured (None: nothing yet)."""

    action: float
    measurement: float | None = None


@dataclass(frozen=True, slots=True)
class PIController:
    """`u(k) = u(k - 1) + (KP + KI) e(k) - KP e(k - 1)`, with `e = reference - y`, kept between two limits.

    The memory is the last action itself, as far as it was within the limits, and not a sum of errors. So there is
    nothing that could wind up: however long the action has been at a limit, it leaves it in the interval in which the
    equation says so. Hand over as `applied` what was really in force if it was not the last action (for instance
    when fewer events arrived than were asked for), and that is not wound up either.

    It starts without a bump, from the action in force. A reference may change under way: make a controller with the
    new one (`dataclasses.replace`) and go on with the old state; the proportional part doesn't jump then, because
    `e(k - 1)` is taken from the new reference too. With a reference that stays this is equation 4 to the letter.

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
        """Refuse limits with nothing between them."""
        if not math.isfinite(self.reference):
            raise BalanceError("control.measurement", f"the reference is {self.reference}", "a finite number")
        if not self.minimum <= self.maximum:
            raise BalanceError(
                "control.limits", f"minimum {self.minimum} is not below maximum {self.maximum}", "swap the two"
            )

    def start(self, action: float) -> PIState:
        """Take over while `action` is in force; one outside the limits is taken as the limit."""
        if math.isnan(action):
            raise BalanceError("control.measurement", "the action in force is not a number")
        return PIState(self._within(action))

    def step(self, state: PIState, measurement: float, *, applied: float | None = None) -> tuple[PIState, float]:
        """The action for the coming interval."""
        if not math.isfinite(measurement):
            raise BalanceError(
                "control.measurement", f"measured {measurement}", "skip the step when there is no measurement"
            )
        before = measurement if state.measurement is None else state.measurement
        last = state.action if applied is None else self._within(applied)
        # (KP + KI) e(k) - KP e(k - 1), written so that a reference in both errors cancels exactly.
        change = self.gains.integral * (self.reference - measurement) - self.gains.proportional * (measurement - before)
        action = self._within(last + change)
        return PIState(action, measurement), action

    def _within(self, action: float) -> float:
        return min(max(action, self.minimum), self.maximum)
