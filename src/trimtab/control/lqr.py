"""balance_by_lqr: the gains of a load balancer for many elements, as a linear-quadratic regulator.

The reference is the mean of all responses, so no target value has to be known (the paper's section 3.2 and figure 5,
after Diao and others, 2004).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trimtab.control.model import FirstOrderModel
from trimtab.control.riccati import solve_riccati
from trimtab.control.share_balancer import LoadBalancer
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]


def balance_by_lqr(
    models: Sequence[FirstOrderModel],
    *,
    caution: float = 10.0,
    integral_weight: float = 0.1,
    total: float = 1.0,
    minimum: float = 0.0,
) -> LoadBalancer:
    """The balancer that minimises the deviations of the responses from their mean, weighed against moving load.

    models           how each element's response depends on its own share; all with the same delay
    caution          the weight of moving load. An action is measured by its effect on a response, so this has no
                     unit: 1 is aggressive, 10 allows for models that are off by a factor, 100 is slow
    integral_weight  the weight of lasting deviations; 0.1 removes them slowly

    States are the deviations, their sums, and the decisions that wait for the delay to pass; the cost is
    `sum(deviations^2 + integral_weight sums^2 + caution (mean b x changes)^2)`, and the gains come from the solution
    of the discrete Riccati equation. Decisions are changes that add up to 0, so the sum of the shares stays constant
    whatever the elements do.

    >>> balancer = balance_by_lqr([FirstOrderModel(0.9, 5.0)] * 4)
    >>> state = balancer.start(np.full(4, 0.25))
    >>> state, shares = balancer.step(state, np.array([2.0, 1.0, 1.0, 1.0]))
    >>> bool(shares[0] < 0.25), round(float(shares.sum()), 12)
    (True, 1.0)
    >>> balanced_radius(balancer, [FirstOrderModel(0.9, 5.0)] * 4) < 1
    True

    Raises BalanceError `control.elements` for fewer than two, `control.design` for weights out of range, and
    `control.unstable` if the loop would not be stable.
    """
    a, b, delay = _columns(models)
    count = len(a)
    if not (caution > 0 and integral_weight > 0 and np.isfinite(caution) and np.isfinite(integral_weight)):
        raise BalanceError(
            "control.design", f"caution is {caution} and integral_weight {integral_weight}", "more than 0 each"
        )
    if not 0 <= minimum * count <= total:
        raise BalanceError(
            "control.limits", f"{count} shares of at least {minimum} with {total} in all", "a smaller minimum"
        )
    basis, n = zero_sum_basis(count), count - 1
    # Decisions are measured by their effect on a response, so that tiny or huge b don't make it ill-conditioned.
    scale = float(np.abs(b).mean())
    system, entry = _augmented(basis.T @ np.diag(a) @ basis, basis.T @ np.diag(b / scale) @ basis, delay)
    state_weights = np.diag([1.0] * n + [integral_weight] * n + [0.0] * (n * delay))
    action_weights = caution * np.eye(n)
    try:
        cost = solve_riccati(system, entry, state_weights, action_weights)
        found = np.linalg.solve(action_weights + entry.T @ cost @ entry, entry.T @ cost @ system)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise BalanceError(
            "control.unstable",
            "no regulator levels these elements",
            "every b must have the same sign, and none may be near 0 beside the others",
        ) from error
    gains = np.asarray(found, np.float64)
    balancer = LoadBalancer(
        response_gains=gains[:, :n] / scale,
        integral_gains=gains[:, n : 2 * n] / scale,
        pending_gains=gains[:, 2 * n :].reshape(n, delay, n).transpose(1, 0, 2).copy(),
        basis=basis,
        total=total,
        minimum=minimum,
    )
    if not balanced_radius(balancer, models) < 1:
        raise BalanceError(
            "control.unstable", "these elements can't be levelled stably", "raise caution, or split unlike elements"
        )
    return balancer


def balanced_radius(balancer: LoadBalancer, models: Sequence[FirstOrderModel]) -> float:
    """The spectral radius of the loop of a balancer and these elements; below 1, their differences die out.

    They need not be the ones it was designed for: this shows the effect of a slower element or a longer delay. If all
    of them have the same `a`, their common level is left out, because balancing can't change it (nor can it help
    queues that fill because too much arrives for all of them).
    """
    a, b, delay = _columns(models)
    basis = balancer.basis
    if len(a) != balancer.elements:
        raise BalanceError("control.elements", f"{len(a)} models for {balancer.elements} elements")
    if np.ptp(a) == 0:
        return _radius(balancer, np.diag(a[:-1]), basis.T @ np.diag(b) @ basis, np.eye(len(a) - 1), delay)
    return _radius(balancer, np.diag(a), np.diag(b) @ basis, basis.T, delay)


def _radius(balancer: LoadBalancer, a: Float64Array, b: Float64Array, deviation: Float64Array, delay: int) -> float:
    """Close the loop over responses (m), sums (n) and as many pending decisions as element and balancer need."""
    m, n, known = len(a), balancer.elements - 1, len(balancer.pending_gains)
    kept = max(delay, known)
    size = m + n + n * kept
    loop = np.zeros((size, size))
    law = np.zeros((n, size))
    law[:, :m] = -balancer.response_gains @ deviation
    law[:, m : m + n] = -balancer.integral_gains
    for i in range(known):
        law[:, m + n * (1 + i) : m + n * (2 + i)] = -balancer.pending_gains[i]
    loop[:m, :m] = a
    if delay == 0:
        loop[:m] += b @ law
    else:
        loop[:m, m + n * delay : m + n * (delay + 1)] = b
    loop[m : m + n, :m] = deviation
    loop[m : m + n, m : m + n] = np.eye(n)
    if kept:
        loop[m + n : m + 2 * n] = law
        loop[m + 2 * n :, m + n : m + n * kept] = np.eye(n * (kept - 1))
    return float(np.abs(np.linalg.eigvals(loop)).max())


def zero_sum_basis(count: int) -> Float64Array:
    """`count - 1` orthonormal columns, each of which adds up to 0 (a Helmert matrix).

    >>> zero_sum_basis(2).round(3)
    array([[ 0.707],
           [-0.707]])
    """
    basis = np.zeros((count, count - 1))
    for i in range(count - 1):
        basis[: i + 1, i] = 1.0
        basis[i + 1, i] = -(i + 1.0)
        basis[:, i] /= np.sqrt((i + 1.0) * (i + 2.0))
    return basis


def _columns(models: Sequence[FirstOrderModel]) -> tuple[Float64Array, Float64Array, int]:
    if len(models) < 2:
        raise BalanceError("control.elements", f"{len(models)} element(s)", "balancing needs at least two")
    if len({model.delay for model in models}) > 1:
        raise BalanceError("control.model", "the elements have different delays", "design for the longest one")
    a, b = np.array([model.a for model in models]), np.array([model.b for model in models])
    return a.astype(np.float64), b.astype(np.float64), models[0].delay


def _augmented(a: Float64Array, b: Float64Array, delay: int) -> tuple[Float64Array, Float64Array]:
    """Deviations, their sums, and the pending decisions (newest first) as one system with the new decision as input."""
    n = len(a)
    system, entry = np.zeros((n * (2 + delay), n * (2 + delay))), np.zeros((n * (2 + delay), n))
    system[:n, :n] = a
    system[n : 2 * n, :n] = system[n : 2 * n, n : 2 * n] = np.eye(n)
    if delay == 0:
        entry[:n] = b
    else:
        system[:n, n * (1 + delay) :] = b
        system[3 * n :, 2 * n : n * (1 + delay)] = np.eye(n * (delay - 1))
        entry[2 * n : 3 * n] = np.eye(n)
    return system, entry
