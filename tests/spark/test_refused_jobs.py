"""What is refused before the first batch: mistakes in a job, and sources and sinks that can't work."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from tests.spark.bench import COLUMNS, Bench, events
from trimtab.api.job import Job
from trimtab.api.stream import StreamHandle
from trimtab.errors import JobError, StateError


def test_mistakes_in_a_job_are_raised_before_anything_runs(bench: Bench) -> None:
    bench.stream.add(events((1, 0, 1)))
    frame = bench.stream.frame()
    table = bench.spark.read.parquet(str(bench.stream.folder))
    job = bench.job()

    def code(action: Any) -> str:
        with pytest.raises(JobError) as raised:
            action()
        return raised.value.code

    assert code(lambda: job.stream("t", frame, event_time="ts")) == "job.name"
    assert code(lambda: job.stream("a b", frame, event_time="ts")) == "job.name"
    assert code(lambda: job.stream("u", table, event_time="ts")) == "job.stream"
    assert code(lambda: job.stream("u", frame, event_time="when")) == "job.event-time"
    assert code(lambda: job.stream("u", frame, event_time="k")) == "job.event-time"
    assert code(lambda: job.start()) == "job.query"
    handle = job.query("q", COLUMNS)
    assert code(lambda: job.query("q", COLUMNS)) == "job.name"
    assert code(lambda: job.start()) == "job.sink"
    assert code(lambda: handle.write("parquet")) == "job.sink"
    handle.write("memory")
    assert code(lambda: job.start(close=True)) == "job.trigger"
    assert code(lambda: job.start(trigger="1 second", available_now=True)) == "job.trigger"
    assert code(lambda: Job(bench.spark, checkpoint="x", key_groups=0)) == "job.key-groups"
    assert code(lambda: Job(bench.spark, checkpoint="x", engines=9, key_groups=8)) == "job.engines"
    assert not bench.checkpoint.exists()


@pytest.mark.parametrize(
    ("target", "options", "reported"),
    [
        ("kafka", {"topic": "alerts", "servers": "127.0.0.1:1"}, "no Kafka broker of its sink can be reached"),
        ("kafka", {"kafka.bootstrap.servers": "localhost:1"}, "has no format kafka"),
        ("delta", {}, "without the option path"),
        ("delta", {"path": "out", "mergeSchema": "true"}, "has no format delta"),
        ("parkett", {"path": "out"}, "has no format parkett"),
        ("socket", {"host": "localhost", "port": "1"}, "nothing can be written to socket"),
        ("json", {}, "without the option path"),
        ("jdbc", {"url": "jdbc:postgresql:db"}, "without the option dbtable"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_before_the_first_batch(
    bench: Bench, target: str, options: dict[str, str], reported: str
) -> None:
    bench.stream.add(events((1, 0, 1)))
    taken = bench.keep("q")
    job = bench.job()
    job.query("q", COLUMNS).write(taken).write(target, **options)
    with pytest.raises(JobError) as raised:
        job.start(available_now=True)
    assert raised.value.code == "job.sink"
    assert reported in str(raised.value)
    assert "q" in str(raised.value)
    assert bench.calls == []


def test_a_kafka_source_without_a_broker_is_reported_within_seconds(bench: Bench) -> None:
    """Kafka's package isn't needed for that: the addresses are an option of the source."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    source = bench.spark.readStream.format("rate").option("Kafka.Bootstrap.Servers", closed)
    job = bench.job()
    job.stream("u", source.load(), event_time="timestamp")
    job.query("q", "SELECT value FROM u").write("console")
    began_s = time.monotonic()
    with pytest.raises(JobError, match=f"no Kafka broker of stream u can be reached: {closed}") as raised:
        job.start()
    assert raised.value.code == "job.source"
    assert time.monotonic() - began_s < 10


def test_a_folder_of_a_sink_that_is_a_file_is_refused_before_the_first_batch(bench: Bench) -> None:
    (bench.folder / "file").touch()
    for target in ("parquet", "csv"):
        job = bench.job()
        job.query("q", COLUMNS).write(target, path=str(bench.folder / "file"))
        with pytest.raises(StateError, match="is not a folder"):
            job.start(available_now=True)


def test_two_sinks_into_one_place_are_refused(bench: Bench) -> None:
    (bench.folder / "link").symlink_to(bench.folder / "out")
    out = str(bench.folder / "out")

    def parquet_twice(job: Job, _: StreamHandle) -> None:
        job.query("q", COLUMNS).write("parquet", path=out).write("csv", path=f"{bench.folder}/./out/")

    def two_queries(job: Job, _: StreamHandle) -> None:
        job.query("q", COLUMNS).write("parquet", path=out)
        job.query("r", COLUMNS).write("parquet", path=f"file://{bench.folder}/link")

    def late_too(job: Job, stream: StreamHandle) -> None:
        stream.late("parquet", path=out)
        job.query("q", COLUMNS).write("parquet", path=out)

    def both_rejects(job: Job, stream: StreamHandle) -> None:
        stream.late("json", path=out)
        stream.quarantine("json", path=out)
        job.query("q", COLUMNS).write("console")

    def tables(job: Job, _: StreamHandle) -> None:
        job.query("q", COLUMNS).write("delta", path=out)
        job.query("r", COLUMNS).write("delta", path=out)

    def views(job: Job, _: StreamHandle) -> None:
        job.query("q", COLUMNS).write("memory")
        job.query("r", COLUMNS).write("memory", view="Q")

    def into_the_checkpoint(job: Job, _: StreamHandle) -> None:
        job.query("q", COLUMNS).write("csv", path=f"file://{bench.folder}/./checkpoint/")

    for describe in (parquet_twice, two_queries, late_too, both_rejects, tables, views, into_the_checkpoint):
        job, stream = bench.job_and_stream()
        describe(job, stream)
        with pytest.raises(JobError, match="both write to") as raised:
            job.start(available_now=True)
        assert raised.value.code == "job.sink"
