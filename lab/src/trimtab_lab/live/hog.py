"""A CPU hog: a process that uses as much of one core as it can get, as in Xu (2005)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hog() -> Iterator[int]:
    """Let a hog run inside; its process id."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], stdin=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
