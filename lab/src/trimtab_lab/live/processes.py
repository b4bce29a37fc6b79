"""Processes by a mark in their environment: finds and ends everything that a test started, directly or not.

A mark is an environment variable that child processes inherit, so it finds also those that have left their parent's
process group or outlived it: Spark's JVMs, its executors and their Python workers. It reads `/proc`: Linux only.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "TRIMTAB_TEST_MARK"
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Process:
    """A process that runs now, or did a moment ago."""

    pid: int
    parent: int
    command: str
    is_busy: bool = False  # whether it was running or ready to run when it was read

    def kill(self, with_signal: signal.Signals = signal.SIGKILL) -> bool:
        """Send it a signal; False if it has ended."""
        try:
            os.kill(self.pid, with_signal)
        except ProcessLookupError:
            return False
        return True


def new_mark() -> str:
    """A unique mark."""
    return uuid.uuid4().hex


def marked(mark: str, part: str = "") -> list[Process]:
    """The processes with this mark that run, in order of their ids; only those with `part` in their command line."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with suppress(OSError):  # ended meanwhile, or another user's
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if part in command and state != "Z":
                found.append(Process(int(folder.name), int(parent), command, state == "R"))
    return sorted(found, key=lambda each: each.pid)


def end_all(mark: str, patience_s: float = 5.0) -> list[Process]:
    """End all processes with this mark, at first by SIGTERM; return those that were found."""
    there = marked(mark)
    for process in there:
        process.kill(signal.SIGTERM)
    if not await_end(mark, patience_s):
        # A process that dies may have started another one a moment before.
        while left := marked(mark):
            for process in left:
                process.kill()
            time.sleep(POLL_S)
    return there


def await_end(mark: str, patience_s: float) -> bool:
    """Wait until no process has this mark; False if some still do after that time."""
    until = time.monotonic() + patience_s
    while marked(mark):
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)
    return True
