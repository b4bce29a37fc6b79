"""Where experiments run their jobs: a driver process for each place, started once, and ended in any case."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from trimtab.errors import BalanceError
from trimtab_lab.elastic.orders import Order, Outcome, Place, order_to_json, outcome_from_json
from trimtab_lab.live.processes import MARK, end_all, new_mark

POLL_S = 0.05
END_S = 10.0
"""How long a driver may take to end by itself."""


@cache
def outcome_of(place: Place, order: Order) -> Outcome:
    """The outcome of an order; a process runs the same order only once.

    Raises BalanceError `lab.driver` if the run fails.
    """
    return _driver(place).run(order)


def close_drivers() -> None:
    """End all driver processes with their clusters; outcomes stay."""
    while _drivers:
        _drivers.popitem()[1].close()


def _driver(place: Place) -> Driver:
    if not _drivers:
        atexit.register(close_drivers)
    if place not in _drivers:
        _drivers[place] = Driver(place)
    return _drivers[place]


_drivers: dict[Place, Driver] = {}


class Driver:
    """A driver process, and the folder with its answers."""

    def __init__(self, place: Place) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trimtab-driver-"))
        self.mark, self._orders = new_mark(), 0
        self._log = self.folder / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trimtab_lab.elastic.driver", place.value, self.mark],
                env={
                    **os.environ,
                    MARK: self.mark,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "TMPDIR": str(self.folder),  # its temporary files are removed with the folder, also if it is killed
                },
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def run(self, order: Order) -> Outcome:
        """Send an order and wait for its outcome."""
        answer = self.folder / f"{self._orders}.json"
        self._orders += 1
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # handled below
            self._process.stdin.write(json.dumps({"order": order_to_json(order), "file": str(answer)}) + "\n")
            self._process.stdin.flush()
        while not answer.exists():
            if self._process.poll() is not None:
                log_end = self._log_end()
                close_drivers()  # the next order starts a new one
                raise self._failed("the process that runs jobs on Spark ended", log_end)
            time.sleep(POLL_S)
        found = json.loads(answer.read_text(encoding="utf-8"))
        if "error" in found:
            raise self._failed("a job of an experiment failed", found["error"])
        return outcome_from_json(found["outcome"])

    def close(self) -> None:
        """End the process with its cluster and everything that it started."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        end_all(self.mark)
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _log_end(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    @staticmethod
    def _failed(message: str, details: str) -> BalanceError:
        hint = "experiments on Spark need trimtab[spark], Java 17 or newer, and a machine with Linux's /proc"
        return BalanceError("lab.driver", f"{message}:\n{details}", hint)
