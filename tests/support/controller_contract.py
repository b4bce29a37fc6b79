"""What every controller promises. A module of tests imports all of it, and has a fixture `case`."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.control import Controller


@dataclass(frozen=True)
class ControllerCase:
    """A controller, the action that is in force when it starts, and what it measures then."""

    controller: Controller[Any, Any, Any]
    first: Any
    measurements: list[Any]


def play(case: ControllerCase) -> list[Any]:
    """All its actions."""
    state, actions = case.controller.start(case.first), []
    for measurement in case.measurements:
        state, action = case.controller.step(state, measurement)
        actions.append(action)
    return actions


def test_the_same_measurements_give_the_same_actions(case: ControllerCase) -> None:
    assert np.array_equal(play(case), play(case))


def test_a_controller_continues_after_it_and_its_state_are_pickled_during_a_run(case: ControllerCase) -> None:
    controller, state, actions = case.controller, case.controller.start(case.first), []
    for measurement in case.measurements:
        controller, state = pickle.loads(pickle.dumps((controller, state)))
        state, action = controller.step(state, measurement)
        actions.append(action)
    assert np.array_equal(actions, play(case))


def test_a_step_does_not_change_the_state_it_is_given(case: ControllerCase) -> None:
    state, _ = case.controller.step(case.controller.start(case.first), case.measurements[0])
    before = pickle.dumps(state)
    first = case.controller.step(state, case.measurements[1])[1]
    assert pickle.dumps(state) == before
    assert np.array_equal(case.controller.step(state, case.measurements[1])[1], first)
