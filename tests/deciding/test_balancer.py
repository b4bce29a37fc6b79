"""The balancer goes on deciding, whatever fails beside it, and no batch waits for a decision that never comes."""

from __future__ import annotations

import pathlib
import threading
import time
from concurrent.futures import wait
from dataclasses import replace

import pytest

from tests.deciding.test_decision_log import an_entry
from trimtab.deciding import decision_log
from trimtab.deciding.balancer import HOLD_S, MAX_WAITING, Balancer
from trimtab.deciding.coordinator import Coordinator, Decision, Limited
from trimtab.deciding.observation import Observation
from trimtab.deciding.policy import Balance
from trimtab.state.files import Folder


class Faulty(Coordinator):
    """A coordinator whose `placed` raises a given error, and whose planner can't be loaded."""

    def __init__(self, balance: Balance | None, *, fault: BaseException | None = None) -> None:
        super().__init__(balance)
        self.fault = fault

    def placed(self, observed: Observation, limited: Limited) -> Decision:
        if self.fault is not None:
            raise self.fault
        return super().placed(observed, limited)

    def warm(self) -> None:
        raise OSError("no space left on device")


@pytest.mark.parametrize("fault", [ZeroDivisionError("in a planner"), SystemExit(3), TimeoutError("slow")])
def test_a_decision_that_fails_is_reported_once_and_the_next_one_is_made(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, fault: BaseException
) -> None:
    entry = an_entry()
    Coordinator(entry.balance).warm()
    coordinator = Faulty(entry.balance, fault=fault)
    balancer = Balancer(coordinator, Folder(str(tmp_path / "log")))
    placement = entry.observed.placement
    for batch in range(3):
        balancer.consider(replace(entry.observed, batch=batch))
        wait([balancer._pending[0].decision], 10.0)
        assert balancer.changed(placement) == placement
    assert caplog.text.count("the coordinator failed, and nothing moves") == 1
    assert balancer.latest is not None
    assert balancer.latest.reason.startswith("the coordinator failed, and nothing moves: ")
    coordinator.fault = None
    balancer.consider(entry.observed)
    wait([balancer._pending[0].decision], 10.0)
    assert balancer.changed(placement) != placement, "it goes on deciding"
    balancer.stop()


def test_a_log_that_raises_anything_does_not_end_the_balancer(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = an_entry()
    Coordinator(entry.balance).warm()

    def write(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(decision_log, "write", write)
    balancer = Balancer(Coordinator(entry.balance), Folder(str(tmp_path / "log")))
    for batch in range(3):
        balancer.consider(replace(entry.observed, batch=batch))
        wait([balancer._pending[0].decision], 10.0)
        balancer.changed(entry.observed.placement)
        assert balancer.latest is not None
        assert balancer.latest.batch == batch
        assert not balancer._pending
    balancer.stop()
    assert caplog.text.count("is missing in the coordinator's log") == 1


def test_a_planner_that_cannot_be_loaded_leaves_the_plain_one(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = an_entry()
    balancer = Balancer(Faulty(entry.balance), Folder(str(tmp_path / "log")), NeverCompiles())  # type: ignore[arg-type]
    balancer._compiled({}, True)
    balancer.consider(entry.observed)
    wait([balancer._pending[0].decision], 10.0)
    assert balancer.changed(entry.observed.placement) != entry.observed.placement
    assert "the compiled planner can't be loaded" in caplog.text
    balancer.stop()


class NeverCompiles:
    """A compiler that never answers."""

    def ask(self, *_: object) -> None:
        pass


def test_no_batch_waits_again_for_a_decision_that_was_late_and_few_batches_wait_at_once(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry, hold = an_entry(), threading.Event()
    balancer = Balancer(Coordinator(entry.balance), Folder(str(tmp_path / "log")))

    def loading() -> None:
        hold.wait(60)

    balancer._work.put(loading)
    waited = []
    for batch in range(MAX_WAITING + 5):
        balancer.consider(replace(entry.observed, batch=batch))
        began = time.perf_counter()
        balancer.changed(entry.observed.placement)
        waited.append(time.perf_counter() - began)
    hold.set()
    balancer.stop()
    assert waited[0] >= HOLD_S * 0.9
    assert sum(waited[1:]) < HOLD_S, "only the first batch waited"
    assert len(balancer._pending) == MAX_WAITING
    assert caplog.text.count("wait for a decision") == 1
