"""On which executor a Python worker runs. Spark doesn't tell its Python tasks; the executor's command line does."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

DRIVER = "driver"
"""Where tasks run on `local[n]`."""
_GENERATIONS = 4
"""A worker's parent is the daemon that forked it, whose parent is the executor; some start it through a shell."""


@cache
def this_executor() -> str:
    """Spark's id of the executor that this process works for, or the name of the machine and of a process there.

    On standalone clusters, YARN and Kubernetes an executor is started with `--executor-id`. Where processes can't be
    looked at, the daemon that all of an executor's workers come from stands for it: also one for each executor.
    """
    try:
        return _told_by_ancestors(os.getppid(), Path("/proc"))
    except OSError:
        return os.environ.get("SPARK_EXECUTOR_ID") or f"{socket.gethostname()}:{os.getppid()}"


def _told_by_ancestors(pid: int, processes: Path) -> str:
    for _ in range(_GENERATIONS):
        words = (processes / str(pid) / "cmdline").read_text(errors="replace").split("\0")
        if "--executor-id" in words[:-1]:
            return words[words.index("--executor-id") + 1]
        # The name before it is in brackets, and may have blanks.
        parent = (processes / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        if parent == "0":
            break
        pid = int(parent)
    return DRIVER
