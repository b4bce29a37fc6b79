from __future__ import annotations

import math

import pytest

from trimtab.control import FirstOrderModel, settling_of
from trimtab.errors import BalanceError


def test_the_paper_s_settling_time_follows_from_its_model() -> None:
    assert int(FirstOrderModel(0.985, -134.0).settling_intervals) == 264


def test_the_paper_s_gain_is_that_of_another_a() -> None:
    assert round(FirstOrderModel(0.985, -134.0).steady_state_gain) == -8933
    assert round(FirstOrderModel(0.958, -134.0).steady_state_gain) == -3190


def test_a_queue_keeps_everything_and_never_settles() -> None:
    queue = FirstOrderModel(1.0, -2.0)
    assert queue.steady_state_gain == -math.inf
    assert queue.settling_intervals == math.inf
    assert settling_of(0.0) == 0.0


@pytest.mark.parametrize(
    ("a", "b", "delay", "code"),
    [
        (0.5, 0.0, 1, "control.gain"),
        (math.nan, 1.0, 1, "control.model"),
        (0.5, math.inf, 1, "control.model"),
        (0.5, 1.0, -1, "control.model"),
    ],
)
def test_what_is_no_model_is_refused(a: float, b: float, delay: int, code: str) -> None:
    with pytest.raises(BalanceError) as caught:
        FirstOrderModel(a, b, delay)
    assert caught.value.code == code
