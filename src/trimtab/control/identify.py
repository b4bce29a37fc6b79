"""identify: fit a first-order model, with its delay, to actions and measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.control.model import FirstOrderModel
from trimtab.errors import BalanceError

FEWEST_ROWS = 8
"""Three numbers are fitted: with fewer rows than this a fit would mean nothing."""


@dataclass(frozen=True, slots=True)
class Identified:
    """A model with the evidence for it.

    model       around the operating point: `y - mean_y` responds to `u - mean_u`
    mean_u      the operating point: the mean action
    mean_y      and the mean measurement, of the rows used
    r_squared   the share of the next measurement's variance that the model explains. When `a` is near 1 even a poor
                model explains most of it: compare `residuals` then
    residuals   for each delay tried, the root mean square of the residuals; the delay with the least was chosen
    rows        how many rows were used, the same ones for every delay
    """

    model: FirstOrderModel
    mean_u: float
    mean_y: float
    r_squared: float
    residuals: Mapping[int, float]
    rows: int


def identify(u: npt.ArrayLike, y: npt.ArrayLike, *, delays: Sequence[int] = (0, 1, 2, 3)) -> Identified:
    """The `a`, `b` and delay that explain best how `y(k + 1)` follows from `y(k)` and `u(k - delay)`.

    `y[k]` is measured at the start of interval k, and `u[k]` is the action taken then. Least squares with a constant,
    which is the same as fitting around the means. Every delay is fitted to the same rows, and the one with the smallest
    residuals is chosen (the smaller one of two equals).

    Measure with the loop open, that is with actions that don't come from a controller (see `excitation`): in a
    closed loop the action follows from the measurement, and their effects can't be separated.

    >>> import numpy as np
    >>> u = np.array([1.0, 3.0, 2.0, 2.0, 5.0, 4.0, 1.0, 2.0, 6.0, 3.0, 3.0, 1.0, 2.0, 5.0])
    >>> y = np.zeros(14)
    >>> for k in range(13):
    ...     y[k + 1] = 0.8 * y[k] + 0.5 * (u[k - 1] if k else 0.0) + 1.0
    >>> found = identify(u, y)
    >>> round(found.model.a, 6), round(found.model.b, 6), found.model.delay, round(found.r_squared, 6)
    (0.8, 0.5, 1, 1.0)

    Raises BalanceError `control.data` when the data isn't enough: too few rows, or an action that never changed.
    """
    actions, measured = np.asarray(u, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if actions.ndim != 1 or actions.shape != measured.shape:
        raise BalanceError(
            "control.data", f"u has the shape {actions.shape} and y {measured.shape}", "two equal columns"
        )
    if not (np.isfinite(actions).all() and np.isfinite(measured).all()):
        raise BalanceError("control.data", "u and y must be finite", "leave out the stretches without measurements")
    if len(delays) == 0 or min(delays) < 0:
        raise BalanceError("control.data", f"the delays to try are {list(delays)}", "for instance (0, 1, 2)")
    first, rows = max(delays), len(actions) - 1 - max(delays)
    if rows < FEWEST_ROWS:
        raise BalanceError(
            "control.data", f"{max(rows, 0)} rows are left to fit", f"measure {FEWEST_ROWS - rows} intervals more"
        )
    now, after = measured[first:-1], measured[first + 1 :]
    spread = float(np.sqrt(np.mean((after - after.mean()) ** 2)))
    fits: dict[int, tuple[float, float, float]] = {}
    for delay in sorted(set(delays)):
        acted = actions[first - delay : len(actions) - 1 - delay]
        fits[delay] = _fit(now, acted, after)
    best = min(fits, key=lambda delay: (fits[delay][2], delay))
    a, b, residual = fits[best]
    taken = actions[first - best : len(actions) - 1 - best]
    return Identified(
        model=FirstOrderModel(a, b, best),
        mean_u=float(taken.mean()),
        mean_y=float(now.mean()),
        r_squared=1.0 - (residual / spread) ** 2 if spread > 0 else 0.0,
        residuals={delay: fit[2] for delay, fit in fits.items()},
        rows=rows,
    )


def _fit(
    now: npt.NDArray[np.float64], acted: npt.NDArray[np.float64], after: npt.NDArray[np.float64]
) -> tuple[float, float, float]:
    """a, b and the root mean square of the residuals."""
    if np.ptp(acted) == 0:
        raise BalanceError("control.data", "the action never changed", "move it on purpose: see `excitation`")
    # Each column is centred and scaled, so that events a second beside bytes don't make the problem ill-conditioned.
    columns = [column - column.mean() for column in (now, acted)]
    scales = [float(np.abs(column).max()) or 1.0 for column in columns]
    table = np.column_stack([column / scale for column, scale in zip(columns, scales, strict=True)])
    target = after - after.mean()
    solution, _, _, _ = np.linalg.lstsq(table, target, rcond=None)
    residual = float(np.sqrt(np.mean((target - table @ solution) ** 2)))
    return float(solution[0] / scales[0]), float(solution[1] / scales[1]), residual
