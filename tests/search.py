"""Look for what breaks a law, with new examples, for `--minutes`: `python -m tests.search --minutes 10`.

Half of the time goes to random jobs without Spark (`tests.support.driver_laws`), which are counted. In the other half
Hypothesis draws other examples in every round. What fails is made small before it is shown, and is tried first from
then on: its database is `.hypothesis/`. If the time is over while something is made small, it gets some minutes more.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

EXAMPLES = Path(".hypothesis/examples")
GRACE_S = 240.0
"""How much longer a round may take that has found something."""
FAILED = "TRIMTAB_SEARCH_FAILED"
"""An environment variable: the file that a round makes as soon as a test fails."""
STOPPED = 1


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the process that runs a test: this module is one of its plugins."""
    if report.failed and FAILED in os.environ:
        Path(os.environ[FAILED]).touch()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run jobs for half of the time, then rounds until it is over or something is found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("where", nargs="*", help="files or folders of tests; by default all of them, and random jobs")
    asked = options.parse_args(arguments)
    if asked.where:
        return search(asked.minutes, asked.where)
    half = asked.minutes / 2
    jobs = subprocess.run([sys.executable, "-m", "tests.support.driver_laws", f"--minutes={half}"], check=False)
    return search(half, ["tests", "lab/tests"]) or jobs.returncode


def search(minutes: float, where: Sequence[str]) -> int:
    """Run rounds of the laws in these files; returns the status of the one that failed."""
    until = time.monotonic() + 60 * minutes
    rounds = 0
    while (left_s := until - time.monotonic()) > 0:
        seed = random.randrange(1 << 32)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "tests.search"]
        command += ["-m", "hypothesis and unit", f"--hypothesis-seed={seed}", *where]
        _say(f"round {rounds + 1}, seed {seed}, {left_s / 60:.1f} minutes left")
        status = run_round(command, left_s)
        if status is None:
            _say(f"nothing found in {minutes:g} minutes: {rounds} whole rounds, stopped in round {rounds + 1}")
            return 0
        if status != 0:
            return status
        rounds += 1
    _say(f"nothing found in {minutes:g} minutes: {rounds} whole rounds")
    return 0


def run_round(command: Sequence[str], left_s: float, grace_s: float = GRACE_S) -> int | None:
    """The status of a round; None: it was stopped because the time was over, and had found nothing.

    Hypothesis writes an example that fails to its database at once, and then makes it small.
    """
    failed = EXAMPLES.parent / f"failed-{os.getpid()}"
    before = _examples()

    def has_found() -> bool:
        return failed.exists() or bool(_examples() - before)

    environment = os.environ | {"TRIMTAB_SEARCH": "1", FAILED: str(failed.absolute())}
    EXAMPLES.parent.mkdir(exist_ok=True)
    process = subprocess.Popen(command, env=environment)
    try:
        return _status(process, left_s, grace_s, has_found)
    finally:
        process.kill()
        process.wait()
        failed.unlink(missing_ok=True)


def _status(
    process: subprocess.Popen[bytes], left_s: float, grace_s: float, has_found: Callable[[], bool]
) -> int | None:
    try:
        return process.wait(left_s)
    except subprocess.TimeoutExpired:
        if not has_found():
            return None
    _say(f"the time is over, but an example fails: up to {grace_s / 60:.1f} minutes more to make it small")
    try:
        return process.wait(grace_s)
    except subprocess.TimeoutExpired:
        _say(f"stopped before it was small: it is in {EXAMPLES}, and the next search tries it first")
        return STOPPED


def _examples() -> set[Path]:
    """The files of Hypothesis's database: nothing but examples that fail, as no test here has a target."""
    return {path for path in EXAMPLES.rglob("*") if path.is_file()}


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a command


if __name__ == "__main__":
    sys.exit(main())
