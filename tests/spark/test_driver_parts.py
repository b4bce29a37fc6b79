"""Parts of the driver that need no Spark session: the combiner, retries, tallies, and how sinks are made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from trimtab.api.run import RATE_WINDOW_S, Tally
from trimtab.driver.combining import combine
from trimtab.driver.progress import BatchProgress
from trimtab.engine.operator import TIME_US
from trimtab.errors import JobError
from trimtab.spark import lost_workers
from trimtab.spark.sinks import ConsoleSink, DeltaSink, FormatSink, FunctionSink, MemorySink, make_sink
from trimtab.worker.orders import Output

NO_SPARK: Any = None  # nothing here uses the session


def output(times: list[int | None], values: list[int]) -> Output:
    table = pa.table({"v": pa.array(values, pa.int64()), TIME_US: pa.array(times, pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Output(table.num_rows, inline=sink.getvalue().to_pybytes())


def test_rows_of_all_engines_are_in_order_of_event_time() -> None:
    table, files = combine([output([5, 9], [1, 2]), output([1, 6], [3, 4]), output([9, 0], [5, 6])])
    assert table is not None
    assert table.column_names == ["v"]
    assert table["v"].to_pylist() == [6, 3, 1, 4, 2, 5]
    assert files == ()


def test_rows_of_a_single_engine_are_in_order_of_event_time_too() -> None:
    table, _ = combine([output([5, 1, 3], [1, 2, 3])])
    assert table is not None
    assert table["v"].to_pylist() == [2, 3, 1]


def test_rows_of_the_same_time_stay_in_the_order_of_engines() -> None:
    table, _ = combine([output([7, 7], [1, 2]), output([7, 7], [3, 4])])
    assert table is not None
    assert table["v"].to_pylist() == [1, 2, 3, 4]


def test_files_are_handed_on_by_name() -> None:
    assert combine([]) == (None, ())
    nothing = output([], []).inline
    table, files = combine([Output(3, nothing, "a.parquet"), output([1], [8]), Output(2, nothing, "b.parquet")])
    assert files == ("a.parquet", "b.parquet")
    assert table is not None
    assert table.to_pydict() == {"v": [8]}
    table, files = combine([Output(3, nothing, "a.parquet")])
    assert table is not None
    assert (table.column_names, table.num_rows, files) == (["v"], 0, ("a.parquet",))


class Flaky:
    """Work that fails some times before it succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


LOST = "Job aborted: Python worker exited unexpectedly (crashed)"


def test_a_lost_worker_costs_a_retry(caplog: pytest.LogCaptureFixture) -> None:
    work = Flaky(RuntimeError(LOST), RuntimeError("ExecutorLostFailure (executor 3 exited)"))
    with caplog.at_level(logging.WARNING, "trimtab"):
        assert lost_workers.retried(work, pause_s=0) == "done"
    assert work.calls == 3
    assert "1 of 3" in caplog.text
    assert "2 of 3" in caplog.text


def test_after_too_many_lost_workers_the_error_is_raised() -> None:
    work = Flaky(*(RuntimeError(f"{LOST} {n}") for n in range(9)))
    with pytest.raises(RuntimeError, match=r"crashed.* 2"):
        lost_workers.retried(work, retries=2, pause_s=0)
    assert work.calls == 3


def test_any_other_failure_is_raised_at_once() -> None:
    work = Flaky(ValueError("a mistake"))
    with pytest.raises(ValueError, match="a mistake"):
        lost_workers.retried(work, pause_s=0)
    assert work.calls == 1


def batch(stream: str, number: int, events: int, **matches: int) -> BatchProgress:
    return BatchProgress(stream, number, events, 1, 2, matches, None, 500.0, {}, (), 0, 0, 0, 0.0)


def test_a_tally_adds_up_batches_of_all_streams() -> None:
    tally = Tally()
    assert tally.progress().batches == 0
    tally.add(batch("a", 0, 10, q=1))
    tally.add(batch("b", 0, 5, r=2))
    tally.add(batch("a", 1, 20, q=3))
    progress = tally.progress()
    assert (progress.batches, progress.events, progress.late, progress.quarantined) == (3, 35, 3, 6)
    assert progress.matches == {"q": 4, "r": 2}
    assert {name: each.batch for name, each in progress.streams.items()} == {"a": 1, "b": 0}
    assert [(each.stream, each.batch) for each in tally.batches()] == [("a", 0), ("b", 0), ("a", 1)]


def test_the_rate_is_of_the_last_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("trimtab.api.run.time.monotonic", lambda: now[0])
    tally = Tally()
    for second in range(5):
        now[0] = 100.0 + second
        tally.add(batch("a", second, 1000))
    assert tally.progress().events_per_s == pytest.approx(1000.0)
    now[0] += RATE_WINDOW_S + 5
    assert tally.progress().events_per_s == 0.0


def test_each_target_makes_its_kind_of_sink() -> None:
    def function(frame: Any, batch: int) -> None:
        del frame, batch

    assert isinstance(make_sink(NO_SPARK, function, {}), FunctionSink)
    assert isinstance(make_sink(NO_SPARK, "Console", {"rows": 3}), ConsoleSink)
    assert isinstance(make_sink(NO_SPARK, "memory", {}), MemorySink)
    assert isinstance(make_sink(NO_SPARK, "delta", {"path": "x", "mergeSchema": "true"}), DeltaSink)
    assert isinstance(make_sink(NO_SPARK, "orc", {"path": "x"}), FormatSink)


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_sink(NO_SPARK, "parquet", {}),
        lambda: make_sink(NO_SPARK, "parquet", {"path": "x", "bucketBy": "k"}),
        lambda: make_sink(NO_SPARK, "console", {"lines": 3}),
        lambda: make_sink(NO_SPARK, "kafka", {"topic": "alerts"}),
        lambda: make_sink(NO_SPARK, print, {"path": "x"}),
        lambda: make_sink(NO_SPARK, 3, {}),
    ],
)
def test_an_impossible_sink_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(JobError) as raised:
        make()
    assert raised.value.code == "job.sink"
