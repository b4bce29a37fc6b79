"""Avoids two pauses that Spark's Python workers would otherwise make in every task, longer than many tasks themselves.

- **Garbage.** Spark has a worker collect all garbage after every task. That looks at every object in the process: with
  the libraries that engines use it took 90 ms, in which the worker could not begin its next task. What survives a long
  collection is left out of those that follow: modules, classes and kernels, which stay anyway.
- **Acknowledgements.** Spark sends a task and the end of its input in pieces over a local connection. Java holds back
  the second piece until the first one is acknowledged, and Linux waits 40 ms with that, hoping for an answer to send it
  along with. A task says that it shouldn't wait. With the setting
  `spark.python.unix.domain.socket.enabled` there is no such wait.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
import time
from contextlib import suppress
from typing import Any

LONG_S = 0.005
"""What survives a full collection that takes longer than this is left out of later ones."""
_OLDEST = 2
_OPEN_FILES = "/proc/self/fd"
_began_s = 0.0


def avoid_pauses() -> None:
    """Called by each task before it reads its input."""
    if _watch not in gc.callbacks:
        gc.callbacks.append(_watch)
    if hasattr(socket, "TCP_QUICKACK"):  # Linux
        _acknowledge_at_once()


def _watch(phase: str, about: dict[str, Any]) -> None:
    """Leave what survived a long collection out of later ones; it is still freed when nothing refers to it any more."""
    global _began_s
    if about["generation"] != _OLDEST:
        return
    if phase == "start":
        _began_s = time.perf_counter()
    elif time.perf_counter() - _began_s > LONG_S:
        gc.freeze()


def _acknowledge_at_once() -> None:
    """Acknowledge on all connections of this process what has come; Linux forgets the setting after a while."""
    if socket.getdefaulttimeout() is not None:
        return  # Python would make connections that it looks at wait no longer than that
    with suppress(OSError):  # without /proc there are pauses
        for name in os.listdir(_OPEN_FILES):
            with suppress(OSError):  # closed meanwhile
                if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                    _acknowledge(int(name))


def _acknowledge(number: int) -> None:
    with socket.socket(fileno=os.dup(number)) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
