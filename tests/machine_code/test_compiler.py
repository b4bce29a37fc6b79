from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from tests.machine_code.kernels_to_test import die, fail, use_all
from trimtab.machine_code import shelf
from trimtab.machine_code.compiler import Compiler
from trimtab.machine_code.shelf import Entry, Folder

pytestmark = pytest.mark.slow  # starts processes

PATIENCE_S = 120


class Answers:
    """Receives answers, and lets a test wait for them."""

    def __init__(self) -> None:
        self.made: list[dict[Entry, bytes]] = []
        self.went_well: list[bool] = []
        self._came = threading.Semaphore(0)

    def take(self, made: dict[Entry, bytes], went_well: bool) -> None:
        self.made.append(made)
        self.went_well.append(went_well)
        self._came.release()

    def wait(self) -> None:
        assert self._came.acquire(timeout=PATIENCE_S)


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    cache = Folder(tmp_path)
    monkeypatch.setattr(shelf, "cache", lambda: cache)
    return Compiler()


def test_what_a_function_uses_is_compiled_in_another_process(compiler: Compiler) -> None:
    answers = Answers()
    compiler.ask(use_all, None, answers.take)
    answers.wait()
    assert answers.went_well == [True]
    ((entry, digest),) = answers.made[0].items()
    code = shelf.cache().read(entry)
    assert code is not None
    assert shelf.digest_of(code) == digest
    compiler.stop()


def test_another_stream_gets_what_was_compiled_for_one_before(compiler: Compiler) -> None:
    answers = Answers()
    compiler.ask(use_all, None, answers.take)
    compiler.ask(use_all, None, answers.take)
    answers.wait()
    answers.wait()
    assert answers.made[0]
    assert answers.made[1] == answers.made[0]
    compiler.stop()


def test_a_failure_is_logged_and_later_requests_are_done(compiler: Compiler, caplog: pytest.LogCaptureFixture) -> None:
    answers = Answers()
    compiler.ask(fail, None, answers.take)
    compiler.ask(use_all, None, answers.take)
    answers.wait()
    answers.wait()
    assert answers.went_well == [False, True]
    assert caplog.text.count("RuntimeError: on purpose") == 1
    compiler.stop()


def test_the_death_of_the_process_is_logged_once(compiler: Compiler, caplog: pytest.LogCaptureFixture) -> None:
    answers, ended = Answers(), threading.Event()
    caplog.set_level(logging.WARNING)
    compiler.ask(die, None, answers.take)
    for _ in range(PATIENCE_S * 10):
        if compiler.is_broken:
            break
        ended.wait(0.1)
    compiler.ask(use_all, None, answers.take)
    assert compiler.is_broken
    assert not compiler._waiting
    assert answers.made == []
    assert caplog.text.count("status 7") == 1
