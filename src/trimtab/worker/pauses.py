"""Avoids two pauses that Spark's Python workers would otherwise make in every task, longer than many tasks themselves.

- **Garbage.** Spark has a worker collect all garbage after every task. That looks at every object in the process: with
  the libraries that engines use it took 90 ms, in which the worker could not begin its next task. What has survived a
  long one when the next task begins is left out of those that follow: modules, classes and kernels, which stay anyway.
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
GROWTH = 1.25
"""When this many times as many objects are left out as survived the last look at all, all are looked at again: cycles
among them that nobody refers to any more are only found so. Python itself waits for such a growth, too."""
_OLDEST = 2
_OPEN_FILES = "/proc/self/fd"


def avoid_pauses() -> None:
    """Called by each task before it reads its input."""
    if _watch not in gc.callbacks:
        gc.callbacks.append(_watch)
    _watch.leave_out_survivors()
    if hasattr(socket, "TCP_QUICKACK"):  # Linux
        _acknowledge_at_once()


class _Watch:
    """Knows how long the last full collection took, and how many objects survived the last one that looked at all."""

    def __init__(self) -> None:
        self._began_s = self._took_s = 0.0
        self._survivors = 0

    def __call__(self, phase: str, about: dict[str, Any]) -> None:
        if about["generation"] != _OLDEST:
            return
        now_s = time.perf_counter()
        if phase == "start":
            self._began_s = now_s
        else:
            self._took_s = now_s - self._began_s

    def leave_out_survivors(self) -> None:
        """After a long collection, leave out of later ones what there is; it is freed when nothing refers to it.

        Only between tasks: the objects of a task would be left out, and cycles of them never freed.
        """
        if self._took_s <= LONG_S:
            return
        gc.freeze()
        if 0 < self._survivors * GROWTH < gc.get_freeze_count():
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._survivors = 0
        self._survivors = self._survivors or gc.get_freeze_count()
        self._took_s = 0.0


_watch = _Watch()


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
    duplicate = os.dup(number)
    try:
        connection = socket.socket(fileno=duplicate)
    except OSError:  # the number is that of a file by now
        os.close(duplicate)
        raise
    with connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
