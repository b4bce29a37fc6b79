"""Compiles machine code on a machine of another kind than the driver's, which can't run the driver's machine code.

One process of the machine does that, beside the stream, as the driver does for machines of its own kind. It reports
what it made to the driver by digest; with the next orders these digests reach all workers of the machine, which load
the code from their shared cache.
"""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from typing import IO

from trimtab.machine_code import shelf
from trimtab.machine_code.compile_process import compile_noted
from trimtab.machine_code.compiler import Compiler, shared_compiler
from trimtab.machine_code.shelf import Entry
from trimtab.machine_code.wanted import Note
from trimtab.worker.warming import warm_engines

LOCK = "compiling.lock"


class ForeignHost:
    """What this process has requested from its compiler, and what was compiled."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler, self._lock = compiler, threading.Lock()
        self._plans: set[str] = set()
        self._noted: set[Note] = set()
        self._made: dict[Entry, bytes] = {}

    def ask(self, plan_id: str, plan: bytes, notes: tuple[Note, ...]) -> None:
        """Request machine code for everything a plan may need, and for what ran as plain Python."""
        if plan_id not in self._plans:
            self._plans.add(plan_id)
            self._compiler.ask(warm_engines, plan, self._take)
        fresh = tuple(note for note in notes if note not in self._noted)
        if fresh:
            self._noted |= set(fresh)
            self._compiler.ask(compile_noted, fresh, self._take)

    def made(self) -> dict[Entry, bytes]:
        """Everything compiled so far, with digests."""
        with self._lock:
            return dict(self._made)

    def _take(self, made: dict[Entry, bytes], _is_all: bool) -> None:
        with self._lock:
            self._made |= made


def _locked(folder: Path) -> IO[str] | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


_here: list[ForeignHost] = []
_held: list[IO[str]] = []


def foreign_host() -> ForeignHost | None:
    """The one of this process; None: another process of this machine compiles."""
    if not _here:
        lock = _locked(shelf.cache().path)
        if lock is None:
            return None
        _held.append(lock)  # stays open, and therefore locked, until the process ends
        _here.append(ForeignHost(shared_compiler("engines")))
    return _here[0]
