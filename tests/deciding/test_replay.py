"""Replaying a log: the same policy decides the same; another one goes on with its own placement."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.balance_loop import BalanceLoop
from trimtab.deciding.actions import applied
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.decision_log import Entry, from_bytes, to_bytes
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Scale
from trimtab.deciding.replay import agrees, replay, replay_with

batches = st.lists(st.lists(st.integers(0, 300), min_size=12, max_size=12), min_size=1, max_size=12)
quick = st.sampled_from(["flux", "lptf", "dlb-heavy", "dlb-light"])


def a_log(balance: Balance, starts: list[list[list[int]]], scale: Scale | None = None, **options: Any) -> list[Entry]:
    """The log of a job that is started several times, as read back from disk."""
    found = []
    placement = Placement.even(3, 12)
    for events in starts:
        stream = BalanceLoop(Coordinator(balance, scale), placement, **options)
        for number, each in enumerate(events):
            stream.batch(each)
            entry = Entry(stream.observed[-1], stream.decisions[-1], balance, scale, 1.0, is_first=number == 0)
            found.append(from_bytes(to_bytes(entry)))
        placement = stream.placement
    return found


@settings(max_examples=25)
@given(quick, st.lists(batches, min_size=1, max_size=3), st.booleans())
def test_the_same_policy_decides_the_same_in_every_batch(planner: str, starts: Any, scales: bool) -> None:
    balance = Balance(planner=planner, max_rstd=2.0, patience=1, period_batches=1, min_gain=0.0)
    scale = Scale(max_engines=6, cool_down_batches=1, cool_down_s=0.0) if scales else None
    log = a_log(balance, starts, scale, speeds={"a": 1.0, "b": 0.5}, noise=0.2)
    played = list(replay(log))
    assert len(played) == len(log)
    assert all(agrees(one) for one in played)


@settings(max_examples=3)
@given(batches)
def test_the_optimising_planner_decides_the_same_in_a_replay(events: Any) -> None:
    balance = Balance(planner="milp", max_rstd=0.0, patience=1, period_batches=1, min_gain=0.0, time_limit_s=60.0)
    log = a_log(balance, [events])
    assert all(agrees(one) for one in replay(log))


def test_a_log_with_other_decisions_does_not_agree() -> None:
    uneven = [[300, 0, 0] * 4] * 3
    log = a_log(Balance(planner="flux", patience=1), [uneven])
    assert any(entry.decision.actions for entry in log)
    other = a_log(Balance(planner="flux", patience=3), [uneven])
    mixed = [
        Entry(a.observed, b.decision, a.balance, a.scale, 1.0, a.is_first) for a, b in zip(log, other, strict=True)
    ]
    assert not all(agrees(one) for one in replay(mixed))


@settings(max_examples=25)
@given(quick, batches)
def test_another_policy_goes_on_with_its_own_placement(planner: str, events: Any) -> None:
    log = a_log(Balance(planner="flux", patience=1), [events])
    played = list(replay_with(log, Balance(planner=planner, max_rstd=2.0, patience=1, period_batches=1)))
    placement = log[0].observed.placement
    for one, entry in zip(played, log, strict=True):
        assert one.entry is entry
        assert one.observed.placement == placement
        assert one.observed.events.tolist() == entry.observed.events.tolist()
        assert one.observed.engine_ns.sum() == entry.observed.engine_ns.sum()
        placement = applied(one.decision.actions, placement)


def test_in_a_replay_without_a_policy_nothing_moves() -> None:
    log = a_log(Balance(planner="flux", patience=1), [[[300, 0, 0] * 4] * 6])
    played = list(replay_with(log, None))
    assert {one.observed.placement for one in played} == {Placement.even(3, 12)}
    assert not any(one.decision.actions for one in played)


@pytest.mark.parametrize("better", ["lptf", "flux"])
def test_a_replay_shows_what_another_policy_would_have_gained(better: str) -> None:
    log = a_log(Balance(max_rstd=None), [[[300, 10, 10] * 4] * 8])
    assert log[-1].decision.rstd > 100.0
    *_, last = replay_with(log, Balance(planner=better))
    assert last.decision.rstd < 50.0
