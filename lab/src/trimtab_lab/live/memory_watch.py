"""How much memory this process and all that it started use, looked at again and again beside a run. Linux only."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

LOOK_S = 2.0
"""A look takes some 50 ms of a core: the pages of a JVM are counted."""


@dataclass(frozen=True, slots=True)
class Used:
    """Megabytes that are in use, without those of files: by the driver (this process and Spark's JVM), by workers."""

    driver_mb: float
    workers_mb: float


class MemoryWatch:
    """Looks while it is entered; `now` is the last look."""

    def __init__(self) -> None:
        self.now = used_now()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.now = used_now()


def used_now(proc: Path = Path("/proc"), pid: int | None = None) -> Used:
    """What a process and its descendants use now; those that run Java count as the driver, too."""
    own = os.getpid() if pid is None else pid
    parents: dict[int, int] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    driver_kb = workers_kb = 0
    for each in parents:
        if not _is_under(each, own, parents):
            continue
        with suppress(OSError):
            kb = _anonymous_kb(proc / str(each))
            if each == own or (proc / str(each) / "comm").read_text().startswith("java"):
                driver_kb += kb
            else:
                workers_kb += kb
    return Used(driver_kb / 1024, workers_kb / 1024)


def _is_under(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == top:
            return True
        pid = parents.get(pid, 0)
    return False


def _anonymous_kb(process: Path) -> int:
    """Its share of memory that isn't a file's; what forks share is divided among them."""
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1])
    return 0
