"""Measuring times: repeated, and interleaved with what they are compared with, so that a busy machine slows both."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from trimtab.engine.match.kernels import generated as kernels

Task = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one task, one per round, and the rows that it processes in each."""

    seconds: tuple[float, ...]
    rows: int

    @property
    def median_s(self) -> float:
        """The median time."""
        return statistics.median(self.seconds)


def interleaved(tasks: Mapping[str, Task], *, rows: int, rounds: int) -> dict[str, Timing]:
    """Run the tasks one after another, `rounds` times, and return the times of each."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            seconds[name].append(seconds_of(task))
    return {name: Timing(tuple(times), rows) for name, times in seconds.items()}


def repeated(task: Task, *, rows: int, rounds: int) -> Timing:
    """The times of one task."""
    return interleaved({"": task}, rows=rows, rounds=rounds)[""]


def seconds_of(task: Task) -> float:
    """How long the task takes once."""
    gc.collect()
    began = time.perf_counter()
    kept = task()
    ended = time.perf_counter()
    del kept  # only now: freeing the result isn't timed
    return ended - began


def use_one_core() -> str:
    """Keep this process on one core, with its libraries at one thread; return how that was done."""
    from trimtab.rowwise.duck import connection

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    connection().execute("SET threads=1")
    how = "pyarrow and DuckDB at one thread; trimtab, NumPy's part in it and one bytewax worker have one by nature"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        how = f"the process is pinned to one core; {how}"
    return how


@contextmanager
def loading(load: Callable[[str, int], kernels.Runnable | None]) -> Iterator[None]:
    """Inside the block, kernels are loaded by `load`, whatever the number of rows."""
    before = kernels.load
    kernels.load = load  # type: ignore[assignment]  # its parameters have no names here
    try:
        yield
    finally:
        kernels.load = before


def compiled(source: str, _rows: int) -> kernels.Runnable:
    """Machine code for any number of rows, as in a process that has had many rows before."""
    return kernels.compiled(source)


def interpreted(_source: str, _rows: int) -> None:
    """Plain Python for any number of rows, as in a process that has had only few rows."""
