"""Estimates of load: averaged, learned from others if little is known, and independent of the executors' speeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.deciding.load_estimates import LoadEstimates
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Measure

MS = 1_000_000
TWO = Placement.even(2, 4)
counts = st.lists(st.integers(0, 10_000), min_size=4, max_size=4)


def estimates(measure: Measure = Measure.BUSY, **options: Any) -> LoadEstimates:
    return LoadEstimates(measure, **{"half_life": 2.0, "interval_s": 1.0} | options)


def observed(events: list[int], event_ms: float | list[float] = 1.0, **changes: Any) -> Observation:
    """A batch of one second on two executors."""
    busy = np.rint(np.array(events) * np.array(event_ms) * MS).astype(np.int64)
    return replace(Observation.of_events(0, TWO, events), busy_ns=busy, executors=("a", "b"), **changes)


@given(st.lists(counts, min_size=1, max_size=8), st.sampled_from(list(Measure)))
def test_loads_are_finite_and_never_negative(batches: list[list[int]], measure: Measure) -> None:
    known = estimates(measure)
    for events in batches:
        known.take(observed(events))
        for loads in (known.loads(), known.loads(now=True)):
            assert np.isfinite(loads).all()
            assert (loads >= 0).all()
        assert (known.capacities(5) > 0).all()


def test_after_its_half_life_a_change_counts_half() -> None:
    known = estimates(Measure.EVENTS, half_life=3.0)
    for _ in range(5):
        known.take(observed([100, 0, 0, 0]))
    for _ in range(3):
        known.take(observed([200, 0, 0, 0]))
    assert known.loads()[0] == pytest.approx(150.0)
    assert known.loads(now=True)[0] == 200.0


def test_a_small_batch_is_not_judged_by_itself() -> None:
    known = estimates(Measure.EVENTS)
    for _ in range(5):
        known.take(observed([100, 100, 100, 100]))
    known.take(observed([0, 9, 0, 0]))
    assert known.loads(now=True).tolist() == known.loads().tolist()


def test_what_the_first_batch_costs_is_forgotten() -> None:
    known = estimates()
    known.take(observed([100] * 4, 50.0))
    for _ in range(2):
        known.take(observed([100] * 4, 1.0))
    assert known.event_ns() == pytest.approx(MS)


def test_a_key_group_of_which_little_is_known_costs_as_much_as_the_others() -> None:
    known = estimates()
    for _ in range(3):
        known.take(observed([1000, 1000, 0, 1], [2.0, 2.0, 0.0, 90.0]))
    usual = known.event_ns()
    assert usual[2] == pytest.approx(2.05 * MS, rel=0.05)
    assert usual[3] < 10 * MS


def test_state_is_remembered_in_batches_that_do_not_touch_its_keys() -> None:
    known = estimates(Measure.STATE)
    for written in ([800, 0, 0, 0], [800, 0, 0, 0], [10, 5, 0, 0]):
        known.take(observed([1] * 4, state_bytes=np.array(written)))
    assert known.loads().tolist() == pytest.approx([792.0, 5.0, 0.0, 0.0])


def test_executors_that_are_all_slower_than_before_are_as_fast_as_each_other() -> None:
    known = estimates()
    for event_ms in (1.0, 1.0, 1.0, 3.0, 3.0):
        known.take(observed([100] * 4, event_ms))
    assert known.capacities(2).tolist() == [100.0, 100.0]


def test_an_executors_speed_is_relative_to_the_others() -> None:
    known = estimates()
    for event_ms in (1.0, 1.0, 1.0, *[4.0] * 6):
        known.take(observed([100] * 4, [1.0, event_ms, 1.0, event_ms]))
    fast, slow = known.capacities(2)
    assert fast / slow == pytest.approx(4.0, rel=0.25)
    assert known.capacities(3)[2] == pytest.approx(known.capacities(2).mean())


def test_an_executor_that_had_nothing_to_do_is_not_taken_to_be_fast_or_slow() -> None:
    placement, executors = Placement(3, (0, 0, 1, 1)), ("a", "b", "idle")
    known = estimates()
    for event_ms in (1.0, 1.0, 1.0, *[5.0] * 6):  # everything gets slower
        busy = np.full(4, int(100 * event_ms * MS))
        one = Observation.of_events(0, placement, [100] * 4)
        known.take(replace(one, busy_ns=busy, executors=executors))
    assert known.capacities(3).tolist() == [100.0] * 3


def test_what_spark_takes_for_itself_is_not_the_engines_time() -> None:
    known = estimates()
    for _ in range(3):
        known.take(observed([200] * 4, batch_s=1.2, span_s=1.3, engine_ns=np.array([1000 * MS, 400 * MS])))
    assert known.free_share == pytest.approx(1.0 - 0.2 - 0.1)
    assert known.loads().sum() == pytest.approx(80.0 / 1.3 / 0.7)


def test_waiting_for_the_next_batch_is_free_time() -> None:
    known = estimates()
    for _ in range(30):
        known.take(observed([200] * 4, batch_s=0.5, span_s=1.0, engine_ns=np.array([400 * MS, 400 * MS])))
    assert known.free_share == pytest.approx(0.9)
    assert known.loads().sum() == pytest.approx(80.0 / 0.9)
