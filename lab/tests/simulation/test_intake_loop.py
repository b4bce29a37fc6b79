from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.control import (
    FirstOrderModel,
    PairBalancer,
    PIController,
    PIGains,
    Schedule,
    balance_by_lqr,
    excitation,
    identify,
    place_poles,
)
from trimtab.errors import BalanceError
from trimtab_lab.simulation.intake_loop import Burst, Element, Hog, arrival_rates, fifo_delays, run_intake, run_split

ELEMENT = Element(rate=200.0, half_speed=3000.0, room=6000.0, result_bytes=100.0, jitter=0.05)


def controller(reference_bytes: float = 300_000.0, maximum: float = 1000.0) -> PIController:
    gains = place_poles(FirstOrderModel(0.98, -100.0, delay=1), settling_intervals=12).gains
    return PIController(gains, reference_bytes, minimum=0.0, maximum=maximum)


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    rates = arrival_rates(80, 150.0)
    first, again, other = (run_intake(ELEMENT, rates, controller=controller(), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.free_bytes, again.free_bytes)
    assert not np.array_equal(first.free_bytes, other.free_bytes)
    assert np.array_equal(
        run_split([ELEMENT] * 3, rates, seed=4).delays, run_split([ELEMENT] * 3, rates, seed=4).delays, equal_nan=True
    )


def test_the_controller_does_not_change_what_arrives() -> None:
    rates = arrival_rates(60, 150.0)
    held, free = run_intake(ELEMENT, rates, controller=controller(), seed=1), run_intake(ELEMENT, rates, seed=1)
    assert np.array_equal(held.arrived, free.arrived)


@given(st.integers(0, 50), st.floats(0, 500), st.booleans())
def test_no_event_is_lost_or_made(seed: int, rate: float, controlled: bool) -> None:
    trace = run_intake(
        Element(100.0, 50.0, room=300.0, result_bytes=1.0, jitter=0.1),
        arrival_rates(50, rate),
        controller=PIController(PIGains(-0.1, -0.05), 150.0, minimum=0.0) if controlled else None,
        hogs=[Hog(10, 30, 0.4)],
        seed=seed,
    )
    inside = trace.admitted.sum() - trace.finished.sum() - trace.dropped.sum()
    assert math.isclose(trace.arrived.sum(), trace.admitted.sum() + trace.waiting[-1], abs_tol=1e-6)
    assert -1e-6 <= inside <= 300.0 + 1e-6
    assert trace.free_bytes.min() >= 0
    assert trace.waiting.min() >= -1e-9


def test_results_are_dropped_only_when_there_is_no_room() -> None:
    trace = run_intake(ELEMENT, arrival_rates(400, 300.0), seed=1)
    dropped = np.flatnonzero(trace.dropped)
    assert dropped.size > 50
    assert (trace.free_bytes[dropped[:-1] + 1] == 0).all()


def test_a_controller_holds_the_free_space_through_bursts_and_a_hog_and_drops_nothing() -> None:
    trace = run_intake(
        ELEMENT,
        arrival_rates(400, 250.0, [Burst(150, 200, 3.0)]),
        controller=controller(),
        hogs=[Hog(250, 350, 0.5)],
        seed=2,
    )
    assert trace.dropped.sum() == 0
    assert np.abs(trace.free_bytes[120:] - 300_000).max() < 0.1 * 300_000
    assert np.abs(trace.free_bytes[300:340] - 300_000).max() < 0.02 * 300_000
    assert trace.finished[280:340].mean() < 0.6 * trace.finished[200:240].mean()


@pytest.mark.parametrize("delay", [0, 1, 2])
def test_actions_take_effect_after_the_delay(delay: int) -> None:
    actions = excitation(100.0, 40.0, intervals=30, hold=1, seed=1)
    trace = run_intake(
        ELEMENT,
        arrival_rates(30, 1e6),
        controller=Schedule(list(actions)),
        first_action=7.0,
        action_delay=delay,
        seed=1,
    )
    assert np.array_equal(trace.admitted[delay:], actions[: 30 - delay])
    assert (trace.admitted[:delay] == 7.0).all()
    assert identify(actions, trace.free_bytes).model.delay == delay


def test_an_element_is_the_first_order_model_it_is_said_to_be() -> None:
    """About w results waiting, a = 1 - rate half_speed / (w + half_speed)^2 of the results present."""
    element = Element(200.0, 3000.0, room=6000.0, result_bytes=100.0)
    level = 3000.0
    intake = 200.0 * level / (level + 3000.0)
    actions = excitation(intake, 10.0, intervals=300, seed=3)
    trace = run_intake(
        element,
        arrival_rates(300, 1e6),
        controller=Schedule(list(actions)),
        first_action=intake,
        first_results=level - intake,
        seed=1,
    )
    found = identify(actions, trace.free_bytes).model
    slope = 1 - 200.0 * 3000.0 / (level + 3000.0) ** 2
    assert abs(found.a - slope) < 1e-3
    assert abs(found.b + 100.0 * slope) < 1.0


def test_nothing_winds_up_while_too_little_arrives() -> None:
    """For 500 intervals less arrives than was requested; in the burst after it the free space must stay in control."""
    trace = run_intake(
        ELEMENT, arrival_rates(700, 40.0, [Burst(500, 700, 40.0)]), controller=controller(maximum=1e9), seed=1
    )
    assert np.nanmax(trace.requested[300:500]) < 4000
    assert trace.dropped.sum() == 0
    assert abs(trace.free_bytes[-1] - 300_000) < 6_000


def test_the_slowest_element_decides_the_delay_of_a_barrier() -> None:
    quick, slow = Element(1000.0, 10.0), Element(100.0, 10.0)
    rates = arrival_rates(60, 300.0)
    assert run_split([quick, slow], rates, seed=1).delays[20] > 5
    assert run_split([quick, quick], rates, seed=1).delays[20] < 1


@pytest.mark.parametrize("kind", ["pair", "lqr"])
def test_a_balancer_keeps_the_delay_where_round_robin_s_grows(kind: str) -> None:
    element = Element(1000.0, 600.0, jitter=0.02)
    model = FirstOrderModel(0.66, 1.1, delay=1)
    balancer = (
        PairBalancer(place_poles(FirstOrderModel(0.66, 2.2, delay=1), settling_intervals=10).gains)
        if kind == "pair"
        else balance_by_lqr([model] * 2)
    )
    rates, hogs = arrival_rates(300, 1100.0), [Hog(80, 300, 0.5)]
    robin, held = (run_split([element] * 2, rates, balancer=b, hogs=hogs, seed=1) for b in (None, balancer))
    assert robin.delays[200] > robin.delays[120] + 4 > 8
    assert held.delays[100:280].max() < 3
    assert held.shares[150:, 0].mean() < 0.35
    assert np.allclose(held.shares.sum(axis=1), 1.0)


def test_delays_are_those_of_a_queue_by_hand() -> None:
    """Two at a time, in order: the three of interval 0 need 1.5 intervals, the three of interval 2 leave at 3.5."""
    assert np.allclose(fifo_delays([3, 0, 3, 0], [2, 1, 2, 1]), [1.0, 0.0, 1.0, 0.0])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 5))
def test_delays_are_those_of_a_plain_loop(arrivals: list[int], speed: int) -> None:
    waiting, left = 0, []
    for came in [*arrivals, *([0] * 300)]:
        waiting += came
        left.append(min(waiting, speed))
        waiting -= left[-1]
    padded = arrivals + [0] * 300
    delays = fifo_delays(padded, left)
    through, done = np.cumsum(left), np.cumsum(padded)
    for k in range(len(arrivals)):
        last = int(np.argmax(through >= done[k])) if done[k] else 0  # the interval in which the last one leaves
        assert delays[k] <= max(last - k, 0) + 1e-6
        assert delays[k] >= max(last - k - 1, 0) - 1e-6


def test_nothing_arriving_is_no_trouble() -> None:
    assert run_intake(ELEMENT, arrival_rates(5, 0.0), controller=controller()).finished.sum() == 0
    assert run_split([ELEMENT] * 2, arrival_rates(5, 0.0)).delays.max() == 0
    assert len(run_intake(ELEMENT, []).arrived) == 0


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Element(0.0, 1.0),
        lambda: Element(1.0, 1.0, jitter=-1.0),
        lambda: Hog(0, 1, 0.0),
        lambda: run_split([], [1.0]),
        lambda: run_intake(ELEMENT, [-1.0]),
        lambda: run_intake(ELEMENT, [1.0], action_delay=-1),
        lambda: run_intake(ELEMENT, [1.0], hogs=[Hog(0, 1, 0.5, element=1)]),
    ],
)
def test_settings_out_of_range_are_refused(mistake: object) -> None:
    assert callable(mistake)
    with pytest.raises(BalanceError) as caught:
        mistake()
    assert caught.value.code == "simulate.setting"
