"""Run experiments: one after the other in this process, or several at a time in other processes.

With a process for each, an experiment's memory, random state or crash doesn't affect the next one. Processes are
started by "spawn", because forking a process in which Numba or a solver has threads is not safe.
"""

from __future__ import annotations

import datetime
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from trimtab.errors import BalanceError, TrimtabError
from trimtab_lab.catalogue import experiments
from trimtab_lab.drawing import picture
from trimtab_lab.experiment import Experiment, Scale, Settings
from trimtab_lab.files import write_picture, write_record
from trimtab_lab.machine import commit, machine, versions
from trimtab_lab.record import Conditions, Record, record_of

NEWS_SHARE, NEWS_S = 0.01, 0.1


@dataclass(frozen=True, slots=True)
class Order:
    """What to run: which experiment of which modules, how much of it, and where its files go."""

    id: str
    modules: tuple[str, ...]
    scale: Scale
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Started:
    """An experiment has begun."""

    id: str


@dataclass(frozen=True, slots=True)
class Moved:
    """An experiment has made progress: `done` is from 0 to 1."""

    id: str
    done: float
    note: str


@dataclass(frozen=True, slots=True)
class Found:
    """An experiment has ended; `note` says what is missing from its files."""

    id: str
    record: Record
    files: tuple[Path, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """An experiment failed, which says nothing about its claim."""

    id: str
    message: str


Happening = Started | Moved | Found | Failed


def run_here(orders: Sequence[Order], report: Callable[[Happening], None]) -> None:
    """Run them in this process, one after the other."""
    for order in orders:
        report(Started(order.id))
        report(_outcome(order, report))


def run_apart(orders: Sequence[Order], jobs: int, alone: Sequence[str], report: Callable[[Happening], None]) -> None:
    """Run up to `jobs` of them at a time, each in its own process; those named in `alone` come last, one by one.

    When this function ends, also by an error, the processes are ended too.
    """
    _run_some([order for order in orders if order.id not in alone], jobs, report)
    _run_some([order for order in orders if order.id in alone], 1, report)


def _run_some(orders: Sequence[Order], jobs: int, report: Callable[[Happening], None]) -> None:
    waiting = list(reversed(orders))
    running: dict[Connection, tuple[BaseProcess, str]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                order = waiting.pop()
                running |= _start(order)
                report(Started(order.id))
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                process, id_ = running[ready]
                happening = _received(ready, process, id_)
                report(happening)
                if isinstance(happening, Found | Failed):
                    process.join()
                    ready.close()
                    del running[ready]
    finally:
        for process, _ in running.values():
            process.terminate()
            process.join()


def _start(order: Order) -> dict[Connection, tuple[BaseProcess, str]]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_in_process, args=(order, there), daemon=True)
    process.start()
    there.close()  # so that the end of the process closes the connection
    return {here: (process, order.id)}


def _received(ready: Connection, process: BaseProcess, id_: str) -> Happening:
    try:
        happening: Happening = ready.recv()
    except EOFError:
        process.join()
        return Failed(id_, f"its process ended with status {process.exitcode} (-9: out of memory, or killed)")
    return happening


def _in_process(order: Order, there: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one ends the others
    there.send(_outcome(order, there.send))


def _outcome(order: Order, report: Callable[[Happening], None]) -> Found | Failed:
    """Run, judge, write, draw."""
    try:
        experiment = experiments(order.modules)[order.id]
        settings = Settings(scale=order.scale, seed=order.seed, progress=_progress(order.id, report))
        return _run(experiment, settings, order.folder)
    except TrimtabError as error:
        return Failed(order.id, str(error))
    except Exception:  # one that fails must not end the others
        return Failed(order.id, traceback.format_exc())


def _run(experiment: Experiment, settings: Settings, folder: Path) -> Found:
    conditions = Conditions(
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        commit=commit(),
        versions=versions(),
        machine=machine(),
    )
    begin = time.perf_counter()
    results = experiment.run(settings)
    seconds = time.perf_counter() - begin
    record = record_of(experiment, settings, results, experiment.holds(results), conditions, seconds)
    files: tuple[Path, ...] = (write_record(record, folder),)
    try:
        png, svg = picture(experiment, results)
    except BalanceError as error:
        if error.code != "lab.matplotlib":
            raise
        return Found(experiment.id, record, files, f"{error.message}: {error.hint}")
    return Found(experiment.id, record, files + write_picture(experiment.id, png, svg, folder))


def _progress(id_: str, report: Callable[[Happening], None]) -> Callable[[float, str], None]:
    """A callback that reports progress of at least a hundredth, or after at least a tenth of a second."""
    told_done, told_s = -1.0, 0.0

    def progress(done: float, note: str) -> None:
        nonlocal told_done, told_s
        done, now_s = min(max(float(done), 0.0), 1.0), time.monotonic()
        if done - told_done >= NEWS_SHARE or now_s - told_s >= NEWS_S:
            told_done, told_s = done, now_s
            report(Moved(id_, done, note))

    return progress
