from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from trimtab.control import FirstOrderModel, PIController, PIGains, PIState, place_poles
from trimtab.errors import BalanceError


def test_it_is_the_paper_s_equation_4() -> None:
    kp, ki, reference = -0.3, 0.2, 4.0
    measured = np.random.default_rng(1).normal(4, 2, 30)
    controller = PIController(PIGains(kp, ki), reference)
    state, action = controller.step(controller.start(1.0), measured[0])
    for k in range(1, len(measured)):
        e, before = reference - measured[k], reference - measured[k - 1]
        expected = action + (kp + ki) * e - kp * before
        state, action = controller.step(state, measured[k])
        assert math.isclose(action, expected, rel_tol=1e-12)


def test_it_starts_without_a_jump() -> None:
    controller = PIController(PIGains(50.0, 0.1), 10.0)
    assert controller.step(controller.start(7.0), 10.0)[1] == 7.0
    assert controller.step(controller.start(7.0), 9.0)[1] == pytest.approx(7.1)


def test_a_new_reference_makes_no_jump() -> None:
    controller = PIController(PIGains(50.0, 0.1), 10.0)
    state, before = controller.step(controller.start(7.0), 10.0)
    assert replace(controller, reference=20.0).step(state, 10.0)[1] == pytest.approx(before + 1.0)


def test_an_action_outside_the_limits_is_taken_as_the_limit() -> None:
    assert PIController(PIGains(1.0, 1.0), 0.0, 0.0, 5.0).start(9.0) == PIState(5.0)


def test_what_was_not_applied_is_not_wound_up() -> None:
    """An actuator that applies 10 for any action: if the controller gets that as `applied`, it recovers at once."""
    controller = PIController(PIGains(0.1, 0.5), reference=100.0)
    informed, uninformed = controller.start(10.0), controller.start(10.0)
    for _ in range(50):
        informed, _ = controller.step(informed, 50.0, applied=10.0)
        uninformed, _ = controller.step(uninformed, 50.0)
    assert informed.action < 40 < 1000 < uninformed.action
    _, action = controller.step(informed, 110.0, applied=10.0)
    assert action < 10


def test_a_sum_of_errors_would_wind_up_where_this_does_not() -> None:
    """The textbook form with the same gains and limits, after a long time at the limit."""
    model = FirstOrderModel(0.9, 1.0, delay=1)
    gains = place_poles(model, settling_intervals=15).gains
    ours = PIController(gains, 50.0, 0.0, 1.0)
    y, state, total, y_sum = 10.0, ours.start(1.0), 0.0, 10.0
    u, u_sum = [1.0, 1.0], [1.0, 1.0]
    late, late_sum = [], []
    for k in range(400):
        reference = 50.0 if k < 300 else 5.0
        state, action = replace(ours, reference=reference).step(state, y)
        u.append(action)
        y = model.next(y, u[-2])
        total += reference - y_sum
        u_sum.append(min(max(gains.proportional * (reference - y_sum) + gains.integral * total, 0.0), 1.0))
        y_sum = model.next(y_sum, u_sum[-2])
        if k >= 340:
            late.append(abs(y - 5.0))
            late_sum.append(abs(y_sum - 5.0))
    assert max(late) < 0.1
    assert max(late_sum) > 4.0


@pytest.mark.parametrize("measurement", [math.nan, math.inf])
def test_no_measurement_is_an_error(measurement: float) -> None:
    controller = PIController(PIGains(1.0, 1.0), 0.0)
    with pytest.raises(BalanceError) as caught:
        controller.step(controller.start(0.0), measurement)
    assert caught.value.code == "control.measurement"


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(BalanceError) as caught:
        PIController(PIGains(1.0, 1.0), 0.0, 5.0, 1.0)
    assert caught.value.code == "control.limits"
