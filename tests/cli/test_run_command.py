"""`trimtab run`, with hand-written doubles in the places of Spark and the job, which make this file long."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

import trimtab.cli.run as run_command
from trimtab.cli.job_build import Backend
from trimtab.cli.main import main
from trimtab.control.intake import Intake
from trimtab.deciding.policy import DEFAULT
from trimtab.driver.progress import BatchProgress, EngineProgress, Progress
from trimtab.errors import JobError, StateError, noting

JOB = """\
[job]
checkpoint = "checkpoint"
engines = 2
trigger = "100 milliseconds"
[streams.ticks]
format = "rate"
event_time = "timestamp"
delay = "1 second"
where = "value > 3"
select = ["timestamp", "value % 10 AS symbol"]
[streams.ticks.options]
rowsPerSecond = 10
[streams.ticks.late]
format = "parquet"
path = "late"
[queries.counts]
sql = "SELECT symbol FROM ticks"
[[queries.counts.sinks]]
format = "parquet"
path = "out"
[[queries.counts.sinks]]
python = "json:dumps"
[[queries.counts.sinks]]
format = "Console"
options.rows = 5
"""


class Recorder:
    """Records every call and returns itself: enough of a session or a job for the tests."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self.calls = calls

    def __getattr__(self, name: str) -> Callable[..., Recorder]:
        if name == "readStream":
            return self  # type: ignore[return-value]

        def call(*arguments: Any, **settings: Any) -> Recorder:
            self.calls.append((name, *arguments, settings) if settings else (name, *arguments))
            return self

        return call


def batch(number: int) -> BatchProgress:
    engines = (EngineProgress(0, 6, 3.0, 512, 10), EngineProgress(1, 4, 2.0, 512, 10))
    return BatchProgress(
        "ticks",
        number,
        10,
        1,
        0,
        {"counts": 3},
        1_767_225_600_000_000,
        50.0,
        {"engines": 50.0},
        engines,
        0,
        99,
        20,
        7.0,
    )


class FakeRun:
    """A job that finishes a batch at every second poll, and ends after `batches` or when it is stopped."""

    def __init__(self, batches: int, at: Callable[[int], None] = lambda _: None) -> None:
        self.batches, self.at = batches, at
        self.done, self.looks, self.stopped = 0, 0, False

    @property
    def progress(self) -> Progress:
        streams = {"ticks": batch(self.done - 1)} if self.done else {}
        done = self.done
        return Progress(streams, done, 10 * done, done, 0, {"counts": 3 * done}, 100.0)

    @property
    def history(self) -> tuple[BatchProgress, ...]:
        return tuple(batch(number) for number in range(self.done))

    def await_termination(self, timeout_s: float | None = None) -> bool:
        assert timeout_s is not None
        self.looks += 1
        if self.looks % 2 == 0:
            self.done += 1
            self.at(self.done)
        return self.stopped or self.done >= self.batches

    def stop(self) -> None:
        self.stopped = True


class FakeJob(Recorder):
    """A job whose start gives a prepared run."""

    def __init__(self, calls: list[tuple[Any, ...]], run: FakeRun) -> None:
        super().__init__(calls)
        self.run = run

    def start(self, **settings: Any) -> FakeRun:
        self.calls.append(("start", settings))
        return self.run


class Bench:
    """Everything around one call of the command."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "job.toml"
        self.file.write_text(JOB)
        self.calls: list[tuple[Any, ...]] = []
        self.spark_calls: list[tuple[Any, ...]] = []
        self.job = FakeRun(3)

    def backend(self) -> Backend:
        return Backend(check=lambda: None, session=lambda _: Recorder(self.spark_calls), job=self.make)

    def make(self, _spark: Any, **settings: Any) -> FakeJob:
        self.calls.append(("Job", settings))
        return FakeJob(self.calls, self.job)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    monkeypatch.setattr(run_command, "SPARK", bench.backend())
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield bench
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_job_is_built_as_its_file_says(bench: Bench, tmp_path: Path) -> None:
    assert main(["run", str(bench.file)]) == 0
    (_, rows) = next(call for call in bench.calls if call[0] == "stream")[1:3]
    assert bench.calls == [
        (
            "Job",
            {
                "checkpoint": str(tmp_path / "checkpoint"),
                "engines": 2,
                "key_groups": 1024,
                "balance": DEFAULT,
                "scale": None,
                "intake": Intake(),
            },
        ),
        ("stream", "ticks", rows, {"event_time": "timestamp", "delay": "1 second"}),
        ("late", "parquet", {"path": str(tmp_path / "late")}),
        ("query", "counts", "SELECT symbol FROM ticks", {"reset": False}),
        ("write", "parquet", {"path": str(tmp_path / "out")}),
        ("write", json.dumps),
        ("write", "console", {"rows": 5}),
        ("start", {"trigger": "100 milliseconds"}),
    ]
    assert bench.spark_calls == [
        ("format", "rate"),
        ("options", {"rowsPerSecond": "10"}),
        ("load",),
        ("where", "value > 3"),
        ("selectExpr", "timestamp", "value % 10 AS symbol"),
        ("stop",),
    ]


def test_available_now_and_close_are_passed_on(bench: Bench) -> None:
    text = JOB.replace('trigger = "100 milliseconds"', "available_now = true\nclose = true")
    bench.file.write_text(text)
    assert main(["run", str(bench.file)]) == 0
    assert bench.calls[-1] == ("start", {"available_now": True, "close": True})


def test_every_batch_is_a_line_and_a_summary_follows(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(bench.file), "--plain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("ticks batch")] == [
        f"ticks batch {number}: 10 events in 50 ms (engines 50 ms); 200/s; matches counts 3; 1 late; "
        "watermark 2026-01-01 00:00:00.000 UTC"
        for number in range(3)
    ]
    assert lines[-5].startswith("3 batches, 30 events in ")
    assert lines[-4:] == [
        f"  counts: 9 matches -> parquet {tmp_path / 'out'}, json:dumps, console",
        f"  late: 3 events -> parquet {tmp_path / 'late'}",
        "  quarantined: 0 events",
        f"  state: {tmp_path / 'checkpoint'}",
    ]


def test_a_terminal_gets_the_live_view(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()

    def view(file: Any, *, plain: bool) -> Any:
        assert not plain
        console = Console(file=screen, force_terminal=True, width=80, height=40, color_system=None)
        return run_command._View(file.path.name, Live(console=console, auto_refresh=False))

    monkeypatch.setattr(run_command, "_view", view)
    assert main(["run", str(bench.file)]) == 0
    shown = screen.getvalue()
    assert "job.toml" in shown
    assert "batch 2" in shown
    assert "counts 9 +3" in shown


def test_the_check_starts_nothing(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--check", str(bench.file)]) == 0
    assert capsys.readouterr().out == (
        f"{bench.file} is fine: streams ticks; queries counts\n"
        "not checked, because that takes Spark or the job's own code:\n"
        "  queries.counts.sinks[1].python: json:dumps is there, and is not imported\n"
        "  streams.ticks.where: it is Spark's SQL\n"
    )
    assert bench.calls == bench.spark_calls == []
    bench.file.write_text(JOB.replace("engines", "engine"))
    assert main(["run", "--check", str(bench.file)]) == 1
    assert "job.engine: there is no such setting; did you mean engines?" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_after_the_batch(
    bench: Bench, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.job = FakeRun(1000, at=lambda done: os.kill(os.getpid(), number) if done == 2 else None)
    assert main(["run", str(bench.file)]) == 0
    assert bench.job.stopped
    assert bench.job.done == 2
    out = capsys.readouterr().out
    assert "asked to stop: ending after this batch" in out
    assert "2 batches, 20 events" in out
    assert bench.spark_calls[-1] == ("stop",)


def test_a_signal_to_end_before_the_job_is_started_starts_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def session(_: Any) -> Recorder:
        os.kill(os.getpid(), signal.SIGTERM)
        return Recorder(bench.spark_calls)

    monkeypatch.setattr(run_command, "SPARK", Backend(lambda: None, session, bench.make))
    assert main(["run", str(bench.file)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "asked to stop before the job was started"
    assert bench.calls == []
    assert bench.spark_calls == [("stop",)]


@pytest.mark.parametrize(("is_alive", "status"), [(False, 0), (True, 1)])
def test_a_signal_to_end_that_java_got_too_is_no_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_alive: bool, status: int
) -> None:
    def end(_: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise JobError("job.sink-failed", "Cannot call methods on a stopped SparkContext")

    bench.job = FakeRun(1000, at=end)
    backend = replace(bench.backend(), is_alive=lambda _: is_alive)
    monkeypatch.setattr(run_command, "SPARK", backend)
    assert main(["run", str(bench.file)]) == status
    printed = capsys.readouterr()
    shown = "error[job.sink-failed]: Cannot call methods on a stopped SparkContext\n"
    assert printed.err == ("" if status == 0 else shown)
    assert ("the next run repeats the batch that was under way" in printed.out) == (status == 0)


@pytest.mark.parametrize("arguments", [[], ["--for", "1ms"]])
def test_whatever_ends_a_job_is_an_error_line_and_a_status(
    bench: Bench, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    def fail(_: int) -> None:
        with noting("batch 7 of stream ticks"), noting("query counts"):
            raise ZeroDivisionError("division by zero")

    bench.job = FakeRun(1000, at=fail)
    assert main(["run", str(bench.file), *arguments]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-3] == "error[job.failed]: the job failed: ZeroDivisionError: division by zero"
    assert lines[-1] == "  where: query counts, batch 7 of stream ticks"


def test_an_error_says_in_which_query_and_batch_it_was(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    class SparkException(Exception):  # noqa: N818
        __module__ = "pyspark.errors"

    for error, shown in (
        (StateError("state.gone", "the folder is gone"), "error[state.gone]: the folder is gone"),
        (SparkException("lost\n\tat org.apache"), "error[job.spark]: the job: lost"),
    ):

        def fail(_: int, error: Exception = error) -> None:
            with noting("batch 7 of stream ticks"), noting("sink parquet out of counts"):
                raise error

        bench.job = FakeRun(1000, at=fail)
        assert main(["run", str(bench.file)]) == 1
        assert capsys.readouterr().err == f"{shown}\n  where: sink parquet out of counts, batch 7 of stream ticks\n"


def test_a_second_interrupt_stops_at_once(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt_twice(_: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    bench.job = FakeRun(1000, at=interrupt_twice)
    assert main(["run", str(bench.file)]) == 130
    assert "stopped at once" in capsys.readouterr().err
    assert bench.spark_calls[-1] == ("stop",)


def test_a_job_can_be_stopped_after_a_time(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.job = FakeRun(10**9)
    assert main(["run", str(bench.file), "--for", "50ms"]) == 0
    assert bench.job.stopped
    assert "50 ms are over: ending after this batch" in capsys.readouterr().out
    assert main(["run", str(bench.file), "--for", "ever"]) == 1
    assert capsys.readouterr().err.startswith("error[input.value]: ever is not a length of time")


def test_a_job_that_fails_prints_its_summary(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(done: int) -> None:
        if done == 2:
            raise StateError("state.disk-full", "no room for batch 2", "free some")

    bench.job = FakeRun(1000, at=fail)
    assert main(["run", str(bench.file)]) == 1
    printed = capsys.readouterr()
    assert printed.err == "error[state.disk-full]: no room for batch 2\n  hint: free some\n"
    assert "2 batches" in printed.out
    assert bench.spark_calls[-1] == ("stop",)


def test_what_spark_refuses_names_the_part_of_the_file(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    class AnalysisException(Exception):  # noqa: N818
        __module__ = "pyspark.errors"

    def refuse(*_: Any, **__: Any) -> Any:
        raise AnalysisException("[UNRESOLVED_COLUMN] no valeu\n\nJVM stacktrace:\n  at org.apache...")

    class RefusingJob(FakeJob):
        stream = refuse

    job = RefusingJob([], bench.job)
    options = argparse.Namespace(job=bench.file, check=False, plain=True, duration=None)
    backend = Backend(lambda: None, lambda _: Recorder([]), lambda *_, **__: job)
    with pytest.raises(JobError, match=r"streams\.ticks: \[UNRESOLVED_COLUMN\] no valeu$"):
        run_command.run(options, backend)
    capsys.readouterr()


def test_the_command_works_outside_the_main_thread(bench: Bench) -> None:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(main(["run", str(bench.file)])))
    thread.start()
    thread.join()
    assert statuses == [0]


@pytest.mark.parametrize(("fails", "kept"), [(False, 0), (True, 1)])
def test_the_log_of_spark_is_kept_if_the_job_fails(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fails: bool,
    kept: int,
) -> None:
    def fail(_: int) -> None:
        raise StateError("state.gone", "the checkpoint is gone")

    if fails:
        bench.job = FakeRun(1, at=fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    live = Live(console=console, auto_refresh=False)
    monkeypatch.setattr(run_command, "_view", lambda *_, **__: run_command._View("job.toml", live))
    assert main(["run", str(bench.file)]) == int(fails)
    logs = list(tmp_path.glob("trimtab-spark-*.log"))
    assert len(logs) == kept
    assert all(f"Spark's own log is {log}" in capsys.readouterr().err for log in logs)
