from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.control import FirstOrderModel, PIGains, is_stable, place_poles, spectral_radius, step_response
from trimtab.errors import BalanceError


@given(st.floats(0.5, 1.2), st.floats(3, 15), st.sampled_from((0.0, 0.02, 0.1)))
def test_without_a_delay_both_poles_are_where_they_were_wanted(a: float, settling: float, overshoot: float) -> None:
    design = place_poles(FirstOrderModel(a, -7.0, delay=0), settling_intervals=settling, overshoot=overshoot)
    radius = math.exp(-4 / settling)
    angle = math.pi * math.log(radius) / math.log(overshoot) if overshoot else 0.0
    if design.exact:
        assert np.allclose(sorted(design.poles, key=lambda pole: -pole.imag)[0], cmath.rect(radius, angle), atol=1e-6)
        # The formula is for continuous time: the fewer the intervals, the less accurate it is.
        assert abs(design.overshoot - overshoot) < (0.02 if settling > 8 else 0.1)
    else:
        assert design.gain_margin > 1.3


def test_the_paper_s_poles_follow_from_its_settling_time_and_overshoot() -> None:
    """0.046 +- 0.4i is a settling time of 4.4 intervals and an overshoot of 14 %."""
    pole = complex(0.046, 0.4)
    wish = {"settling_intervals": -4 / math.log(abs(pole)), "overshoot": abs(pole) ** (math.pi / cmath.phase(pole))}
    design = place_poles(FirstOrderModel(0.985, -134.0, delay=0), **wish)
    assert design.exact
    assert abs(design.gains.proportional + 0.00614) < 1e-5
    assert abs(design.gains.integral + 0.00799) < 1e-5
    assert abs(design.spectral_radius - 0.4026) < 1e-3


def test_a_delay_that_was_ignored_makes_the_paper_s_loop_unstable() -> None:
    believed, real = FirstOrderModel(0.985, -134.0, delay=0), FirstOrderModel(0.985, -134.0, delay=1)
    ignored = place_poles(believed, settling_intervals=5)
    assert is_stable(believed, ignored.gains)
    assert spectral_radius(real, ignored.gains) > 1.05
    assert place_poles(real, settling_intervals=5).spectral_radius < 0.8


@pytest.mark.parametrize("a", [-0.9, 0.3, 0.8, 0.985, 1.0])
@pytest.mark.parametrize("delay", [1, 2])
def test_the_search_beats_every_gain_of_a_plain_grid(a: float, delay: int) -> None:
    """By the measure of its docstring, on gains that were not its own candidates."""
    model, wish = FirstOrderModel(a, 1.0, delay), 4.0
    design = place_poles(model, settling_intervals=wish)
    assert not design.exact

    def miss(gains: PIGains) -> float:
        radius = spectral_radius(model, gains)
        if radius >= 1:
            return math.inf
        response = step_response(model, gains, intervals=200)
        settled = response.settling_intervals()
        slow = 1000 if settled is None else settled
        late = max((slow - 4 / math.log(max(radius, 1e-9))) / (2 * wish) - 1, 0)
        return late + 10 * max(response.overshoot - 1e-6, 0)

    others = [miss(PIGains(kp, ki)) for kp in np.linspace(-0.45, 0.55, 12) for ki in np.geomspace(0.003, 0.7, 14)]
    assert miss(design.gains) <= min(others) * 1.02


@settings(max_examples=30)
@given(st.floats(-0.9, 0.99), st.floats(1e-3, 1e3), st.integers(0, 2))
def test_the_scale_and_sign_of_b_only_scale_the_gains(a: float, b: float, delay: int) -> None:
    plus = place_poles(FirstOrderModel(a, 1.0, delay), settling_intervals=8)
    minus = place_poles(FirstOrderModel(a, -b, delay), settling_intervals=8)
    assert math.isclose(minus.gains.integral * -b, plus.gains.integral, rel_tol=1e-6)
    assert math.isclose(minus.gains.proportional * -b, plus.gains.proportional, rel_tol=1e-6, abs_tol=1e-9)


def test_slowing_a_quick_system_down_is_not_done_with_a_fragile_loop() -> None:
    design = place_poles(FirstOrderModel(0.0, 1.0, delay=0), settling_intervals=100)
    assert not design.exact
    assert design.gain_margin > 10
    assert 60 < design.settling_intervals < 140


def test_what_no_pi_controller_can_hold_is_refused() -> None:
    with pytest.raises(BalanceError) as caught:
        place_poles(FirstOrderModel(1.6, 1.0, delay=4), settling_intervals=10)
    assert caught.value.code == "control.unstable"


@pytest.mark.parametrize(("settling", "overshoot"), [(0.0, 0.0), (math.inf, 0.0), (5.0, 1.0), (5.0, -0.1)])
def test_requests_out_of_range_are_refused(settling: float, overshoot: float) -> None:
    with pytest.raises(BalanceError) as caught:
        place_poles(FirstOrderModel(0.5, 1.0), settling_intervals=settling, overshoot=overshoot)
    assert caught.value.code == "control.design"
