"""LoadBalancer: shares of many elements from their responses, by a matrix of gains (see `balance_by_lqr`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class BalancerState:
    """The state of a balancer: the last shares, newest first (delay + 1, n), and the last deviations (n - 1,)."""

    shares: Float64Array
    deviations: Float64Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LoadBalancer:
    """Moves load from the elements whose response is above the mean to those below it.

    The shares always add up to `total` and none is below `minimum`. Like the PI controller it computes changes of the
    shares in force, so that there is no wind-up while a share is at its minimum, and it starts without a jump.

    response_gains  (n - 1, n - 1)         for the deviations from the mean response
    integral_gains  (n - 1, n - 1)         for their sums over time
    pending_gains   (delay, n - 1, n - 1)  for decisions that have no effect yet, newest first
    basis           (n, n - 1)             columns that are orthonormal and add up to 0: n responses as n - 1
                                           deviations, and n - 1 decisions as n changes that cancel out
    """

    response_gains: Float64Array
    integral_gains: Float64Array
    pending_gains: Float64Array
    basis: Float64Array
    total: float = 1.0
    minimum: float = 0.0

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return len(self.basis)

    def start(self, action: Float64Array) -> BalancerState:
        """The state when control begins while these shares are in force."""
        shares = np.asarray(action, dtype=np.float64)
        if shares.shape != (self.elements,):
            raise BalanceError("control.elements", f"shares {shares.shape} for {self.elements} elements")
        shares = onto_shares(shares, total=self.total, minimum=self.minimum)
        return BalancerState(np.tile(shares, (len(self.pending_gains) + 1, 1)))

    def step(
        self, state: BalancerState, measurement: Float64Array, *, applied: Float64Array | None = None
    ) -> tuple[BalancerState, Float64Array]:
        """The shares for the next interval."""
        responses = np.asarray(measurement, dtype=np.float64)
        if responses.shape != (self.elements,):
            raise BalanceError("control.elements", f"responses {responses.shape} for {self.elements} elements")
        if not np.isfinite(responses).all():
            raise BalanceError(
                "control.measurement", "a response is not finite", "skip the step when one has no measurement"
            )
        deviations = self.basis.T @ responses
        before = deviations if state.deviations is None else state.deviations
        history = state.shares
        if applied is not None:
            history = np.vstack([np.asarray(applied, dtype=np.float64), history[1:]])
        # u(k) - u(k - 1): each term of the regulator as the change of its input.
        change = self.response_gains @ (deviations - before) + self.integral_gains @ before
        for i, gains in enumerate(self.pending_gains):
            change += gains @ (self.basis.T @ (history[i] - history[i + 1]))
        shares = onto_shares(history[0] - self.basis @ change, total=self.total, minimum=self.minimum)
        return BalancerState(np.vstack([shares, history[:-1]]), deviations), shares


def onto_shares(wanted: Float64Array, *, total: float, minimum: float) -> Float64Array:
    """The nearest shares that add up to `total`, none below `minimum`.

    >>> onto_shares(np.array([0.9, 0.4, -0.1]), total=1.0, minimum=0.0)
    array([0.75, 0.25, 0.  ])

    The amount that is subtracted from all of them is found after sorting; shares below the minimum are set to it.
    Held, Wolfe and Crowder (1974).
    """
    above = wanted - minimum
    room = total - minimum * len(wanted)
    descending = np.sort(above)[::-1]
    levels = (np.cumsum(descending) - room) / np.arange(1, len(wanted) + 1)
    level = levels[np.flatnonzero(descending - levels >= 0)[-1]]
    return np.asarray(minimum + np.maximum(above - level, 0.0), dtype=np.float64)
