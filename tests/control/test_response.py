from __future__ import annotations

import numpy as np

from trimtab.control import FirstOrderModel, PIGains, settled_after, step_response


def test_a_response_without_a_controller_s_help_is_the_power_of_its_pole() -> None:
    """KP = 0, a = 0 and no delay: the loop is y(k + 1) = y(k) + b KI (1 - y(k)) by hand."""
    response = step_response(FirstOrderModel(0.0, 1.0, delay=0), PIGains(0.0, 0.25), intervals=20)
    assert np.allclose(response.outputs, 1 - 0.75 ** np.arange(20))
    assert response.settling_intervals(0.05) == 11
    assert response.settling_intervals(0.02) == 14
    assert response.overshoot == 0


def test_overshoot_is_a_share_of_the_reference_also_downwards() -> None:
    model, gains = FirstOrderModel(0.5, 1.0), PIGains(0.0, 0.4)
    up, down = (step_response(model, gains, reference=reference) for reference in (1.0, -8.0))
    assert up.overshoot > 0.1
    assert np.isclose(up.overshoot, down.overshoot)
    assert up.settling_intervals() == down.settling_intervals()


def test_an_unstable_response_is_large_but_finite_and_never_settles() -> None:
    response = step_response(FirstOrderModel(0.985, -134.0), PIGains(-0.00614, 0.02168), intervals=3000)
    assert np.isfinite(response.outputs).all()
    assert np.abs(response.outputs[-1]) > 1e100
    assert response.settling_intervals() is None


def test_limits_are_respected_on_the_way() -> None:
    response = step_response(FirstOrderModel(0.9, 1.0), PIGains(0.3, 0.05), maximum=0.12)
    assert response.actions.max() == 0.12
    assert abs(response.outputs[-1] - 1) < 1e-6


def test_settled_means_for_good() -> None:
    assert settled_after([1.0, 1.0], 1.0, 0.1) == 0
    assert settled_after([1.0, 0.0, 1.0], 1.0, 0.1) == 2
    assert settled_after([1.0, 1.0, 0.0], 1.0, 0.1) is None
    assert settled_after([], 1.0, 0.1) == 0
