"""A start raises at once what it can check quickly, and leaves slower checks to the run's own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.spark.bench import COLUMNS, COUNTS, PATIENCE_S, RISES, SILENT, Bench, events
from tests.spark.test_faults import contents, cut_off
from trimtab.api.run import Run
from trimtab.cli.job_queries import columns_of, compile_known
from trimtab.driver.resuming import fingerprint
from trimtab.errors import JobError, QueryError, StateError, TrimtabError
from trimtab.spark import pipeline as pipelines
from trimtab.spark.pipeline import Pipeline
from trimtab.spark.source_options import unknown_options


class Hold:
    """Makes a function slow: its callers wait until the test sets `released`."""

    def __init__(self) -> None:
        self.reached, self.released = threading.Event(), threading.Event()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def held(*arguments: Any) -> Any:
            self.reached.set()
            assert self.released.wait(PATIENCE_S)
            return function(*arguments)

        return held


@contextmanager
def slow(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> Iterator[Hold]:
    hold = Hold()
    with monkeypatch.context() as patched:
        patched.setattr(where, name, hold.before(getattr(where, name)))
        try:
            yield hold
        finally:
            hold.released.set()


def start(bench: Bench, sql: str = RISES, **settings: Any) -> Run:
    job = bench.job()
    job.query("rises", sql).write(bench.keep("rises"))
    return job.start(**({"available_now": True} | settings))


def test_a_start_does_not_wait_for_the_checksums_of_the_state(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run(events((1, 0, 1)), rises=RISES)
    bench.stream.add(events((1, 1, 2)))
    with slow(monkeypatch, pipelines, "check_size") as hold:
        run = start(bench, close=True)
        assert hold.reached.wait(PATIENCE_S)
        assert run.is_active
        assert run.streaming_queries == {}
        run.move({0: 1})  # takes effect in the first batch
        with pytest.raises(StateError, match="is in use by another job"):
            start(bench)
    assert run.await_termination(PATIENCE_S)
    assert bench.rows("rises") == [{"k": 1, "a": 1, "b": 2}]
    assert run.placement["t"].owner[0] == 1
    assert list(run.streaming_queries) == ["t"]


def test_damage_found_after_the_start_has_returned_ends_the_job_before_its_first_batch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run(events((1, 0, 1)), rises=RISES)
    (name,) = bench.segments()
    good = (bench.home / "segments" / name).read_bytes()
    cut_off(bench.home / "segments" / name)
    bench.stream.add(events((1, 1, 2)))
    before = contents(bench.checkpoint)
    with slow(monkeypatch, pipelines, "check_size"):
        run = start(bench, close=True)
    with pytest.raises(StateError, match=name) as raised:
        run.await_termination(PATIENCE_S)
    assert raised.value.code == "state.corrupt"
    assert contents(bench.checkpoint) == before
    assert bench.calls == []
    (bench.home / "segments" / name).write_bytes(good)
    assert start(bench, close=True).await_termination(PATIENCE_S), "the lock was given back"
    assert bench.rows("rises") == [{"k": 1, "a": 1, "b": 2}]


def test_a_job_that_is_still_starting_can_be_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run(events((1, 0, 1)), rises=RISES)
    bench.stream.add(events((1, 1, 2)))
    with slow(monkeypatch, pipelines, "check_size") as hold:
        run = start(bench, close=True)
        stopper = threading.Thread(target=run.stop)
        stopper.start()
        while not all(pipeline.stopping for pipeline in run._pipelines.values()):
            stopper.join(0.01)
        hold.released.set()
        stopper.join(PATIENCE_S)
    assert run.await_termination(0)
    assert run.streaming_queries == {}
    assert run.progress.batches == 0
    assert start(bench, close=True).await_termination(PATIENCE_S)
    assert bench.rows("rises") == [{"k": 1, "a": 1, "b": 2}]


def test_an_interrupted_start_leaves_nothing_running(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout is None:
                return super().wait()
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        make = Run.__init__

        def interrupted(self: Run, *arguments: Any, **settings: Any) -> None:
            make(self, *arguments, **settings)
            self._begun = Interrupted()

        patched.setattr(Run, "__init__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start(bench, available_now=False)
    assert not bench.spark.streams.active
    assert start(bench).await_termination(PATIENCE_S)


def test_what_is_known_at_once_is_raised_by_the_start_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def code(action: Callable[[], object]) -> str:
        with pytest.raises(TrimtabError) as raised:
            action()
        return raised.value.code

    def never(_: Pipeline) -> None:
        raise AssertionError("nothing should be prepared")

    bench.run(events((1, 0, 1)), rises=RISES)
    monkeypatch.setattr(Pipeline, "prepare", never)
    changed = RISES.replace("B.x > A.x", "B.x < A.x")
    assert code(lambda: start(bench, changed)) == "job.changed-query"
    assert code(lambda: bench.run(options={"key_groups": 16}, rises=RISES)) == "job.key-groups"
    assert code(lambda: start(bench, available_now=False, trigger="often")) == "job.trigger"
    logs = bench.checkpoint / "spark"
    logs.rename(bench.folder / "logs")
    assert code(lambda: start(bench)) == "state.missing-version"
    (bench.folder / "logs").rename(logs)
    (bench.folder / "file").touch()
    job = bench.job()
    job.query("rises", RISES).write("parquet", path=str(bench.folder / "file"))
    assert code(job.start) == "state.foreign"
    monkeypatch.undo()
    bench.run(close=True, rises=RISES)
    monkeypatch.setattr(Pipeline, "prepare", never)
    assert code(lambda: start(bench)) == "job.closed"


def test_an_error_of_spark_is_reported_with_the_query(bench: Bench) -> None:
    job = bench.job()
    with pytest.raises(QueryError, match=r"Spark can't compute the columns of sums: .*LIST_SUM") as raised:
        job.query("sums", "SELECT list_sum([x]) AS x FROM t")  # DuckDB has it
    assert raised.value.code == "query.spark"
    assert "list_sum([x])" in str(raised.value)
    with pytest.raises(JobError, match="the job has no queries"):
        job.start()


def test_queries_compiled_without_spark_have_the_same_fingerprint(bench: Bench) -> None:
    job = bench.job()
    columns = columns_of("k BIGINT, ts TIMESTAMP, x BIGINT", [])
    for number, sql in enumerate((COLUMNS, COUNTS, RISES, SILENT, "SELECT ts, x * 2.5 AS y FROM t WHERE ts > '2026'")):
        with_spark = job.query(f"q{number}", sql).query
        without = compile_known(sql, {"t": (columns, "ts")})
        assert without is not None
        assert fingerprint(with_spark) == fingerprint(without), sql


def test_the_users_session_keeps_its_settings_and_gives_the_stream_its_own(bench: Bench) -> None:
    names = ("spark.sql.ansi.enabled", "spark.sql.adaptive.enabled", "spark.sql.streaming.checkpointFileManagerClass")
    conf, context = bench.spark.conf, bench.spark.sparkContext
    found: list[tuple[Any, ...]] = []

    def look(frame: Any, batch: int) -> None:
        own = frame.sparkSession.conf
        found.append((batch, *(own.get(name) for name in names[:2]), context.getLocalProperty("spark.scheduler.pool")))

    conf.set("spark.sql.ansi.enabled", "true")
    context.setLocalProperty("spark.scheduler.pool", "ours")
    try:
        before = [conf.get(name, None) for name in names]
        bench.stream.add(events((1, 0, 0)))
        bench.stream.add(events((1, 1, 0)))
        job = bench.job(engines=None)
        job.query("counts", COUNTS.replace("SUM(x)", "SUM(x / x)")).write(bench.keep("counts"))
        job.query("columns", COLUMNS).write(look)
        run = job.start(available_now=True, close=True)
        assert run.await_termination(PATIENCE_S)
        assert run.placement["t"].engines == context.defaultParallelism
        assert [conf.get(name, None) for name in names] == before
    finally:
        conf.unset("spark.sql.ansi.enabled")
        context.setLocalProperty("spark.scheduler.pool", None)
    # A sink computes with the user's own settings, as the DataFrame before it does; queries compute without ANSI.
    assert found == [(0, "true", "false", "ours"), (1, "true", "false", "ours")]
    assert bench.rows("counts") == [{"k": 1, "n": 2, "x": None}]


@pytest.mark.parametrize("format_", ["csv", "json", "orc", "parquet", "text"])
def test_the_options_of_sparks_sources_are_known(spark: Any, format_: str) -> None:
    names = {"csv": "catalyst.csv.CSV", "json": "catalyst.json.JSON"}
    name = names.get(format_, f"execution.datasources.{format_}.{format_.capitalize()}")
    kind = spark._jvm.java.lang.Class.forName(f"org.apache.spark.sql.{name}Options$")
    options = kind.getField("MODULE$").get(None).getAllOptions().mkString(" ").split()
    assert "compression" in options
    assert unknown_options(format_, options) == {}
