from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.control import FirstOrderModel, excitation, identify
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]


def record(
    model: FirstOrderModel, *, intervals: int, noise: float, seed: int, level: float = 0.0
) -> tuple[Float64Array, Float64Array]:
    u = excitation(level, 5.0, intervals=intervals, hold=2, seed=seed)
    disturbance = np.random.default_rng(seed + 1).normal(0, noise, intervals)
    y = np.zeros(intervals)
    for k in range(intervals - 1):
        acted = u[k - model.delay] if k >= model.delay else level
        y[k + 1] = model.next(y[k], acted - level) + disturbance[k]
    return u, y


@given(st.floats(-0.9, 1.0), st.floats(0.1, 1000.0), st.sampled_from((-1, 1)), st.integers(0, 3), st.integers(0, 99))
def test_a_model_is_recovered_from_what_it_did(a: float, size: float, sign: int, delay: int, seed: int) -> None:
    model = FirstOrderModel(a, sign * size, delay)
    u, y = record(model, intervals=80, noise=0.0, seed=seed, level=1e4)
    found = identify(u, y)
    assert found.model.delay == delay
    assert math.isclose(found.model.a, a, abs_tol=1e-6)
    assert math.isclose(found.model.b, model.b, rel_tol=1e-6)
    assert found.r_squared > 1 - 1e-9


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
def test_noise_moves_the_figures_a_little_and_the_delay_not_at_all(delay: int) -> None:
    model = FirstOrderModel(0.9, -2.0, delay)
    u, y = record(model, intervals=400, noise=2.0, seed=3)
    found = identify(u, y)
    assert found.model.delay == delay == min(found.residuals, key=lambda d: found.residuals[d])
    assert math.isclose(found.model.a, 0.9, abs_tol=0.05)
    assert math.isclose(found.model.b, -2.0, rel_tol=0.1)
    assert 0.5 < found.r_squared < 1


def test_the_operating_point_is_where_the_data_was() -> None:
    model = FirstOrderModel(0.5, 1.0, 1)
    u, y = record(model, intervals=300, noise=0.1, seed=1, level=70.0)
    found = identify(u, y + 40.0)
    assert abs(found.mean_u - 70) < 1
    assert abs(found.mean_y - 40) < 1
    assert abs(found.model.a - 0.5) < 0.05


def test_all_delays_are_fitted_to_the_same_rows() -> None:
    u, y = record(FirstOrderModel(0.5, 1.0, 0), intervals=50, noise=0.1, seed=1)
    found = identify(u, y, delays=(0, 4))
    assert found.rows == 45
    assert set(found.residuals) == {0, 4}


@pytest.mark.parametrize(
    ("u", "y"),
    [
        ([1.0] * 30, list(range(30))),
        ([1.0, 2.0] * 4, [1.0] * 8),
        ([1.0, 2.0] * 15, [1.0] * 29),
        ([1.0, math.nan] * 15, [1.0] * 30),
    ],
)
def test_data_that_is_not_enough_is_refused(u: list[float], y: list[float]) -> None:
    with pytest.raises(BalanceError) as caught:
        identify(u, y)
    assert caught.value.code == "control.data"


def test_an_action_that_does_nothing_is_refused() -> None:
    u = excitation(0.0, 1.0, intervals=40)
    with pytest.raises(BalanceError) as caught:
        identify(u, np.zeros(40))
    assert caught.value.code == "control.gain"


def test_excitation_is_seeded_and_stays_within_its_swing() -> None:
    actions = excitation(10.0, 2.0, intervals=500, hold=4, seed=5)
    assert np.array_equal(actions, excitation(10.0, 2.0, intervals=500, hold=4, seed=5))
    assert not np.array_equal(actions, excitation(10.0, 2.0, intervals=500, hold=4, seed=6))
    assert actions.min() >= 8
    assert actions.max() <= 12
    assert 80 < np.count_nonzero(np.diff(actions)) < 170
