from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.control import FirstOrderModel, LoadBalancer, PairBalancer, PIGains, balance_by_lqr, balanced_radius
from trimtab.control.lqr import zero_sum_basis
from trimtab.control.share_balancer import onto_shares
from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]


def run(
    balancer: LoadBalancer, models: Sequence[FirstOrderModel], offsets: Float64Array, intervals: int
) -> tuple[Float64Array, Float64Array]:
    """Responses (intervals, n) and shares of elements that are `offsets` slower or faster for the same share."""
    n, delay = len(models), models[0].delay
    shares = [np.full(n, 1.0 / n)] * (delay + 1)
    state, y, responses = balancer.start(shares[0]), np.zeros(n), []
    for _ in range(intervals):
        responses.append(y)
        state, new = balancer.step(state, y)
        shares.append(new)
        acted = shares[-1 - delay] - 1.0 / n
        y = np.array([model.next(y[i], acted[i]) for i, model in enumerate(models)]) + offsets
    return np.array(responses), np.array(shares)


@settings(max_examples=20)
@given(
    st.integers(2, 6),
    st.floats(-0.5, 0.95),
    st.floats(0.01, 100.0),
    st.integers(0, 2),
    st.floats(0.5, 50),
    st.integers(0, 99),
)
def test_elements_that_differ_are_led_to_the_same_response(
    n: int, a: float, b: float, delay: int, caution: float, seed: int
) -> None:
    models = [FirstOrderModel(a, b, delay)] * n
    balancer = balance_by_lqr(models, caution=caution)
    radius = balanced_radius(balancer, models)
    assert radius < 1
    # Small enough that no share meets its minimum: there levelling is impossible.
    offsets = np.random.default_rng(seed).uniform(-0.2, 0.2, n) * b / n
    intervals = int(min(-15 / math.log(radius), 2000)) + 20
    responses, shares = run(balancer, models, offsets, intervals)
    assert shares.min() > 0
    first, last = np.ptp(responses[delay + 1]), np.ptp(responses[-1])
    assert last < 1e-2 * first
    assert np.allclose(shares.sum(axis=1), 1.0, atol=1e-9)


def test_the_radius_is_what_a_run_shows() -> None:
    """The slowest deviation shrinks by the spectral radius every interval, also for unlike elements."""
    models = [FirstOrderModel(a, b, 1) for a, b in ((0.9, 5.0), (0.6, 3.0), (0.8, 9.0))]
    balancer = balance_by_lqr(models, caution=3.0)
    responses, _ = run(balancer, models, np.array([0.05, 0.0, -0.02]), 400)
    spread = np.ptp(responses, axis=1)
    late = spread[60:160]
    measured = (late[-1] / late[0]) ** (1 / 99)
    assert abs(measured - balanced_radius(balancer, models)) < 0.02


def test_the_radius_shows_a_delay_that_the_design_ignored() -> None:
    believed, real = [FirstOrderModel(0.95, 5.0, 0)] * 3, [FirstOrderModel(0.95, 5.0, 2)] * 3
    balancer = balance_by_lqr(believed, caution=0.01)
    assert balanced_radius(balancer, believed) < 1 < balanced_radius(balancer, real)
    assert balanced_radius(balance_by_lqr(real, caution=0.01), real) < 1


def test_plain_queues_can_be_levelled_though_their_common_level_can_t_be_held() -> None:
    models = [FirstOrderModel(1.0, 2.0, 1)] * 4
    assert balanced_radius(balance_by_lqr(models), models) < 1


def test_caution_trades_speed_for_smaller_moves() -> None:
    models = [FirstOrderModel(0.9, 5.0, 1)] * 3
    moves, radii = [], []
    for caution in (0.1, 1.0, 10.0, 100.0):
        balancer = balance_by_lqr(models, caution=caution)
        radii.append(balanced_radius(balancer, models))
        _, shares = run(balancer, models, np.array([0.1, 0.0, 0.0]), 30)
        moves.append(np.abs(np.diff(shares, axis=0)).max())
    assert moves == sorted(moves, reverse=True)
    assert radii[-1] > radii[0]


def test_for_two_elements_without_a_delay_it_is_a_pi_controller_on_their_difference() -> None:
    model = FirstOrderModel(0.8, 4.0, delay=0)
    balancer = balance_by_lqr([model] * 2)
    kp, ki = float(balancer.response_gains[0, 0]), float(balancer.integral_gains[0, 0])
    # Deviations are differences over the root of 2, shares change by decisions over the same. The regulator's sum
    # ends one interval earlier than the integral part of equation 4 does, so a KI of its KP belongs to the other.
    pair = PairBalancer(PIGains((kp - ki) / 2, ki / 2))
    measured = np.random.default_rng(2).random((30, 2)) * 0.1
    state, other = balancer.start(np.full(2, 0.5)), pair.start(np.full(2, 0.5))
    for responses in measured:
        state, shares = balancer.step(state, responses)
        other, expected = pair.step(other, responses)
        assert np.allclose(shares, expected, atol=1e-12)


def test_a_share_at_its_minimum_recovers_at_once() -> None:
    models = [FirstOrderModel(0.9, 5.0, 1)] * 3
    balancer = balance_by_lqr(models, minimum=0.02)
    state = balancer.start(np.full(3, 1 / 3))
    for _ in range(500):
        state, shares = balancer.step(state, np.array([9.0, 1.0, 1.0]))
    assert math.isclose(shares[0], 0.02)
    state, shares = balancer.step(state, np.array([1.0, 5.0, 5.0]))
    state, shares = balancer.step(state, np.array([1.0, 5.0, 5.0]))
    assert shares[0] > 0.1


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=12), st.floats(0, 1))
def test_the_nearest_shares_are_found(wanted: list[float], fill: float) -> None:
    minimum = fill / len(wanted)
    shares = onto_shares(np.array(wanted), total=1.0, minimum=minimum)
    assert math.isclose(shares.sum(), 1.0, abs_tol=1e-9)
    assert shares.min() >= minimum
    # No transfer between two of them brings it nearer: those above the minimum were all lowered by the same amount.
    lowered = np.array(wanted) - shares
    free = shares > minimum + 1e-9
    if free.any():
        assert np.ptp(lowered[free]) < 1e-9
        assert (lowered[~free] <= lowered[free].max() + 1e-9).all()


def test_the_basis_is_orthonormal_and_adds_up_to_nothing() -> None:
    basis = zero_sum_basis(6)
    assert np.allclose(basis.T @ basis, np.eye(5))
    assert np.allclose(basis.sum(axis=0), 0)


def test_mistakes_are_named() -> None:
    model = FirstOrderModel(0.9, 5.0)

    def code_of(call: object) -> str:
        assert callable(call)
        with pytest.raises(BalanceError) as caught:
            call()
        return caught.value.code

    balancer = balance_by_lqr([model] * 3)
    state = balancer.start(np.full(3, 1 / 3))
    assert code_of(lambda: balance_by_lqr([model])) == "control.elements"
    assert code_of(lambda: balance_by_lqr([model, FirstOrderModel(0.9, 5.0, 0)])) == "control.model"
    assert code_of(lambda: balance_by_lqr([model] * 2, caution=0.0)) == "control.design"
    assert code_of(lambda: balance_by_lqr([model] * 2, minimum=0.6)) == "control.limits"
    assert code_of(lambda: PairBalancer(PIGains(1.0, 1.0), minimum=0.6)) == "control.limits"
    assert code_of(lambda: balancer.step(state, np.array([1.0, 2.0]))) == "control.elements"
    assert code_of(lambda: balancer.step(state, np.array([1.0, 2.0, np.nan]))) == "control.measurement"
    assert code_of(lambda: balancer.start(np.array([1.0]))) == "control.elements"
    unlike = [FirstOrderModel(1.0, 5.0), FirstOrderModel(0.5, 5.0)]
    growing = [FirstOrderModel(1.2, 5.0), FirstOrderModel(0.5, -5.0)]
    assert balanced_radius(balancer, [model] * 3) < 1
    for models in (unlike, growing):
        try:
            found = balance_by_lqr(models)
        except BalanceError as error:
            assert error.code == "control.unstable"  # noqa: PT017 - either it is refused, or it is stable
        else:
            assert balanced_radius(found, models) < 1
