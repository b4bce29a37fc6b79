"""A search says how far it came, and loses nothing that it found."""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from tests import search
from tests.support.driver_laws import JOBS, count_jobs, main

FINDS_AN_EXAMPLE = "import pathlib, time; at = pathlib.Path('.hypothesis/examples'); at.mkdir(); (at / 'x').touch()"


@pytest.fixture(autouse=True)
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ends(code: str, *, grace_s: float = 30.0) -> int | None:
    return search.run_round([sys.executable, "-c", code], left_s=2.0, grace_s=grace_s)


def test_a_round_gives_its_status() -> None:
    assert search.run_round([sys.executable, "-c", "raise SystemExit(5)"], left_s=60.0) == 5


def test_a_round_that_has_found_nothing_is_stopped_when_the_time_is_over(capfd: pytest.CaptureFixture[str]) -> None:
    assert ends("import time; time.sleep(100)") is None
    assert capfd.readouterr().out == ""


def test_a_round_that_has_found_an_example_may_make_it_small(capfd: pytest.CaptureFixture[str]) -> None:
    assert ends(f"{FINDS_AN_EXAMPLE}; time.sleep(4); raise SystemExit(1)") == 1
    assert "the time is over, but an example fails" in capfd.readouterr().out


def test_an_example_that_does_not_get_small_in_time_is_still_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    assert ends(f"{FINDS_AN_EXAMPLE}; time.sleep(100)", grace_s=0.1) == search.STOPPED
    assert "stopped before it was small" in capfd.readouterr().out


def test_a_search_says_in_which_round_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = iter([0, 0, None])
    monkeypatch.setattr(search, "run_round", lambda *_: next(statuses))
    assert search.search(5.0, ["tests"]) == 0
    assert capsys.readouterr().out.endswith("nothing found in 5 minutes: 2 whole rounds, stopped in round 3\n")


@pytest.mark.parametrize("limit", [1000, None])
def test_an_example_that_fails_is_in_the_database_before_it_is_small_and_no_other(limit: int | None) -> None:
    tried: dict[int, bool] = {}

    @settings(database=DirectoryBasedExampleDatabase(search.EXAMPLES), phases=tuple(Phase))
    @given(st.integers(0))
    def law(number: int) -> None:
        tried.setdefault(number, bool(search._examples()))
        assert limit is None or number < limit

    with nullcontext() if limit is None else pytest.raises(AssertionError):
        law()
    assert any(tried.values()) == (limit is not None)


def test_a_round_is_told_when_a_test_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(search.FAILED, str(tmp_path / "failed"))
    for outcome in ("passed", "failed"):
        search.pytest_runtest_logreport(
            pytest.TestReport("test_law", ("test_laws.py", 1, "test_law"), {}, outcome, None, "call")
        )
        assert (tmp_path / "failed").exists() == (outcome == "failed")


def test_jobs_are_counted_until_the_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    found = {3: "q0 differs: SELECT 1", 4: "error", 5: "raised KeyError: 'k'"}
    endless = ((seed, found.get(seed, "")) for seed in itertools.count())
    assert count_jobs(endless, time.monotonic() + 0.2) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["seed 3: q0 differs: SELECT 1", "seed 5: raised KeyError: 'k'"]
    assert printed[-1] == "seeds that differ: 3, 5"
    assert int(printed[-2].split(" jobs in ")[0]) % JOBS == 0
    assert "a minute: {'agree': " in printed[-2]


def test_jobs_that_agree_are_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert count_jobs([(1, ""), (2, "error"), (3, "")]) == 0
    assert capsys.readouterr().out.startswith(f"{2 * JOBS} jobs in 0 s")


@pytest.mark.slow
def test_new_seeds_are_drawn_for_as_long_as_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--minutes", "0.01", "--seed", "7"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "seeds from 7 on, for 0.01 minutes"
    assert " jobs in " in printed[1]
