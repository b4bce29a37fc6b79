"""Compiles machine code on a machine of another kind than the driver's, which can't run the driver's machine code.

One process of the machine does that, in the background, as the driver does for machines of its own kind. It reports
what it made to the driver by digest; with the next orders these digests reach all workers of the machine, which load
the code from their shared cache.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from trimtab.machine_code import shelf
from trimtab.machine_code.compiler import Requested, shared_compiler

LOCK = "compiling.lock"


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


_here: list[Requested] = []
_held: list[IO[str]] = []


def foreign_host() -> Requested | None:
    """What this process has requested and compiled; None: another process of this machine compiles."""
    if not _here:
        lock = _locked(shelf.cache().path)
        if lock is None:
            return None
        _held.append(lock)  # stays open, and therefore locked, until the process ends
        _here.append(Requested(shared_compiler("engines")))
    return _here[0]
