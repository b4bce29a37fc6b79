"""What every controller promises, and what a PI controller promises for every stable model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.controller_contract import *  # noqa: F403  (all of the contract)
from tests.support.controller_contract import ControllerCase, play
from trimtab.control import FirstOrderModel, PairBalancer, PIController, PIGains, Schedule, balance_by_lqr, place_poles

RANDOM = np.random.default_rng(7)
LEAST_SHARE = {"pair": 0.1, "lqr": 0.05}
CASES = {
    "pi": ControllerCase(PIController(PIGains(0.2, 0.1), 5.0, 0.0, 8.0), 2.0, list(RANDOM.normal(5.0, 4.0, 50))),
    "schedule": ControllerCase(Schedule((1.0, 2.0, 3.0)), 0.0, [5.0] * 10),
    "pair": ControllerCase(
        PairBalancer(PIGains(0.1, 0.05), minimum=LEAST_SHARE["pair"]),
        np.array([0.5, 0.5]),
        list(RANDOM.random((50, 2))),
    ),
    "lqr": ControllerCase(
        balance_by_lqr([FirstOrderModel(0.8, 3.0, delay=2)] * 4, caution=1.0, minimum=LEAST_SHARE["lqr"]),
        np.full(4, 0.25),
        list(RANDOM.random((50, 4))),
    ),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> ControllerCase:
    found: ControllerCase = request.param
    return found


@pytest.mark.parametrize("name", LEAST_SHARE)
def test_shares_add_up_and_respect_their_minimum(name: str) -> None:
    actions = np.array(play(CASES[name]))
    assert np.allclose(actions.sum(axis=1), 1.0, atol=1e-12)
    assert actions.min() >= LEAST_SHARE[name] - 1e-15
    assert actions.std() > 0.01


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.floats(-50, 50), st.floats(0, 100))
def test_a_pi_controller_never_leaves_its_limits(measurements: list[float], low: float, width: float) -> None:
    controller = PIController(PIGains(-0.7, 0.3), 1.0, low, low + width)
    state = controller.start(0.0)
    for measurement in measurements:
        state, action = controller.step(state, measurement)
        assert low <= action <= low + width


stable_models = st.builds(
    FirstOrderModel,
    st.floats(-0.95, 0.999),
    st.tuples(st.floats(1e-4, 1e4), st.sampled_from((-1.0, 1.0))).map(lambda pair: pair[0] * pair[1]),
    st.integers(0, 2),
)


def run_loop(
    model: FirstOrderModel, controller: PIController, intervals: int, *, action: float = 0.0, load: float = 0.0
) -> list[float]:
    state, actions, y, outputs = controller.start(action), [action] * (model.delay + 1), 0.0, []
    for _ in range(intervals):
        outputs.append(y)
        state, new = controller.step(state, y)
        actions.append(new)
        y = model.next(y, actions[-1 - model.delay]) + load
    return outputs


@settings(max_examples=40)
@given(stable_models, st.floats(3, 40), st.sampled_from((0.0, 0.05, 0.2)), st.floats(-100, 100), st.floats(-10, 10))
def test_the_reference_is_reached_for_every_stable_model(
    model: FirstOrderModel, settling: float, overshoot: float, reference: float, load: float
) -> None:
    design = place_poles(model, settling_intervals=settling, overshoot=overshoot)
    assert design.spectral_radius < 1
    assert design.gain_margin > 1.2
    outputs = run_loop(model, PIController(design.gains, reference), int(8 * design.settling_intervals) + 60, load=load)
    assert math.isclose(outputs[-1], reference, rel_tol=1e-3, abs_tol=1e-3 * (1 + abs(load)))


@settings(max_examples=40)
@given(stable_models, st.integers(100, 2000))
def test_however_long_it_was_at_its_limit_it_recovers_within_the_settling_time(
    model: FirstOrderModel, saturated: int
) -> None:
    design = place_poles(model, settling_intervals=12)
    gain = model.steady_state_gain
    limit = 1.0 / abs(gain)
    reach = gain * math.copysign(limit, gain)
    assert math.isclose(reach, 1.0)
    within = PIController(design.gains, 0.5 * reach, -limit, limit)
    full = math.copysign(limit, gain)
    state, actions, y = within.start(full), [full] * (model.delay + 1), reach
    far = PIController(design.gains, 3 * reach, -limit, limit)
    for _ in range(saturated):
        state, action = far.step(state, y)
        actions.append(action)
        y = model.next(y, actions[-1 - model.delay])
    assert actions[-1] == full
    off = []
    # With the action at its other limit all the time, recovery takes this long: no controller is faster.
    quickest = math.log(0.75) / math.log(model.a) if model.a > 0 else 1.0
    for _ in range(int(quickest + 2 * max(design.settling_intervals, design.settled_after or 0)) + 2):
        state, action = within.step(state, y)
        actions.append(action)
        y = model.next(y, actions[-1 - model.delay])
        off.append(abs(y - 0.5 * reach))
    assert off[-1] < 0.02
    # It recovers at once: its next actions don't depend on how long it was at the limit.
    assert actions[-len(off)] != actions[-len(off) - 1]
