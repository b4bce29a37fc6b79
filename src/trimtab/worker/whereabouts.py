"""On which executor a Python worker runs. Spark doesn't pass that to Python; the executor's command line has it."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

DRIVER = "driver"
"""Where tasks run on `local[n]`."""
_GENERATIONS = 4
"""How many ancestors to look at: a worker's parent is the daemon that forked it, whose parent is the executor; some
executors start the daemon through a shell."""


@cache
def this_executor() -> str:
    """Spark's id of the executor that this process works for, or the names of the machine and of the workers' daemon.

    On standalone clusters, YARN and Kubernetes an executor is started with `--executor-id`. If other processes can't be
    inspected, the daemon that forks an executor's workers represents it: each executor has exactly one.
    """
    try:
        return _executor_of_ancestors(os.getppid(), Path("/proc"))
    except OSError:
        return os.environ.get("SPARK_EXECUTOR_ID") or f"{socket.gethostname()}:{os.getppid()}"


def _executor_of_ancestors(pid: int, processes: Path) -> str:
    for _ in range(_GENERATIONS):
        words = (processes / str(pid) / "cmdline").read_text(errors="replace").split("\0")
        if "--executor-id" in words[:-1]:
            return words[words.index("--executor-id") + 1]
        # The parent's id comes after the process name, which is in brackets and may contain blanks.
        parent = (processes / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        if parent == "0":
            break
        pid = int(parent)
    return DRIVER
