"""The coordinator limits the intake: what it decides, what it logs, and that a replay decides the same."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from trimtab.control.intake import Intake, IntakeObserved
from trimtab.deciding import decision_log
from trimtab.deciding.actions import Move, SetIntake, applied, in_words
from trimtab.deciding.balancer import Balancer
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.decision_log import Entry, from_bytes, to_bytes
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance
from trimtab.deciding.replay import Replayed, agrees, replay, replay_with
from trimtab.state.files import Folder

PLACEMENT = Placement.even(2, 4)
UNEVEN = [90, 10, 60, 10]
HALF_A_SECOND = Intake(batch_s=0.5)
BALANCE = Balance(planner="flux", measure="events", patience=1)


def observed(batch: int, rows: int, *, fixed_s: float = 0.1) -> Observation:
    taken = IntakeObserved(rows=rows, bytes=20 * rows, batch_s=fixed_s + 1e-6 * rows, backlog_rows=10**9)
    return replace(Observation.of_events(batch, PLACEMENT, UNEVEN), intake=taken)


def a_log(batches: int, balance: Balance | None = None) -> list[Entry]:
    """The log of a job in which what is decided is done, as read back from disk."""
    coordinator = Coordinator(balance, intake=HALF_A_SECOND)
    found, rows = [], HALF_A_SECOND.first_rows
    for batch in range(batches):
        known, seen = coordinator.intake_state, observed(batch, rows)
        decision = coordinator.step(seen)
        entry = Entry(seen, decision, balance, None, 1.0, is_first=batch == 0, intake=HALF_A_SECOND, intake_state=known)
        found.append(from_bytes(to_bytes(entry)))
        assert decision.intake is not None
        rows = decision.intake.rows
    return found


def test_each_batch_is_followed_by_a_limit() -> None:
    log = a_log(15)
    assert log[0].decision.actions == (SetIntake(log[0].decision.intake.rows if log[0].decision.intake else 0),)
    last = log[-1].decision.intake
    assert last is not None
    assert (last.held, last.reference) == ("batch_s", 0.5)
    assert last.rows == pytest.approx(400_000, rel=0.01)
    assert log[-1].decision.reason == "nothing is balanced"


def test_a_limit_that_stays_is_no_action() -> None:
    coordinator = Coordinator(None, intake=HALF_A_SECOND)
    decision = coordinator.step(observed(0, 0))
    assert decision.actions == ()
    assert decision.intake is not None
    assert decision.intake.rows == 10_000


def test_placement_and_intake_are_decided_side_by_side() -> None:
    decision = Coordinator(BALANCE, intake=HALF_A_SECOND).step(observed(0, 10_000))
    assert [type(action) for action in decision.actions] == [Move, SetIntake]
    assert applied(decision.actions, PLACEMENT) == applied(decision.actions[:1], PLACEMENT)
    assert (
        in_words(decision.actions[1:]) == f"a batch takes up to {decision.intake.rows if decision.intake else 0:,} rows"
    )


def test_without_intake_or_without_its_observation_nothing_is_limited() -> None:
    assert Coordinator(BALANCE).limit is None
    assert Coordinator(BALANCE).step(observed(0, 10_000)).intake is None
    assert Coordinator(BALANCE, intake=HALF_A_SECOND).step(replace(observed(0, 1), intake=None)).intake is None


def test_without_a_reference_the_interval_is_held() -> None:
    limit = Coordinator(None, intake=Intake(), interval_s=3.0).limit
    assert limit is not None
    assert limit.reference == 3.0


def test_to_limit_the_intake_takes_no_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*names: str) -> None:
        raise AssertionError(names)

    monkeypatch.setattr("trimtab.deciding.coordinator.need_solvers", missing)
    assert not Coordinator(None, intake=HALF_A_SECOND).plans
    with pytest.raises(AssertionError, match="scipy"):
        Coordinator(Balance(), intake=HALF_A_SECOND)


@pytest.mark.parametrize("balance", [None, BALANCE])
def test_a_replay_decides_the_same(balance: Balance | None) -> None:
    log = a_log(20, balance)
    played = list(replay(log))
    assert all(agrees(one) for one in played)
    assert [one.decision.intake for one in played] == [entry.decision.intake for entry in log]


def test_a_replay_that_begins_in_the_middle_decides_the_same_limits() -> None:
    log = a_log(20)[8:]
    assert [one.decision.intake for one in replay(log)] == [entry.decision.intake for entry in log]


def test_a_replay_decides_the_same_limits_where_batches_are_missing_in_the_log() -> None:
    """Their planner failed, or too many batches waited for it; the limits were stepped all the same."""
    log = a_log(20)
    del log[4:7], log[9]
    assert all(agrees(one) for one in replay(log))
    assert [one.decision.intake for one in replay_with(log, BALANCE)] == [entry.decision.intake for entry in log]


def test_a_planner_that_fails_does_not_hold_the_intake_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(BALANCE, intake=HALF_A_SECOND)
    monkeypatch.setattr(coordinator, "_planner", lambda _: 1 / 0)
    balancer = Balancer(coordinator, Folder(str(tmp_path)))
    for batch in range(10):
        assert balancer.limit is not None
        balancer.consider(observed(batch, balancer.limit.rows))
        while balancer.latest is None or balancer.latest.batch < batch:
            balancer.changed(PLACEMENT)
    balancer.stop()
    assert balancer.limit is not None
    assert balancer.limit.rows > 300_000


def test_another_limit_in_the_log_does_not_agree() -> None:
    log = a_log(3)
    limit = log[2].decision.intake
    assert limit is not None
    log[2] = replace(log[2], decision=replace(log[2].decision, intake=replace(limit, rows=limit.rows + 1)))
    assert [agrees(one) for one in replay(log)] == [True, True, False]
    log[2] = replace(log[2], decision=replace(log[2].decision, intake=replace(limit, reason="in other words")))
    assert all(agrees(one) for one in replay(log))


def test_another_policy_has_the_same_intake() -> None:
    log = a_log(5)
    assert [one.decision.intake for one in replay_with(log, BALANCE)] == [entry.decision.intake for entry in log]


def as_older(entry: Entry, change: Callable[[dict[str, Any]], object]) -> Entry:
    """The entry as read from the file of an older build, which has not all of its values."""
    table = pa.ipc.open_file(pa.py_buffer(to_bytes(entry))).read_all()
    about = json.loads(table.schema.metadata[b"trimtab"])
    change(about)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.replace_schema_metadata({b"trimtab": json.dumps(about).encode()}).schema) as file:
        file.write_table(table)
    return from_bytes(bytes(sink.getvalue()))


def test_a_log_from_before_the_intake_is_replayed() -> None:
    seen = Observation.of_events(0, PLACEMENT, UNEVEN)
    entry = Entry(seen, Coordinator(BALANCE).step(seen), BALANCE, None, 1.0, is_first=True)

    def change(about: dict[str, Any]) -> None:
        assert about.pop("intake") is None
        assert "intake" not in about["decision"], "older builds read it as well"

    (one,) = replay([as_older(entry, change)])
    assert agrees(one)
    assert one.entry.intake is None


def test_a_log_from_before_machine_code_was_noted_is_replayed() -> None:
    def change(about: dict[str, Any]) -> None:
        del about["intake"]["observed"]["is_plain"]
        del about["intake"]["state"]["is_plain"], about["intake"]["state"]["plain_s"]

    assert all(agrees(one) for one in replay(as_older(entry, change) for entry in a_log(12)))


def test_the_balancer_has_a_limit_from_the_start_and_logs_what_it_knew(tmp_path: pathlib.Path) -> None:
    folder = Folder(str(tmp_path))
    balancer = Balancer(Coordinator(None, intake=HALF_A_SECOND), folder)
    assert balancer.limit is not None
    assert balancer.limit.rows == 10_000
    rows = []
    for batch in range(5):
        balancer.consider(observed(batch, balancer.limit.rows))
        while balancer.latest is None or balancer.latest.batch < batch:
            assert balancer.changed(PLACEMENT) == PLACEMENT
        rows.append(balancer.limit.rows)
    balancer.stop()
    assert rows == sorted(set(rows))
    log = list(decision_log.read(folder))
    assert [entry.decision.intake.rows for entry in log if entry.decision.intake is not None] == rows
    assert [entry.intake_state.batches for entry in log if entry.intake_state is not None] == [0, 1, 2, 3, 4]
    assert all(agrees(one) for one in replay(log))


@pytest.mark.parametrize(
    ("shares", "is_same"),
    [
        ({"x": 0.3 + 1e-12, "y": 0.7 - 1e-12}, True),  # of another processor
        ({"x": 0.4, "y": 0.6}, False),
        ({"x": 0.3, "z": 0.7}, False),
        ({"x": 0.3}, False),
        ({"x": 0.3, "y": 0.7, "z": 0.0}, False),
    ],
)
def test_shares_of_the_reading_agree_but_for_their_last_digits(shares: dict[str, float], is_same: bool) -> None:
    (entry,) = a_log(1)
    limit = entry.decision.intake
    assert limit is not None
    entry = replace(entry, decision=replace(entry.decision, intake=replace(limit, shares=shares)))
    decided = replace(entry.decision, intake=replace(limit, shares={"x": 0.3, "y": 0.7}))
    assert agrees(Replayed(entry, entry.observed, decided)) is is_same


def test_another_start_goes_on_from_the_log_if_it_holds_the_same_and_is_replayed(tmp_path: pathlib.Path) -> None:
    folder = Folder(str(tmp_path))
    for batch, entry in enumerate(a_log(15)):
        decision_log.write(folder, replace(entry, observed=replace(entry.observed, batch=batch)))
    balancer = Balancer(Coordinator(None, intake=HALF_A_SECOND), folder)
    assert balancer.limit is not None
    first = balancer.limit.rows
    assert first == pytest.approx(200_000, rel=0.01)
    balancer.consider(observed(15, first))
    balancer.changed(PLACEMENT)
    balancer.stop()
    log = list(decision_log.read(folder))
    assert [entry.is_first for entry in log] == [True, *[False] * 14, True]
    assert all(agrees(one) for one in replay(log))
    for other in (Coordinator(None, intake=Intake(batch_s=0.4)), Coordinator(None, intake=HALF_A_SECOND, interval_s=2)):
        balancer = Balancer(other, folder)
        balancer.stop()
        assert balancer.limit is not None
        assert balancer.limit.rows == 10_000


def test_a_start_does_without_a_log_that_is_damaged(tmp_path: pathlib.Path) -> None:
    (tmp_path / "000000000007.arrow").write_bytes(b"?")
    balancer = Balancer(Coordinator(None, intake=HALF_A_SECOND), Folder(str(tmp_path)))
    balancer.stop()
    assert balancer.limit is not None
    assert balancer.limit.rows == 10_000
