"""Time on Spark is what the events say: not how fast they are read, where they are placed, or what one clock says."""

from __future__ import annotations

import datetime
import itertools
import time
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import trimtab
from tests.spark.bench import COUNTS, DAWN, PATIENCE_S, RISES, SCHEMA, SILENT, Bench, events, finished
from tests.support.spark_laws import FileStream
from trimtab.api.job_checks import interval_s_of
from trimtab.api.run import Run, Tally
from trimtab.cli.main import main
from trimtab.errors import JobError
from trimtab.spark.pipeline import Pipeline, StreamSpec
from trimtab.spark.sources import reads_all

PARTITIONED = pa.schema([*SCHEMA, pa.field("part", pa.int64())])
KINDS = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us"), "kind": pa.string()})
PAID = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts MEASURES P.ts AS paid
      PATTERN (O P) WITHIN INTERVAL '1' MINUTE DEFINE O AS kind = 'order', P AS kind = 'payment')"""


def partition(part: int, rows: int) -> pa.Table:
    """A partition in order of time; its keys occur in the other partitions, too."""
    times = [DAWN + datetime.timedelta(seconds=3 * number + part) for number in range(rows)]
    xs = [(number * 7 + part) % 10 for number in range(rows)]
    columns = {"k": [number % 4 for number in range(rows)], "ts": times, "x": xs, "part": [part] * rows}
    return pa.table(columns, schema=PARTITIONED)


@pytest.mark.parametrize(("files", "partitions"), [(1, 3), (3, [0, 1, 2]), (5, 3)])
def test_a_backlog_read_partition_by_partition_makes_no_row_late(bench: Bench, files: int, partitions: Any) -> None:
    bench.stream = FileStream(bench.folder / "parts", bench.spark, PARTITIONED)
    whole = [partition(part, 36) for part in range(3)]
    for table in whole:  # a reader that takes one partition after the other, and each in several batches
        step = -(-table.num_rows // files)
        for start in range(0, table.num_rows, step):
            bench.stream.add(table.slice(start, step))
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
    job.stream("t", bench.stream.frame(), event_time="ts", partition_by="PART", partitions=partitions)
    for name, sql in (("rises", RISES), ("counts", COUNTS)):
        job.query(name, sql).write(bench.keep(name))
    run = finished(job, close=True)
    assert run.progress.late == 0
    for name, sql in (("rises", RISES), ("counts", COUNTS)):
        expected = trimtab.evaluate(sql, {"t": pa.concat_tables(whole).sort_by("ts")})
        assert sorted(map(repr, bench.rows(name))) == sorted(map(repr, expected.to_pylist()))


@pytest.mark.parametrize("cuts", [[20], [15, 5], [3, 3, 14]])
def test_a_union_of_two_kinds_of_events_loses_none(bench: Bench, cuts: list[int]) -> None:
    def kind(name: str, second: int) -> pa.Table:
        times = [DAWN + datetime.timedelta(seconds=10 * number + second) for number in range(20)]
        return pa.table({"id": list(range(20)), "ts": times, "kind": [name] * 20}, schema=KINDS)

    bench.stream = FileStream(bench.folder / "kinds", bench.spark, KINDS)
    orders, payments = kind("order", 0), kind("payment", 5)
    for table in (orders, payments):
        for end, rows in zip(itertools.accumulate(cuts), cuts, strict=True):
            bench.stream.add(table.slice(end - rows, rows))
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
    kinds = ["order", "payment"]
    job.stream("t", bench.stream.frame(), event_time="ts", partition_by="kind", partitions=kinds)
    job.query("paid", PAID).write(bench.keep("paid"))
    run = finished(job, close=True)
    assert run.progress.late == 0
    expected = trimtab.evaluate(PAID, {"t": pa.concat_tables([orders, payments])}, event_time="ts")
    assert sorted(row["id"] for row in bench.rows("paid")) == sorted(expected["id"].to_pylist()) == list(range(20))


def test_what_comes_out_of_each_batch_does_not_depend_on_the_placement(bench: Bench) -> None:
    """Every engine knows the newest time of the whole batch."""
    tables = [events(*((key, 0, key) for key in range(1, 9))), events((1, 3600, 99)), events((2, 3601, 7))]
    found = {}
    for engines in (1, 3):
        own = Bench(bench.spark, bench.folder / str(engines))
        own.run(*tables, silent=SILENT, options={"engines": engines})
        found[engines] = {batch: sorted(row["x"] for row in rows) for batch, rows in own.given["silent"].items()}
    assert found[1] == found[3] == {1: list(range(1, 9))}


def test_a_quiet_stream_still_reports_what_is_due(bench: Bench) -> None:
    bench.stream.add(events((1, 0, 5), (2, 1, 6)))
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
    job.stream("t", bench.stream.frame(), event_time="ts", idle_after="1 second")
    job.query("silent", SILENT).write(bench.keep("silent"))
    run = job.start(trigger="100 milliseconds")
    try:
        until_s = time.monotonic() + PATIENCE_S
        while len(bench.rows("silent")) < 2 and time.monotonic() < until_s and run.is_active:
            time.sleep(0.1)
        assert sorted(row["x"] for row in bench.rows("silent")) == [5, 6]
        newest_us, watermark_us = bench.manifest()["newest_us"][""], bench.manifest()["watermark_us"]
        assert newest_us < watermark_us < newest_us + 1e6 * PATIENCE_S, "historic data stays historic"
        bench.stream.add(events((3, 600, 7)))  # the stream goes on as if nothing had happened
        while run.progress.events < 3 and time.monotonic() < until_s and run.is_active:
            time.sleep(0.1)
        assert run.progress.late == 0
    finally:
        run.stop()
    assert run.await_termination(PATIENCE_S)


def test_what_waits_while_a_job_is_down_is_no_silence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that Spark brings again has rows from before the downtime; those that came since are in the next one."""
    bench.stream = FileStream(bench.folder / "parts", bench.spark, PARTITIONED)
    schema = bench.stream.frame().schema

    def row(part: int, second: int) -> pa.Table:
        at = DAWN + datetime.timedelta(seconds=second)
        return pa.table({"k": [1], "ts": [at], "x": [second], "part": [part]}, schema=PARTITIONED)

    def run() -> Run:
        job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=1, warm=False)
        frame = bench.spark.readStream.schema(schema).parquet(str(bench.stream.folder))  # a batch reads all there is
        job.stream("t", frame, event_time="ts", partition_by="part", partitions=2, idle_after="1 second")
        job.query("rises", RISES).write(bench.keep("rises"))
        return finished(job)

    def broken(*_: Any) -> Any:
        raise RuntimeError("the engines are gone")

    bench.stream.add(pa.concat_tables([row(0, 0), row(1, 0)]))
    run()
    bench.stream.add(row(0, 100))
    monkeypatch.setattr(Pipeline, "run_engines", broken)
    with pytest.raises(RuntimeError, match="the engines are gone"):
        run()
    monkeypatch.undo()
    time.sleep(1.5)
    bench.stream.add(row(1, 50))
    assert run().progress.late == 0


@pytest.mark.parametrize(
    ("message", "is_caught_up"), [("Initializing StreamExecution", False), ("Waiting for data to arrive", True)]
)
def test_a_source_that_was_not_asked_yet_was_not_read_to_its_end(message: str, is_caught_up: bool) -> None:
    """What Spark says before its first trigger looks as if there were nothing to read."""

    class Stub:
        spec = StreamSpec(engines=1, idle_after_s=1.0)
        status: ClassVar = {"message": message, "isDataAvailable": False, "isTriggerActive": False}
        moments: ClassVar[list[float]] = []
        ticks = 0

        def is_caught_up(self, at_s: float) -> None:
            self.moments.append(at_s)

        def tick(self, *_: Any) -> None:
            self.ticks += 1

    stub: Any = Stub()
    stub.moments.clear()
    run = Run(stub, {"t": stub}, Tally(), {"t": None}, close=False, release=lambda: None)
    run._let_time_pass("t", stub)
    assert (bool(stub.moments), stub.ticks) == (is_caught_up, 1)


def test_a_job_that_is_started_now_and_then_reports_what_became_due_in_between(bench: Bench) -> None:
    sql = SILENT.replace("'5' SECOND", "'1' SECOND")

    def run() -> None:
        job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
        job.stream("t", bench.stream.frame(), event_time="ts", idle_after="1 second")
        job.query("silent", sql).write(bench.keep("silent"))
        finished(job)

    bench.stream.add(events((1, 0, 5)))
    run()
    assert bench.rows("silent") == []
    time.sleep(1.5)
    run()
    assert [row["x"] for row in bench.rows("silent")] == [5]


@pytest.mark.parametrize(
    ("spelling", "seconds"), [("interval 10 minutes", 600.0), ("1 minute 30 seconds", 90.0), ("0 seconds", None)]
)
def test_the_interval_of_a_trigger_is_as_spark_understands_it(
    bench: Bench, spelling: str, seconds: float | None
) -> None:
    assert interval_s_of(bench.spark, spelling) == seconds


def test_a_clock_that_is_ahead_stops_no_stream(bench: Bench) -> None:
    ahead = (datetime.datetime.now() - DAWN + datetime.timedelta(days=1)).total_seconds()
    for table in (events((1, 0, 1)), events((1, ahead, 99)), events((1, 1, 2), (1, 2, 3))):
        bench.stream.add(table)
    job, stream = bench.job_and_stream()
    stream.quarantine(bench.keep("bad"))
    job.query("rises", RISES).write(bench.keep("rises"))
    run = finished(job, close=True)
    assert (run.progress.late, run.progress.quarantined) == (0, 1)
    assert [(row["x"], row["reason"]) for row in bench.rows("bad")] == [(99, "ts is too far ahead of the clock")]
    assert [(row["a"], row["b"]) for row in bench.rows("rises")] == [(1, 2)]


def test_without_a_limit_a_row_may_be_as_far_ahead_as_it_likes(bench: Bench) -> None:
    bench.stream.add(pa.table({"k": [1], "ts": [datetime.datetime(2199, 1, 1)], "x": [1]}, schema=SCHEMA))
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=1, warm=False)
    job.stream("t", bench.stream.frame(), event_time="ts", max_ahead=None)
    job.query("rows", "SELECT k, x FROM t").write(bench.keep("rows"))
    assert finished(job).progress.quarantined == 0
    assert bench.rows("rows") == [{"k": 1, "x": 1}]


def test_a_watermark_that_a_wrong_clock_has_raised_can_be_lowered(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*tables: pa.Table) -> Any:
        for table in tables:
            bench.stream.add(table)
        job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
        job.stream("t", bench.stream.frame(), event_time="ts", max_ahead=None)
        job.query("rises", RISES).write(bench.keep("rises"))
        return finished(job).progress

    far = pa.table({"k": [9], "ts": [datetime.datetime(2199, 1, 1)], "x": [0]}, schema=SCHEMA)
    assert run(events((1, 0, 1)), far, events((1, 1, 2))).late == 1
    assert main(["state", "lower", str(bench.checkpoint), "--to", "2026-01-01T00:00:01"]) == 0
    assert "lowered to 2026-01-01 00:00:01" in capsys.readouterr().out
    assert run(events((1, 2, 3)), events((1, 3, 4)), events((1, 4, 0))).late == 0
    assert [(row["a"], row["b"]) for row in bench.rows("rises")] == [(1, 3)], "the state is as it was"
    assert main(["state", "lower", str(bench.checkpoint), "--to", "2199-01-01"]) == 1


def test_sources_that_a_batch_reads_to_their_end_are_known(bench: Bench) -> None:
    reader = bench.spark.readStream.schema("k BIGINT, ts TIMESTAMP")
    files = reader.parquet(str(bench.stream.folder))
    rate = bench.spark.readStream.format("rate").load()
    limited = reader.option("maxFilesPerTrigger", 1).parquet(str(bench.stream.folder))
    assert [reads_all(each) for each in (files, files.where("k > 1"), rate, limited)] == [True, True, True, False]
    assert not reads_all(files.unionByName(limited))


@pytest.mark.parametrize(
    "settings",
    [
        {"partition_by": "k"},
        {"partitions": 3},
        {"partition_by": "k", "partitions": 0},
        {"partition_by": "k", "partitions": "abc"},
        {"partition_by": "k", "partitions": ["a", "a"]},
        {"partition_by": "nowhere", "partitions": 3},
    ],
)
def test_partitions_that_cannot_be_are_refused(bench: Bench, settings: dict[str, Any]) -> None:
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint))
    with pytest.raises(JobError) as caught:
        job.stream("t", bench.stream.frame(), event_time="ts", **settings)
    assert caught.value.code == "job.partitions"


def test_when_one_of_two_streams_fails_the_job_ends_with_its_error(bench: Bench) -> None:
    other = FileStream(bench.folder / "u", bench.spark, SCHEMA)

    def broken(frame: Any, batch: int) -> None:
        del frame, batch
        raise ValueError("the sink is down")

    for number, failing in enumerate(("here", "there")):
        other.add(events((1, number, 1)))
        bench.stream.add(events((1, number, 1)))
        job = bench.job()
        job.stream("u", other.frame(), event_time="ts")
        sinks: dict[str, Any] = {"here": bench.keep("here"), "there": bench.keep("there")} | {failing: broken}
        job.query("here", "SELECT k, x FROM t").write(sinks["here"])
        job.query("there", "SELECT k, x FROM u").write(sinks["there"])
        run = job.start(trigger="100 milliseconds")
        with pytest.raises(Exception, match="the sink is down"):
            run.await_termination(60.0)
        assert not run.is_active
