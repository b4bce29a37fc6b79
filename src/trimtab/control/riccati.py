"""solve_riccati: the cost matrix of a linear-quadratic regulator.

scipy has `solve_discrete_are` for this. A job needs it where it reads with several executors, and scipy is an extra
that only planners need; these few lines are all that is missing. A test holds both equal.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]

DOUBLINGS = 60
"""Each one looks twice as far ahead: a loop that needs more doesn't settle."""


def solve_riccati(
    system: Float64Array, entry: Float64Array, state_weights: Float64Array, action_weights: Float64Array
) -> Float64Array:
    """The X with `X = A'XA - A'XB (R + B'XB)^-1 B'XA + Q`, for the system A, the entry B and the weights Q and R.

    By structure-preserving doubling: Chu, Fan, Lin and Wang (2004).

    >>> one = np.eye(1)
    >>> round(float(solve_riccati(one, one, one, one)[0, 0]), 6)  # the golden ratio
    1.618034

    Raises LinAlgError if it doesn't converge: no regulator makes this system stable.
    """
    one = np.eye(len(system))
    ahead, reached, cost = system, entry @ np.linalg.solve(action_weights, entry.T), state_weights
    with np.errstate(over="ignore", invalid="ignore"):  # what grows without bounds is refused below
        for _ in range(DOUBLINGS):
            halfway = np.linalg.solve(one + reached @ cost, np.hstack([ahead, reached]))
            moved, added = halfway[:, : len(one)], halfway[:, len(one) :]
            more = ahead.T @ cost @ moved
            reached, ahead = reached + ahead @ added @ ahead.T, ahead @ moved
            cost = cost + more
            if not np.isfinite(cost).all():
                break
            if np.abs(more).max() <= 1e-13 * np.abs(cost).max():
                return np.asarray((cost + cost.T) / 2)
    raise np.linalg.LinAlgError("the Riccati equation has no solution that makes the system stable")
