from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.control import (
    FirstOrderModel,
    PIGains,
    closed_loop,
    gain_margin,
    is_stable,
    poles,
    spectral_radius,
    step_response,
)
from trimtab.errors import BalanceError

PAPER = FirstOrderModel(0.985, -134.0, delay=0)


def test_the_polynomial_is_the_paper_s() -> None:
    kp, ki = 0.3, -0.7
    expected = [1.0, -(134 * kp + 134 * ki + 1.985), 134 * kp + 0.985]
    assert np.allclose(closed_loop(PAPER, PIGains(kp, ki)), expected)


def test_the_printed_gains_are_unstable_and_the_corrected_ones_have_the_printed_poles() -> None:
    assert spectral_radius(PAPER, PIGains(-0.00614, 0.02168)) > 4
    assert np.allclose(poles(PAPER, PIGains(-0.00614, -0.00799)), [0.046 + 0.4j, 0.046 - 0.4j], atol=2e-3)


@pytest.mark.parametrize("delay", [0, 1, 2, 5])
def test_the_poles_are_the_eigenvalues_of_the_loop_stepped_by_hand(delay: int) -> None:
    """Close the loop as a matrix over (y, u(k - 1) ... u(k - delay - 1), y(k - 1)) and compare."""
    a, b, kp, ki = 0.7, -2.0, -0.1, -0.05
    size = delay + 3
    loop = np.zeros((size, size))
    law = np.zeros(size)  # u(k) = u(k - 1) - (KP + KI) y(k) + KP y(k - 1), for the reference 0
    law[0], law[1], law[-1] = -(kp + ki), 1.0, kp
    loop[0, 0] = a
    loop[0] += b * (law if delay == 0 else np.eye(size)[delay])
    loop[1] = law
    for i in range(2, delay + 2):
        loop[i, i - 1] = 1.0
    loop[-1, 0] = 1.0
    found = np.sort_complex(np.linalg.eigvals(loop))
    wanted = np.sort_complex(np.concatenate([poles(FirstOrderModel(a, b, delay), PIGains(kp, ki)), [0.0]]))
    assert np.allclose(np.sort(np.abs(found)), np.sort(np.abs(wanted)), atol=1e-6)


@given(st.floats(-0.9, 1.0), st.integers(0, 3), st.floats(-0.6, 0.6), st.floats(0.01, 0.6))
def test_a_loop_is_called_stable_if_and_only_if_its_response_dies_out(
    a: float, delay: int, kp: float, ki: float
) -> None:
    model, gains = FirstOrderModel(a, 1.0, delay), PIGains(kp, ki)
    radius = spectral_radius(model, gains)
    if 0.97 < radius < 1.03:
        return
    outputs = step_response(model, gains, intervals=1200).outputs
    assert is_stable(model, gains) == (abs(outputs[-1] - 1.0) < 1e-3)


@pytest.mark.parametrize("delay", [0, 1, 2])
def test_the_margin_is_where_stability_ends(delay: int) -> None:
    model, gains = FirstOrderModel(0.8, -3.0, delay), PIGains(-0.02, -0.01)
    margin = gain_margin(model, gains)
    assert is_stable(FirstOrderModel(0.8, -3.0 * margin * 0.999, delay), gains)
    assert not is_stable(FirstOrderModel(0.8, -3.0 * margin * 1.001, delay), gains)


def test_an_unstable_loop_has_no_margin() -> None:
    assert gain_margin(FirstOrderModel(0.5, 1.0), PIGains(0.1, -0.1)) == 0.0


@pytest.mark.parametrize(("kp", "ki"), [(0.1, 0.0), (float("nan"), 0.1), (0.1, float("inf"))])
def test_gains_that_can_t_work_are_refused(kp: float, ki: float) -> None:
    with pytest.raises(BalanceError) as caught:
        PIGains(kp, ki)
    assert caught.value.code == "control.gain"
