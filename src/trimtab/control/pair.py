"""PairBalancer: levels two elements with one PI controller on the difference of their responses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.control.loop import PIGains
from trimtab.control.model import FirstOrderModel
from trimtab.control.pi import PIController, PIState
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]


def pair_model(element: FirstOrderModel) -> FirstOrderModel:
    """How the difference of two equal elements depends on the first one's share: twice as much as one element.

    An increase of the first one's share is a decrease of the second one's.

    >>> pair_model(FirstOrderModel(0.9, 0.5))
    FirstOrderModel(a=0.9, b=1.0, delay=1)
    """
    return FirstOrderModel(element.a, 2.0 * element.b, element.delay)


@dataclass(frozen=True, slots=True)
class PairBalancer:
    """Shares of two elements, from the difference of their measurements (the paper's section 3.2, for two IAPs).

    The shares always add up to `total`, and neither falls below `minimum`.

    >>> balancer = PairBalancer(PIGains(0.1, 0.1))
    >>> state = balancer.start(np.array([0.5, 0.5]))
    >>> balancer.step(state, np.array([3.0, 1.0]))[1]  # the first one is slower, so it gets less
    array([0.3, 0.7])
    """

    gains: PIGains
    total: float = 1.0
    minimum: float = 0.0

    def __post_init__(self) -> None:
        """Raise BalanceError for minima that exceed the total."""
        if not 0 <= 2 * self.minimum <= self.total:
            raise BalanceError(
                "control.limits", f"two shares of at least {self.minimum} with {self.total} in all", "a smaller minimum"
            )

    def start(self, action: Float64Array) -> PIState:
        """The state when control begins while these two shares are in force."""
        if np.shape(action) != (2,):
            raise BalanceError("control.elements", f"{np.size(action)} shares for a pair", "use `balance_by_lqr`")
        return self._regulator().start(float(action[0]))

    def step(
        self, state: PIState, measurement: Float64Array, *, applied: Float64Array | None = None
    ) -> tuple[PIState, Float64Array]:
        """The shares for the next interval."""
        if np.shape(measurement) != (2,):
            raise BalanceError("control.elements", f"{np.size(measurement)} responses for a pair", "give two")
        difference = float(measurement[0]) - float(measurement[1])
        first_applied = None if applied is None else float(applied[0])
        state, first = self._regulator().step(state, difference, applied=first_applied)
        return state, np.array([first, self.total - first])

    def _regulator(self) -> PIController:
        return PIController(self.gains, 0.0, self.minimum, self.total - self.minimum)
