"""Where experiments have their jobs run: a driver process for each place, started once, ended whatever happens."""

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
"""How long a driver has to end by itself."""


@cache
def outcome_of(place: Place, order: Order) -> Outcome:
    """What comes of an order; in one process the same order is carried out once.

    Raises BalanceError `lab.driver` if it can't be.
    """
    return _driver(place).run(order)


def close_drivers() -> None:
    """End the processes that there are, with their clusters; outcomes stay."""
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
    """A driver process, and the folder that its answers are in."""

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
                    "TMPDIR": str(self.folder),  # what it leaves goes with it, also if it is killed
                },
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def run(self, order: Order) -> Outcome:
        """Have an order carried out."""
        answer = self.folder / f"{self._orders}.json"
        self._orders += 1
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # found below
            self._process.stdin.write(json.dumps({"order": order_to_json(order), "file": str(answer)}) + "\n")
            self._process.stdin.flush()
        while not answer.exists():
            if self._process.poll() is not None:
                said = self._said()
                close_drivers()  # the next order has another one
                raise self._failed("the process that runs jobs on Spark ended", said)
            time.sleep(POLL_S)
        told = json.loads(answer.read_text(encoding="utf-8"))
        if "error" in told:
            raise self._failed("a job of an experiment failed", told["error"])
        return outcome_from_json(told["outcome"])

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

    def _said(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    @staticmethod
    def _failed(message: str, said: str) -> BalanceError:
        hint = "experiments on Spark need trimtab[spark], Java 17 or newer, and a machine with Linux's /proc"
        return BalanceError("lab.driver", f"{message}:\n{said}", hint)
