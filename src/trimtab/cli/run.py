"""`trimtab run`: run the job of a job file on Spark, and show how it goes."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live

from trimtab.cli.around_spark import spark_errors, stderr_to_file
from trimtab.cli.batch_lines import batch_line, summary
from trimtab.cli.before_spark import check_before_spark, slow_streams, unchecked
from trimtab.cli.job_build import SPARK, Backend, RunningJob, start
from trimtab.cli.job_file import read_job_file
from trimtab.cli.job_sections import JobFile
from trimtab.cli.live_view import render
from trimtab.cli.texts import duration_text, read_duration_s
from trimtab.driver.progress import BatchProgress, Progress
from trimtab.errors import JobError, TrimtabError, noted_as

POLL_S = 0.1
REDRAW_S = 0.25
STOPPED_AT_ONCE = 130  # the exit status that shells use for an interrupt


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "run",
        help="run a job on Spark, with a live view",
        description="Run the job that a file describes until its input ends or Ctrl-C, and show how it goes: a live "
        "view in a terminal, one line per batch elsewhere. docs/running.md describes the file.",
    )
    parser.add_argument("job", type=Path, help="the job file, such as job.toml")
    parser.add_argument("--check", action="store_true", help="check what can be checked without Spark, and end")
    parser.add_argument("--plain", action="store_true", help="one line per batch instead of the live view")
    parser.add_argument("--for", dest="duration", metavar="LENGTH", help="stop after this time, such as 30s or 5m")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, backend: Backend | None = None) -> int:
    """Check, build, start and watch a job; return the exit status."""
    for_s = None if options.duration is None else read_duration_s(options.duration)
    file = read_job_file(options.job, imports=not options.check)
    backend = backend or SPARK
    backend.check()
    check_before_spark(file)
    if options.check:
        _print_checked(options.job, file)
        return 0
    view = _view(file, plain=options.plain)
    if view.live is not None:  # the job logs it, too, but a live view hides its log
        _print_slow(file)
    print("starting Spark ...", flush=True)
    spark, log, requests = None, None, _StopRequests()
    with requests.counted(signal.SIGTERM):
        try:
            with spark_errors("the session"), nullcontext() if view.live is None else stderr_to_file() as log:
                spark = backend.session(file)
            # Spark's session has its own handler of interrupts, which cancels the batch under way.
            with requests.counted(signal.SIGINT), _as_job_errors():
                if requests.count:
                    print("asked to stop before the job was started", flush=True)
                else:
                    _watch(start(file, spark, backend.job), view, file, requests, for_s)
        except KeyboardInterrupt:
            print("stopped at once; the next run repeats the batch that was under way", file=sys.stderr)
            return STOPPED_AT_ONCE
        except Exception:
            if requests.count and not backend.is_alive(spark):  # the signal was sent to Java, too
                print("Spark was stopped at once; the next run repeats the batch that was under way", flush=True)
                return 0
            if log is not None:
                print(f"Spark's own log is {log}", file=sys.stderr)
            log = None  # so that it is kept
            raise
        finally:
            if spark is not None:
                with suppress(Exception):  # Java may be gone, and the job has ended in any case
                    spark.stop()
            if log is not None:
                log.unlink(missing_ok=True)
    return 0


def _print_checked(job: Path, file: JobFile) -> None:
    """Print what a check without mistakes found, and what it left out."""
    streams, queries = (", ".join(each.name for each in part) for part in (file.streams, file.queries))
    print(f"{job} is fine: streams {streams}; queries {queries}")
    _print_slow(file)
    if left := unchecked(file):
        print("not checked, because that takes Spark or the job's own code:", *left, sep="\n  ")


def _print_slow(file: JobFile) -> None:
    """Print which streams take longer than they need to, and why."""
    for told in slow_streams(file):
        print(told)


@contextmanager
def _as_job_errors() -> Iterator[None]:
    """Print the traceback of an exception that trimtab doesn't know, and raise it as a JobError `job.failed`."""
    try:
        yield
    except TrimtabError:
        raise
    except Exception as error:
        traceback.print_exception(error)
        message = f"the job failed: {type(error).__name__}: {error}"
        hint = "the batch under way is not committed; if the traceback is of trimtab's own code, please report it"
        raise noted_as(JobError("job.failed", message, hint), error) from error


@dataclass(slots=True)
class _StopRequests:
    """How often the user, or the system, asked the job to end."""

    count: int = 0

    @contextmanager
    def counted(self, number: signal.Signals) -> Iterator[None]:
        """Count a signal inside the block instead of ending the process; a second Ctrl-C does interrupt."""
        if threading.current_thread() is not threading.main_thread():  # only the main thread may have handlers
            yield
            return
        before = signal.signal(number, self._count)
        try:
            yield
        finally:
            signal.signal(number, before)

    def _count(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt


@dataclass(slots=True)
class _View:
    """Shows a job: `live` redraws a picture; without it every batch is printed as a line."""

    title: str
    live: Live | None
    clock: Callable[[], float] = time.monotonic
    note: str = "Ctrl-C stops after the batch"
    started_s: float = 0.0
    _printed: dict[str, int] = field(default_factory=dict)
    _drawn_s: float = float("-inf")

    def announce(self, note: str) -> None:
        """Show a note about the job at once."""
        self.note = note
        self._drawn_s = float("-inf")
        if self.live is None:
            print(note, flush=True)

    def update(self, progress: Progress, history: Sequence[BatchProgress]) -> None:
        """Show the job's progress."""
        for batch in history if self.live is None else ():
            if batch.batch > self._printed.get(batch.stream, -1):
                self._printed[batch.stream] = batch.batch
                print(batch_line(batch), flush=True)
        if self.live is not None and self.clock() - self._drawn_s >= REDRAW_S:
            self._drawn_s = self.clock()
            note = f"{duration_text(int(self.ran_s) * 1000)}, {self.note}"
            picture = render(progress, history, self.live.console.width, now_s=time.time(), title=self.title, note=note)
            self.live.update(picture, refresh=True)

    def end(self, progress: Progress, history: Sequence[BatchProgress]) -> None:
        """Show the job's progress for the last time."""
        self.note = "ended"
        self._drawn_s = float("-inf")
        self.update(progress, history)

    @property
    def ran_s(self) -> float:
        """How long the job has run."""
        return self.clock() - self.started_s


def _view(file: JobFile, *, plain: bool) -> _View:
    console = Console()
    prints = any(sink.format == "console" for query in file.queries for sink in query.sinks)
    # A terminal that also shows rows, or that can't show the blocks of a bar, gets lines too.
    if plain or prints or not console.is_terminal or not console.encoding.startswith("utf"):
        return _View(file.path.name, None)
    return _View(f"trimtab run {file.path.name}", Live(console=console, auto_refresh=False))


def _watch(running: RunningJob, view: _View, file: JobFile, requests: _StopRequests, for_s: float | None) -> None:
    """Show the job until it ends or is asked to; then print a summary, also if it failed."""
    view.started_s = view.clock()
    try:
        with view.live or nullcontext(), spark_errors("the job"):
            while not running.await_termination(POLL_S):
                view.update(running.progress, running.history)
                is_over = for_s is not None and view.ran_s >= for_s
                if requests.count or is_over:
                    why = "asked to stop" if requests.count else f"{duration_text((for_s or 0) * 1000)} are over"
                    view.announce(f"{why}: ending after this batch (Ctrl-C: at once)")
                    view.update(running.progress, running.history)
                    running.stop()
            view.end(running.progress, running.history)
    finally:
        print(summary(running.progress, file, view.ran_s), flush=True)
