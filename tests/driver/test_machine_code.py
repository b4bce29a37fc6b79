"""Machine code that a driver requests for its engines, and a host of another kind for itself. No Spark, no compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from trimtab.driver.machine_code import StreamMachineCode
from trimtab.machine_code import missing, shelf
from trimtab.machine_code.compiler import Requested
from trimtab.machine_code.missing import Note
from trimtab.machine_code.shelf import Entry, Folder, Offer, digest_of
from trimtab.worker import foreign_host as foreign
from trimtab.worker.foreign_host import foreign_host
from trimtab.worker.orders import EngineReport
from trimtab.worker.ready import warm_engines

NOTE = Note(("module", "function"), (0,))
ENTRY, CODE = Entry("module.function", "00ff"), b"machine code"
PLAN = b"a pickled plan"


@dataclass
class Asked:
    """A compiler that only records requests, and answers when the test calls `done`."""

    requests: list[tuple[str, Any]] = field(default_factory=list)
    done: list[Callable[..., None]] = field(default_factory=list)

    def ask(self, function: Callable[[Any], None], argument: Any, done: Callable[..., None]) -> None:
        self.requests.append((function.__name__, argument))
        self.done.append(done)


@dataclass(frozen=True)
class SentValue:
    value: Any


@pytest.fixture(autouse=True)
def own_shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    monkeypatch.setattr(shelf, "cache", lambda: folder)
    monkeypatch.setattr(shelf, "installed", lambda: Folder(tmp_path / "installed"))
    missing.take_notes()


def report(**parts: Any) -> EngineReport:
    return EngineReport(0, **parts)


def stream(compiler: Any, *, warm: bool = True) -> StreamMachineCode:
    return StreamMachineCode(compiler, PLAN, SentValue, warm=warm)


def test_a_warm_job_requests_everything_at_once_and_offers_nothing_before_it_is_compiled() -> None:
    compiler = Asked()
    made = stream(compiler)
    assert compiler.requests == [("warm_engines", PLAN)]
    assert made.offer().digests == {}
    shelf.cache().write(ENTRY, CODE)
    compiler.done[0]({ENTRY: digest_of(CODE)}, True)
    offer = made.offer()
    assert offer.digests == {ENTRY: digest_of(CODE)}
    assert offer.codes == SentValue({ENTRY: CODE})
    assert made.offer() is offer  # sent once


def test_a_job_that_is_not_warm_requests_what_engines_missed_and_only_once() -> None:
    compiler = Asked()
    made = stream(compiler, warm=False)
    assert compiler.requests == []
    assert made.take_reports([report(missed=(NOTE,)), report(missed=(NOTE,))])
    assert made.take_reports([report(missed=(NOTE,))])
    assert not made.take_reports([report()])
    assert compiler.requests == [("compile_noted", (NOTE,))]


def test_what_the_driver_itself_missed_is_requested_too() -> None:
    compiler = Asked()
    made = stream(compiler, warm=False)
    missing.want(("module", "function"), (0,))
    made.take_reports([])
    assert compiler.requests == [("compile_noted", (NOTE,))]


def test_what_a_foreign_host_made_is_offered_by_digest_only() -> None:
    made = stream(Asked())
    made.take_reports([report(made={ENTRY: digest_of(CODE)})])
    offer = made.offer()
    assert offer.digests == {ENTRY: digest_of(CODE)}
    assert offer.codes == SentValue({})


def test_a_host_of_another_kind_requests_the_plan_and_what_was_missed_only_once() -> None:
    compiler = Asked()
    host = Requested(compiler)  # type: ignore[arg-type]
    for _ in range(2):
        host.ask(warm_engines, PLAN)
        host.ask_noted((NOTE,))
    assert compiler.requests == [("warm_engines", PLAN), ("compile_noted", (NOTE,))]
    assert host.made() == {}
    compiler.done[0]({ENTRY: digest_of(CODE)}, True)
    assert host.made() == {ENTRY: digest_of(CODE)}


def test_only_one_process_of_a_host_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("_here", "_held"):
        monkeypatch.setattr(foreign, each, [])
    first = foreign_host()
    assert first is not None
    assert foreign_host() is first
    monkeypatch.setattr(foreign, "_here", [])  # as in another process, which has no lock
    assert foreign_host() is None
    for lock in foreign._held:
        lock.close()


def test_an_offer_knows_whether_it_is_for_processors_like_this_one() -> None:
    assert not Offer().is_foreign
    assert Offer(processor="another").is_foreign
