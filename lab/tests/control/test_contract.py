from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_lab.control import Controller, FirstOrderModel, PIController, PIGains, Schedule, place_poles
from trimtab_lab.controllers import PairBalancer, balance_by_lqr


@dataclass(frozen=True)
class Case:
    controller: Controller[Any, Any, Any]
    first: Any
    measurements: list[Any]


RANDOM = np.random.default_rng(7)
CASES = {
    "pi": Case(PIController(PIGains(0.2, 0.1), 5.0, 0.0, 8.0), 2.0, list(RANDOM.normal(5.0, 4.0, 50))),
    "pair": Case(PairBalancer(PIGains(0.1, 0.05), minimum=0.1), np.array([0.5, 0.5]), list(RANDOM.random((50, 2)))),
    "lqr": Case(
        balance_by_lqr([FirstOrderModel(0.8, 3.0, delay=2)] * 4, caution=1.0, minimum=0.05),
        np.full(4, 0.25),
        list(RANDOM.random((50, 4))),
    ),
    "schedule": Case(Schedule((1.0, 2.0, 3.0)), 0.0, [5.0] * 10),
}


def play(case: Case) -> list[Any]:
    state, actions = case.controller.start(case.first), []
    for measurement in case.measurements:
        state, action = case.controller.step(state, measurement)
        actions.append(action)
    return actions


@pytest.mark.parametrize("name", CASES)
def test_the_same_measurements_give_the_same_actions(name: str) -> None:
    assert np.array_equal(play(CASES[name]), play(CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_a_controller_continues_after_it_and_its_state_are_pickled_during_a_run(name: str) -> None:
    case = CASES[name]
    controller, state, actions = case.controller, case.controller.start(case.first), []
    for measurement in case.measurements:
        controller, state = pickle.loads(pickle.dumps((controller, state)))
        state, action = controller.step(state, measurement)
        actions.append(action)
    assert np.array_equal(actions, play(case))


@pytest.mark.parametrize("name", CASES)
def test_a_step_does_not_change_the_state_it_is_given(name: str) -> None:
    case = CASES[name]
    state, _ = case.controller.step(case.controller.start(case.first), case.measurements[0])
    before = pickle.dumps(state)
    first = case.controller.step(state, case.measurements[1])[1]
    assert pickle.dumps(state) == before
    assert np.array_equal(case.controller.step(state, case.measurements[1])[1], first)


@pytest.mark.parametrize("name", ["pair", "lqr"])
def test_shares_add_up_and_respect_their_minimum(name: str) -> None:
    case = CASES[name]
    actions = np.array(play(case))
    assert np.allclose(actions.sum(axis=1), 1.0, atol=1e-12)
    assert actions.min() >= {"pair": 0.1, "lqr": 0.05}[name] - 1e-15
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
