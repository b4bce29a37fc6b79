"""place_poles: the two gains of a PI controller from the wanted settling time and overshoot.

Without a delay two gains place both poles exactly. Each interval of delay adds a pole that no gain is left for, so with
a delay all gains are searched for those that meet the request, or miss it by least.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.control.loop import PIGains, closed_loop, gain_margin, is_stable, poles
from trimtab.control.model import FirstOrderModel, radius_of, settling_of
from trimtab.control.response import step_response
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]
Complex128Array = npt.NDArray[np.complex128]

OVERSHOOT_WEIGHT = 10.0
"""In the search, missing the overshoot by 10 points counts as much as taking twice as long to settle."""

EFFORT_WEIGHT = 1e-3
"""Small enough that it only decides between gains that meet the request: the smallest are chosen."""

SETTLED_BAND = 0.02
"""A response is settled when it stays within 2 % of its reference."""

DOMINANCE = 0.8
"""Two poles decide how a loop settles if all others are at most this share of them."""

LEAST_MARGIN = 1.3
"""Poles are placed exactly only if `b` may be this many times as great as in the model. Slowing a fast system down
needs feedback of the wrong sign, with which a small error of the model makes the loop unstable."""

ROUNDS = 9
"""Each round of the search uses a grid around the best of the last one, a third as wide. More change nothing."""


@dataclass(frozen=True, slots=True)
class Design:
    """Gains, and the measures of the loop with them. All figures are computed from the loop, none is the requested one.

    exact               whether the two poles that were wanted are there, with only faster ones beside them
    spectral_radius     the size of the slowest pole; below 1 is stable
    settling_intervals  `-4 / ln` of it (equation 3), which is right for one slow pole
    settled_after       the interval from which on the response to a step of the reference stays within 2 % of it, which
                        is later when there are several; None: not within four times as long
    overshoot           of that response
    gain_margin         by what factor `b` may be greater than in the model
    """

    gains: PIGains
    poles: tuple[complex, ...]
    exact: bool
    spectral_radius: float
    settling_intervals: float
    settled_after: int | None
    overshoot: float
    gain_margin: float


def place_poles(model: FirstOrderModel, *, settling_intervals: float, overshoot: float = 0.0) -> Design:
    """Gains for a loop that settles in about `settling_intervals` and goes past its reference by about `overshoot`.

    The two poles wanted are `r exp(+-i theta)` with `r = exp(-4 / settling)` and `r ** (pi / theta) = overshoot`
    (Hellerstein and others, 2004). If the poles that a delay adds are faster than those, and the loop is stable with a
    `b` 1.3 times as large, they are placed exactly. If not, gains are searched that settle in time (half by the slowest
    pole, half by when the response to a step is within 2 %) without more overshoot. Of those that do, the smallest are
    chosen, and if none does, the ones that miss by least: a loop can't be faster than its delay.

    With the paper's model and its 5 intervals:

    >>> believed = place_poles(FirstOrderModel(0.985, -134.0, delay=0), settling_intervals=5)
    >>> believed.exact, round(believed.gains.proportional, 5), round(believed.gains.integral, 5)
    (True, -0.00584, -0.00226)
    >>> real = place_poles(FirstOrderModel(0.985, -134.0, delay=1), settling_intervals=5)
    >>> real.exact, real.settled_after, round(real.spectral_radius, 2)
    (False, 9, 0.73)

    Raises BalanceError `control.design` for a request out of range, and `control.unstable` if no gains are stable.
    """
    if not (math.isfinite(settling_intervals) and settling_intervals > 0):
        raise BalanceError("control.design", f"settling_intervals is {settling_intervals}", "more than 0")
    if not 0 <= overshoot < 1:
        raise BalanceError("control.design", f"overshoot is {overshoot}", "0 or more and below 1: 0.05 is 5 %")
    wanted = _wanted_pole(settling_intervals, overshoot)
    gains = _with_pole(model, wanted)
    exact = gains is not None and _others_are_faster(model, gains, abs(wanted)) and _bears_margin(model, gains)
    if gains is None or not exact:
        gains = _search(model, settling_intervals, overshoot)
    return _described(model, gains, exact=exact)


def _wanted_pole(settling_intervals: float, overshoot: float) -> complex:
    radius = radius_of(settling_intervals)
    if overshoot == 0:
        return complex(radius)
    return cmath.rect(radius, min(math.pi, math.pi * math.log(radius) / math.log(overshoot)))


def _open_loop(a: float, delay: int) -> Float64Array:
    """`z^d (z - 1)(z - a)`: the closed loop's polynomial is this plus `b (KP + KI) z - b KP`."""
    return np.array([1.0, -(1.0 + a), a] + [0.0] * delay)


def _with_pole(model: FirstOrderModel, pole: complex) -> PIGains | None:
    """The gains that put two poles at `pole` and its conjugate (at a real one: both there); None if none do."""
    integral, proportional = (float(column[0]) / model.b for column in _terms(model, np.array([pole])))
    if integral == 0 or not (math.isfinite(integral) and math.isfinite(proportional)):
        return None
    return PIGains(proportional, integral)


def _terms(model: FirstOrderModel, pairs: Complex128Array) -> tuple[Float64Array, Float64Array]:
    """`b KI` and `b KP` that put two poles at each of these places and its conjugate."""
    polynomial = _open_loop(model.a, model.delay)
    values, slopes = np.polyval(polynomial, pairs), np.polyval(np.polyder(polynomial), pairs)
    real = np.abs(pairs.imag) < 1e-9
    linear = -np.where(real, slopes.real, values.imag / np.where(real, 1.0, pairs.imag))
    constant = (values + linear * pairs).real
    return linear - constant, constant


def _others_are_faster(model: FirstOrderModel, gains: PIGains, radius: float) -> bool:
    sizes = np.sort(np.abs(np.roots(closed_loop(model, gains))))
    # A double pole is found to about the square root of the rounding error.
    return float(sizes[-1]) <= radius + 1e-6 and bool((sizes[:-2] <= DOMINANCE * radius).all())


def _bears_margin(model: FirstOrderModel, gains: PIGains) -> bool:
    return all(
        is_stable(FirstOrderModel(model.a, model.b * factor, model.delay), gains)
        for factor in np.linspace(1.0, LEAST_MARGIN, 6)
    )


def _described(model: FirstOrderModel, gains: PIGains, *, exact: bool) -> Design:
    found = poles(model, gains)
    radius = float(np.abs(found).max())
    settling = settling_of(radius)
    intervals = int(min(max(4 * settling, 50), 5000)) if math.isfinite(settling) else 50
    answer = step_response(model, gains, intervals=intervals)
    return Design(
        gains=gains,
        poles=tuple(complex(pole) for pole in found),
        exact=exact,
        spectral_radius=radius,
        settling_intervals=settling,
        settled_after=answer.settling_intervals(SETTLED_BAND),
        overshoot=answer.overshoot,
        gain_margin=gain_margin(model, gains),
    )


def _search(model: FirstOrderModel, settling_intervals: float, overshoot: float) -> PIGains:
    """The gains with the smallest miss. The scale and the sign of `b` only scale the gains, so `b` is left out.

    The loop can be stable only with `b KI > 0` (its polynomial at 1) and `|b KP| < 1`, or `|a - b KP| < 1` without a
    delay (the product of its poles): the grid covers all of that, in `b KI` on a logarithmic scale.
    """
    centre = 0.0 if model.delay else model.a
    integrals, proportionals = np.geomspace(1e-8, 8.0, 91), centre + np.linspace(-1.0, 1.0, 41)
    ratio, step = math.log(float(integrals[1] / integrals[0])), float(proportionals[1] - proportionals[0])
    # The best gains often have a double pole, on a ridge too narrow for a grid: those are tried as well.
    paired = _paired_gains(model)
    best_miss, best_integral, best_proportional = math.inf, 0.0, 0.0
    for _ in range(ROUNDS):
        grid = np.array([axis.ravel() for axis in np.meshgrid(integrals, proportionals)])
        integral, proportional = np.concatenate([grid, paired], axis=1)
        misses = _misses(model, integral, proportional, settling_intervals, overshoot)
        i = int(misses.argmin())
        if misses[i] < best_miss:
            best_miss, best_integral, best_proportional = float(misses[i]), float(integral[i]), float(proportional[i])
        if not math.isfinite(best_miss):
            break
        around = np.linspace(-2.0, 2.0, 13)
        integrals = best_integral * np.exp(ratio * around)
        proportionals = best_proportional + step * around
        ratio, step, paired = ratio / 3, step / 3, paired[:, :0]
    if not math.isfinite(best_miss):
        raise BalanceError(
            "control.unstable",
            f"no PI controller holds a = {model.a} with a delay of {model.delay}",
            "shorten the interval, or act sooner",
        )
    return PIGains(best_proportional / model.b, best_integral / model.b)


def _paired_gains(model: FirstOrderModel) -> Float64Array:
    """`b KI` and `b KP` (2, n) for pairs of poles at every radius and angle of a grid, where `b KI` is above 0."""
    radii, angles = np.linspace(0.02, 0.99, 98), np.linspace(0.0, math.pi, 19)[:-1]
    gains = np.array(_terms(model, np.outer(radii, np.exp(1j * angles)).ravel()))
    return gains[:, gains[0] > 0]


def _misses(
    model: FirstOrderModel,
    integral: Float64Array,
    proportional: Float64Array,
    settling_intervals: float,
    overshoot: float,
) -> Float64Array:
    """How far each pair of gains is from the request; infinite for an unstable one."""
    misses = np.full(len(integral), np.inf)
    radii = _radii(model, integral, proportional)
    stable = np.flatnonzero(radii < 1.0 - 1e-9)
    if stable.size == 0:
        return misses
    integral, proportional = integral[stable], proportional[stable]
    intervals = int(min(max(3 * settling_intervals, 40 * (model.delay + 2)), 600))
    past, settled = _answers(model, integral, proportional, intervals=intervals)
    asymptotic = -4.0 / np.log(np.maximum(radii[stable], 1e-12))
    settled = np.where(settled < intervals, settled, intervals + asymptotic)
    # The slowest pole alone would allow many poles just as slow, and the band alone a response that rings within it.
    too_slow = np.maximum((settled + asymptotic) / (2 * settling_intervals) - 1.0, 0.0)
    too_far = np.maximum(past - overshoot - 1e-6, 0.0)
    effort = np.abs(integral) + np.abs(proportional)
    misses[stable] = too_slow + OVERSHOOT_WEIGHT * too_far + EFFORT_WEIGHT * effort
    return misses


def _radii(model: FirstOrderModel, integral: Float64Array, proportional: Float64Array) -> Float64Array:
    """The spectral radius for each pair of gains: eigenvalues of all companion matrices at once."""
    polynomial = np.tile(_open_loop(model.a, model.delay), (len(integral), 1))
    polynomial[:, -2] += integral + proportional
    polynomial[:, -1] -= proportional
    order = polynomial.shape[1] - 1
    companions = np.zeros((len(integral), order, order))
    companions[:, 0, :] = -polynomial[:, 1:]
    companions[:, np.arange(1, order), np.arange(order - 1)] = 1.0
    return np.asarray(np.abs(np.linalg.eigvals(companions)).max(axis=1), dtype=np.float64)


def _answers(
    model: FirstOrderModel, integral: Float64Array, proportional: Float64Array, *, intervals: int
) -> tuple[Float64Array, Float64Array]:
    """Overshoot and settling (2 %) of `step_response` for each pair of gains, all side by side, with `b = 1`."""
    count = len(integral)
    outputs, before, highest, settled = (np.zeros(count) for _ in range(4))
    waiting = [np.zeros(count) for _ in range(model.delay)]
    action = np.zeros(count)
    for k in range(1, intervals + 1):
        action = action + integral * (1.0 - outputs) - proportional * (outputs - before)
        waiting.append(action)
        before, outputs = outputs, model.a * outputs + waiting.pop(0)
        np.maximum(highest, outputs, out=highest)
        settled[np.abs(outputs - 1.0) > SETTLED_BAND] = k
    return np.maximum(highest - 1.0, 0.0), settled + 1.0
