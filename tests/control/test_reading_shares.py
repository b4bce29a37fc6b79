"""Executors that differ are led to read for equally long, however much they differ."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.plants import read_batches
from trimtab.control import Intake, IntakeController, IntakeObserved, IntakeState, SharesState, next_shares


@settings(max_examples=60)
@given(st.lists(st.floats(1.0, 8.0), min_size=2, max_size=12))
def test_they_are_done_at_the_same_time(costs: list[float]) -> None:
    longest = read_batches(costs, batches=160)
    assert longest[-1] <= 1.01 / (1 / np.array(costs)).sum()
    assert math.isclose(longest[0], max(costs) / len(costs))


def test_noise_is_not_taken_for_a_difference() -> None:
    dice = np.random.default_rng(3)
    state = next_shares(None, {"a": None, "b": None, "c": None})
    found = []
    for _ in range(300):
        assert state is not None
        seconds = {name: share * math.exp(dice.normal(0, 0.1)) for name, share in state.by_name.items()}
        state = next_shares(state, seconds)
        found.append([] if state is None else list(state.shares))
    assert np.abs(np.array(found) - 1 / 3).max() < 0.1


def test_a_hog_that_comes_and_goes_is_answered() -> None:
    longest = read_batches([1.0, 1.0], batches=180, hog=(0, 3.0, 60, 120))
    assert longest[60] > 1.4  # half of the rows, three times as slow
    assert longest[100] < 0.78  # 0.75 is the best there is
    assert longest[-1] < 0.51


def test_executors_that_come_or_go_begin_anew_and_one_alone_shares_nothing() -> None:
    state = next_shares(SharesState(("0", "1"), (0.2, 0.8)), {"0": 1.0, "1": 1.0, "2": None})
    assert state == SharesState.even(("0", "1", "2"))
    assert next_shares(state, {"0": 1.0}) is None
    assert next_shares(state, {}) is None


def test_a_batch_in_which_one_read_nothing_says_nothing() -> None:
    state = SharesState(("0", "1"), (0.2, 0.8), (0.1,))
    assert next_shares(state, {"0": 1.0, "1": None}) == state


def test_the_control_of_the_intake_says_who_reads_and_the_log_remembers_it() -> None:
    controller = IntakeController(Intake(batch_s=0.5))
    state = controller.start()
    for _ in range(3):
        seen = IntakeObserved(rows=state.limit_rows, batch_s=0.3, reading_s={"0": 0.2, "1": 0.1})
        state, limit = controller.step(state, seen)
    assert limit.shares["0"] < 0.5 < limit.shares["1"]
    again = IntakeState.from_json(json.loads(json.dumps(state.as_json())))
    assert again == state
    assert controller.limit_of(again).shares == limit.shares
    _, alone = controller.step(state, IntakeObserved(rows=state.limit_rows, batch_s=0.3))
    assert not alone.shares
