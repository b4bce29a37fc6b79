"""The controller of the intake, on many simulated streams: how soon and how well it holds its reference."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.control.batch_plant import BatchPlant, back_after, share_within
from trimtab.control import FirstOrderModel, PIGains, gain_margin, is_stable, poles
from trimtab.control.intake import Intake, IntakeLimit, IntakeObserved
from trimtab.control.intake_controller import (
    BACKLOG_GAINS,
    COST_GAINS,
    FIRST_BATCHES,
    LEAST_SHARE,
    IntakeController,
    IntakeState,
)

HALF_A_SECOND = IntakeController(Intake(batch_s=0.5))


def plants(count: int, **options: Any) -> Iterator[BatchPlant]:
    """Streams with a fixed cost of 0.1 to 0.3 s, and 0.1 to 10 microseconds a row."""
    dice = random.Random(3)
    for seed in range(count):
        fixed_s, a_row_s = dice.uniform(0.1, 0.3), 10 ** dice.uniform(-7, -5)
        yield BatchPlant(fixed_s=fixed_s, a_row_s=a_row_s, seed=seed, slow_first=seed % 4, **options)


# The law ---------------------------------------------------------------------------------------


def test_the_poles_are_where_the_documentation_says() -> None:
    assert poles(FirstOrderModel(0.0, 1.0, delay=0), COST_GAINS) == pytest.approx([0.5, 0.2])
    assert poles(FirstOrderModel(1.0, -1.0, delay=0), BACKLOG_GAINS) == pytest.approx([0.5, 0.5], abs=1e-6)


def test_the_loop_is_stable_whatever_the_estimate_is() -> None:
    assert gain_margin(FirstOrderModel(0.0, 1.0, delay=0), COST_GAINS) == pytest.approx(10.0, rel=1e-3)
    assert 1.0 / LEAST_SHARE < 10.0
    for share in (1.0, 0.5, 0.1, 0.01):  # and as the arrivals leave ever less of what a batch reads
        assert is_stable(FirstOrderModel(1.0, -share, delay=0), BACKLOG_GAINS)


# Holding a batch time --------------------------------------------------------------------------


def test_from_the_tenth_batch_on_nine_of_ten_are_near_the_reference() -> None:
    for plant in plants(60):
        times = plant.run(HALF_A_SECOND, 60)
        assert share_within(times[10:], 0.5) >= 0.9, plant


def test_with_twice_the_noise_it_still_holds_on_average() -> None:
    shares = [share_within(plant.run(HALF_A_SECOND, 60)[10:], 0.5) for plant in plants(60, noise=0.1)]
    assert sum(shares) / len(shares) > 0.9  # no controller has more than 0.95: that is the noise itself
    assert min(shares) > 0.75


@pytest.mark.parametrize("factor", [0.5, 2.0, 4.0])
def test_after_rows_have_changed_their_cost_it_is_back_within_fifteen_batches(factor: float) -> None:
    for plant in plants(40):
        plant.run(HALF_A_SECOND, 40)
        plant.a_row_s *= factor
        assert back_after(plant.run(HALF_A_SECOND, 40), 0.5) <= 15, plant


def test_a_limit_that_is_in_force_a_batch_later_is_held_too() -> None:
    shares = [share_within(plant.run(HALF_A_SECOND, 60)[20:], 0.5) for plant in plants(40, late=1)]
    assert sum(shares) / len(shares) > 0.95
    assert min(shares) > 0.8


def test_slow_first_batches_leave_the_limit_where_it_is() -> None:
    plant = BatchPlant(slow_first=3)
    plant.run(HALF_A_SECOND, FIRST_BATCHES)
    assert {limit.rows for limit in plant.limits} == {10_000}
    assert plant.limits[-1].reason == "the first batches also compile"


def test_a_single_slow_batch_costs_at_most_a_few_batches() -> None:
    for plant in plants(20):
        plant.run(HALF_A_SECOND, 40)
        before, plant.fixed_s = plant.fixed_s, 10 * plant.fixed_s
        plant.run(HALF_A_SECOND, 1)
        plant.fixed_s = before
        assert back_after(plant.run(HALF_A_SECOND, 20), 0.5) <= 8, plant


@pytest.mark.parametrize(("spikes", "least"), [(0.05, 0.92), (0.10, 0.86), (0.15, 0.79)])
def test_single_slow_batches_cost_hardly_more_than_themselves(spikes: float, least: float) -> None:
    shares = list[float]()
    for plant in plants(40):
        plant.run(HALF_A_SECOND, 20)
        plant.spikes = spikes
        shares.append(share_within(plant.run(HALF_A_SECOND, 100), 0.5))
    assert sum(shares) / len(shares) >= least  # no controller has more than 1 - spikes


def test_slow_batches_that_last_are_answered_within_some_six() -> None:
    answered = list[int]()
    for plant in plants(40):
        plant.run(HALF_A_SECOND, 40)
        plant.fixed_s, plant.a_row_s = min(1.8 * plant.fixed_s, 0.35), 1.8 * plant.a_row_s
        answered.append(back_after(plant.run(HALF_A_SECOND, 30), 0.5))
    assert sum(answered) / len(answered) <= 6
    assert max(answered) <= 8


def test_used_memory_counts_fully_at_once() -> None:
    plant = BatchPlant()
    controller = IntakeController(Intake(free_memory_share=0.3))
    plant.run(controller, 30)
    before, plant.memory_a_row = plant.limits[-1].rows, 1.7 * plant.memory_a_row
    plant.run(controller, 1)
    assert plant.limits[-1].rows < 0.85 * before


@pytest.mark.parametrize("plain_s", [8.0, 20.0])
def test_while_machine_code_is_compiled_the_limit_never_falls_and_then_the_climb_is_quick(plain_s: float) -> None:
    shares = list[float]()
    for plant in plants(40, plain_s=plain_s):
        plant.slow_first = 0
        while sum(seen.batch_s for seen in plant.observed) < plain_s:
            plant.run(HALF_A_SECOND, 1)
        assert min(limit.rows for limit in plant.limits) >= 10_000, plant
        times = plant.run(HALF_A_SECOND, 30)
        shares.append(share_within(times[5:], 0.5))
        assert back_after(times, 0.5) <= 8, plant
    assert sum(shares) / len(shares) >= 0.96


def test_code_that_never_comes_is_an_excuse_for_a_minute_only() -> None:
    plant = BatchPlant(a_row_s=2e-5, plain_s=math.inf)
    plant.run(HALF_A_SECOND, 20)
    assert plant.limits[-1].rows == 10_000
    assert plant.limits[-1].reason == "machine code isn't compiled yet"
    assert back_after(plant.run(HALF_A_SECOND, 40)[11:], 0.5) <= 8


def test_a_reference_below_the_fixed_cost_leads_to_the_fewest_rows_and_says_so() -> None:
    plant = BatchPlant(fixed_s=0.3)
    plant.run(IntakeController(Intake(batch_s=0.2)), 30)
    limit = plant.limits[-1]
    assert (limit.rows, limit.is_saturated) == (1_000, True)
    assert limit.reason == "a batch takes 0.3 s without rows: even min_rows take longer than 0.2 s"


def test_it_starts_small_and_grows_at_most_fourfold() -> None:
    plant = BatchPlant(a_row_s=1e-7, noise=0.0)
    plant.run(HALF_A_SECOND, 20)
    rows = [seen.rows for seen in plant.observed]
    assert rows[0] == HALF_A_SECOND.first_limit().rows == 10_000
    assert all(after <= 4 * before for before, after in pairwise(rows))


# Another start ---------------------------------------------------------------------------------


def test_a_later_start_climbs_from_half_of_what_the_last_one_found() -> None:
    climbs = list[int]()
    for plant in plants(40):
        plant.run(HALF_A_SECOND, 40)
        assert plant.state is not None
        again = BatchPlant(plant.fixed_s, plant.a_row_s, seed=7, state=HALF_A_SECOND.resumed(plant.state))
        climbs.append(back_after(again.run(HALF_A_SECOND, 20), 0.5))
        assert again.observed[0].rows == plant.limits[-1].rows // 2
    assert sum(climbs) / len(climbs) < 2.5, "from 10,000 rows it takes twice as many"


def test_starts_that_read_all_at_once_hand_on_what_they_began_with() -> None:
    plant = BatchPlant()
    plant.run(HALF_A_SECOND, 40)
    assert plant.state is not None
    state = HALF_A_SECOND.resumed(plant.state)
    for _ in range(5):
        small = IntakeObserved(rows=100, batch_s=0.2, bytes=2_000, backlog_rows=0)
        state = HALF_A_SECOND.resumed(HALF_A_SECOND.step(state, small)[0])
    assert state.limit_rows == plant.limits[-1].rows // 2


def test_a_later_start_keeps_the_bounds_and_begins_anew_if_nothing_was_found() -> None:
    assert HALF_A_SECOND.resumed(IntakeState(500_000)) == HALF_A_SECOND.start()
    bounded = IntakeController(Intake(batch_s=0.5, max_bytes=1_000_000))
    assert bounded.resumed(IntakeState(500_000, found_rows=500_000, bytes_a_row=100.0)).limit_rows == 10_000
    assert bounded.resumed(IntakeState(1_200, found_rows=1_200)).limit_rows == 1_000


# Without wind-up -------------------------------------------------------------------------------


def test_a_pause_without_a_backlog_winds_nothing_up() -> None:
    for plant in plants(20):
        plant.run(HALF_A_SECOND, 40)
        held = plant.limits[-1].rows
        plant.backlog, plant.rate_per_s = 0.0, 1_000.0
        plant.run(HALF_A_SECOND, 200)
        assert plant.limits[-1].rows == held, "what was read in the pause says nothing about the limit"
        assert plant.limits[-1].reason in ("all that waited was read", "no rows were read")
        plant.backlog = 1e12
        times = plant.run(HALF_A_SECOND, 20)
        assert back_after(times, 0.5) <= 3, plant


def test_a_long_time_at_a_bound_winds_nothing_up() -> None:
    controller = IntakeController(Intake(batch_s=0.5, max_rows=50_000))
    plant = BatchPlant(fixed_s=0.1, a_row_s=1e-6, noise=0.0)
    plant.run(controller, 500)
    assert plant.limits[-1].rows == 50_000
    assert plant.limits[-1].reason == "batch_s is 0.15, and max_rows allows no more rows"
    plant.a_row_s = 2e-5
    assert back_after(plant.run(controller, 20), 0.5) <= 6


# Bounds ----------------------------------------------------------------------------------------

observations = st.lists(
    st.builds(
        IntakeObserved,
        rows=st.integers(0, 10**9),
        batch_s=st.floats(0, 1e4),
        bytes=st.none() | st.integers(0, 10**12),
        limit_rows=st.none() | st.integers(1, 10**9),
        latency_s=st.none() | st.floats(0, 1e6),
        backlog_rows=st.none() | st.integers(0, 10**12),
        free_memory_share=st.none() | st.floats(0, 1),
    ),
    max_size=30,
)
references = st.sampled_from(
    [
        {},
        {"batch_s": 0.5},
        {"latency_s": 2.0},
        {"backlog_rows": 1_000},
        {"free_memory_share": 0.3},
        {"gains": (0.0, 5e4)},
    ]
)


@given(references, st.integers(1, 10_000), st.integers(0, 10**6), st.integers(1, 10**7), observations)
def test_no_observation_leads_to_a_limit_out_of_bounds(
    reference: dict[str, Any], least: int, more: int, first: int, seen: list[IntakeObserved]
) -> None:
    intake = Intake(min_rows=least, max_rows=least + more, first_rows=first, max_bytes=1_000_000, **reference)
    controller = IntakeController(intake)
    state = controller.start()
    assert least <= state.limit_rows <= least + more
    for observed in seen:
        state, limit = controller.step(state, observed)
        assert limit.rows == state.limit_rows >= 1
        assert limit.rows <= least + more
        if state.bytes_a_row > 0:
            assert limit.rows == 1 or limit.rows * state.bytes_a_row <= 1_000_000
        if limit.rows < least:  # only because of the rows' size
            assert (limit.rows + 1) * state.bytes_a_row > 1_000_000
        assert limit.error is None or math.isclose(limit.error, limit.reference - (limit.measure or 0.0))
        assert limit.reason


def test_bytes_bound_the_rows() -> None:
    controller = IntakeController(Intake(batch_s=0.5, max_bytes=1_000_000))
    plant = BatchPlant(bytes_a_row=50.0)
    plant.run(controller, 30)
    assert plant.limits[-1].rows == 20_000
    assert "max_bytes" in plant.limits[-1].reason
    plant.bytes_a_row = 500.0
    plant.run(controller, 2)
    assert plant.limits[-1].rows == 2_000


# Other references ------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_per_s", [100_000.0, 500_000.0])
def test_a_backlog_is_held_at_its_reference(rate_per_s: float) -> None:
    plant = BatchPlant(backlog=2e6, rate_per_s=rate_per_s)
    plant.run(IntakeController(Intake(backlog_rows=200_000)), 100)
    waiting = [seen.backlog_rows or 0 for seen in plant.observed[30:]]
    assert sum(waiting) / len(waiting) == pytest.approx(200_000, rel=0.05)
    assert max(abs(each - 200_000) for each in waiting) < 60_000


def test_free_memory_is_held_at_its_reference() -> None:
    plant = BatchPlant()
    plant.run(IntakeController(Intake(free_memory_share=0.3)), 30)
    free = [seen.free_memory_share or 0.0 for seen in plant.observed]
    assert min(free) > 0.25
    assert free[-1] == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("rate_per_s", [100_000.0, 500_000.0])
def test_a_latency_is_held_once_the_backlog_is_read(rate_per_s: float) -> None:
    plant = BatchPlant(backlog=2e6, rate_per_s=rate_per_s)
    plant.run(IntakeController(Intake(latency_s=1.0)), 100)
    assert max(seen.latency_s or 0.0 for seen in plant.observed[60:]) < 1.2
    assert max(seen.batch_s for seen in plant.observed[10:]) < 1.2, "batches don't become long to read a backlog"


def test_the_user_s_own_gains_are_the_paper_s_controller() -> None:
    controller = IntakeController(Intake(batch_s=0.5, gains=PIGains(0.0, 200_000.0)))
    _, limit = controller.step(controller.start(), IntakeObserved(rows=10_000, batch_s=0.4))
    assert limit.rows == 30_000


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        (IntakeObserved(rows=0, batch_s=0.1), "no rows were read"),
        (IntakeObserved(rows=10_000, batch_s=0.1), "free_memory_share was not measured"),
    ],
)
def test_without_a_measure_the_limit_stays(observed: IntakeObserved, reason: str) -> None:
    controller = IntakeController(Intake(free_memory_share=0.3))
    _, limit = controller.step(controller.start(), observed)
    assert limit == IntakeLimit(rows=10_000, held="free_memory_share", reference=0.3, reason=reason)


def test_without_times_of_arrival_half_of_the_latency_is_held_as_batch_time() -> None:
    controller = IntakeController(Intake(latency_s=1.0))
    state = controller.start()
    for _ in range(30):
        rows = state.limit_rows
        seen = IntakeObserved(rows=rows, batch_s=0.1 + 1e-6 * rows, backlog_rows=10**9)
        state, limit = controller.step(state, seen)
    assert limit.rows == pytest.approx(400_000, rel=0.05)
    assert (limit.measure, limit.error) == (None, None)
    assert "doesn't tell when rows arrived" in limit.reason


@pytest.mark.parametrize("rows_each", [30_000, 150_000, 1_000_000])
def test_whole_files_do_not_keep_the_limit_from_its_reference(rows_each: int) -> None:
    controller = IntakeController(Intake(batch_s=0.5))
    state = controller.start()
    times, limits = list[float](), list[int]()
    for _ in range(60):
        rows = max(1, state.limit_rows // rows_each) * rows_each
        times.append(0.1 + 1e-6 * rows)
        seen = IntakeObserved(rows=rows, batch_s=times[-1], limit_rows=state.limit_rows, backlog_rows=10**9)
        state, limit = controller.step(state, seen)
        limits.append(limit.rows)
    most = max(1, 400_000 // rows_each) * rows_each
    assert max(times[20:]) <= 0.1 + 1e-6 * (most + rows_each)
    assert min(times[20:]) >= 0.1 + 1e-6 * min(most, 400_000) - 1e-9 or rows_each > 400_000
    assert max(limits) <= most + 2 * rows_each


# Replaying -------------------------------------------------------------------------------------


def test_it_decides_the_same_again_also_from_a_state_that_has_been_json() -> None:
    for plant in plants(5):
        plant.run(HALF_A_SECOND, 50)
        state, limits = HALF_A_SECOND.start(), []
        for seen in plant.observed:
            state = IntakeState.from_json(json.loads(json.dumps(state.as_json())))
            state, limit = HALF_A_SECOND.step(state, seen)
            limits.append(limit)
        assert limits == plant.limits
