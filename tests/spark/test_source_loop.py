"""Streams that trimtab reads itself: a loop of its own decides what each batch reads."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trimtab
from tests.spark.bench import COUNTS, DAWN, PATIENCE_S, RISES, SCHEMA, SILENT, Bench, events, finished
from tests.support.kept_source import KeptSource
from tests.support.spark_laws import FileStream, stored
from trimtab.control.intake import Intake
from trimtab.driver.who_reads import Reader
from trimtab.errors import InputError, JobError, TrimtabError
from trimtab.spark import heads, reader_choice, stream_queries
from trimtab.spark.pipeline import Pipeline
from trimtab.state import manifest as manifests
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.manifest import Manifest


def partition(part: int, rows: int) -> pa.Table:
    """Rows in order of time; their keys occur in the other partitions, too."""
    times = [DAWN + datetime.timedelta(seconds=3 * number + part) for number in range(rows)]
    xs = [(number * 7 + part) % 10 for number in range(rows)]
    return pa.table({"k": [number % 4 for number in range(rows)], "ts": times, "x": xs}, schema=SCHEMA)


@pytest.fixture
def source(bench: Bench) -> KeptSource:
    (bench.folder / "kept").mkdir()
    return KeptSource(str(bench.folder / "kept"), SCHEMA)


def job_of(bench: Bench, source: Any, queries: dict[str, str], **options: Any) -> trimtab.Job:
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False, balance=None)
    job.stream("t", source, event_time="ts", **options)
    for name, sql in queries.items():
        job.query(name, sql).write(bench.keep(name))
    return job


def known(bench: Bench) -> Manifest:
    found = manifests.newest(Checkpoint.open(str(bench.checkpoint), 8).stream("t").manifests)
    assert found is not None
    return found


WAYS = ("small", "columns", "engines", "jvm")


def take_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches be read by the driver, by tasks over columns or by the engines, or take the way through the JVM."""
    if way != "jvm":
        reader = {"small": Reader.DRIVER, "columns": Reader.TASKS, "engines": Reader.ENGINES}[way]
        monkeypatch.setattr(reader_choice, "who_reads", lambda *_: reader)
    if way == "jvm":
        monkeypatch.setattr(heads, "MOST_OBSERVED", 0)  # as if there were very many partitions
        monkeypatch.setattr(stream_queries, "obstacle_to_columns", lambda *_: "as a test says")


@pytest.mark.parametrize("way", WAYS)
def test_all_partitions_are_read_and_no_row_is_late(
    bench: Bench, source: KeptSource, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    whole = [partition(part, 30 + 10 * part) for part in range(3)]
    for part, table in enumerate(whole):
        source.add(f"p{part}", table)
    queries = {"rises": RISES, "counts": COUNTS, "some": "SELECT k, x FROM t WHERE x > 3"}
    run = finished(job_of(bench, source, {**queries, "whole": "SELECT * FROM t"}), close=True)
    assert {tuple(row) for row in bench.rows("whole")} == {("k", "ts", "x")}, "the partition's column isn't shown"
    assert run.progress.late == 0
    assert known(bench).positions == {"p0": 30, "p1": 40, "p2": 50}
    rows = pa.concat_tables(whole).sort_by("ts")
    for name, sql in queries.items():
        expected = trimtab.evaluate(sql, {"t": rows}, event_time="ts").to_pylist()
        assert sorted(map(repr, bench.rows(name))) == sorted(map(repr, expected)), name


@pytest.mark.parametrize(
    ("way", "held"),
    [("small", "latency_s"), ("columns", "free_memory_share"), ("engines", "free_memory_share"), ("jvm", "latency_s")],
)
def test_all_that_an_intake_can_hold_is_measured(
    bench: Bench, source: KeptSource, way: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    hour_ago_us = round(time.time() * 1e6) - 3_600_000_000
    source.add("a", partition(0, 30))
    job = job_of(bench, replace(source, appended_us=hour_ago_us), {"counts": COUNTS})
    reference: dict[str, Any] = {held: 0.5}
    job.intake = Intake(**reference, min_rows=1, first_rows=10)
    batches = [each for each in finished(job).history if each.events]
    seen = [each.intake for each in batches]
    assert [each and each.rows for each in seen] == [10, *(each.events for each in batches[1:])]
    for batch, each in zip(batches, seen, strict=True):
        assert each is not None
        assert each.bytes == 24 * each.rows
        assert each.latency_s == pytest.approx(batch.finished_at_s - hour_ago_us / 1e6, abs=1e-3)
        assert each.free_memory_share is not None
        assert 0 < each.free_memory_share < 1
    limits = [batch.decision.intake for batch in batches[1:] if batch.decision is not None]
    assert [limit and limit.measure for limit in limits] == [getattr(each, held) for each in seen[: len(limits)]]


@pytest.mark.parametrize("way", WAYS)
def test_values_that_can_not_be_decoded_and_rows_that_are_ahead_are_kept_in_quarantine_and_the_others_go_on(
    bench: Bench, source: KeptSource, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    source.add("a", events((1, 0, 5), (1, 1, 13), (1, 2, 7), (None, 3, 8), (1, 7_200, 6)))
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False, balance=None)
    appended_us = int(DAWN.replace(tzinfo=datetime.UTC).timestamp()) * 1_000_000
    spoilt = replace(source, spoilt=13, appended_us=appended_us)
    job.stream("t", spoilt, event_time="ts", max_ahead="1 hour").quarantine(bench.keep("bad"))
    job.query("counts", COUNTS.replace("FROM t", "FROM t WHERE x > 0 ")).write(bench.keep("counts"))
    run = finished(job, close=True)
    assert bench.rows("counts") == [{"k": 1, "n": 2, "x": 12}]
    bad = {row["reason"]: row for row in bench.rows("bad")}
    where = {"source_partition": "a", "source_position": 1, "source_value": b"?"}
    assert bad["spoilt"] == {"k": None, "ts": None, "x": None, **where, "query": None, "reason": "spoilt"}
    no_key = bad["k is null, and rows are keyed by it"]
    assert (no_key["x"], no_key["source_partition"], no_key["source_position"]) == (8, "a", 3)
    ahead = bad["ts is too far ahead of when the row was appended"]
    assert (ahead["k"], ahead["x"], ahead["query"]) == (1, 6, None)
    assert (ahead["source_partition"], ahead["source_position"], ahead["source_value"]) == ("a", 4, None)
    assert known(bench).newest_us == {"a": appended_us + 3_000_000}, "what is too far ahead moves no watermark"
    assert (len(bad), run.progress.quarantined, run.progress.events) == (3, 3, 5)


@trimtab.operator("worker_of")
@dataclass(frozen=True)
class WorkerOf(trimtab.KeyedOperator):
    """Which process took the rows of a key."""

    columns = ("x",)
    output = pa.schema([("pid", pa.int64())])
    state = pa.schema([("last", pa.int64())])

    def open(self, snapshot: Mapping[str, Any] | None) -> WorkerOf:
        del snapshot
        return self

    def on_rows(self, rows: pa.Table) -> pa.Table:
        return pa.table({"pid": [os.getpid()] * min(1, rows.num_rows)}, schema=self.output)

    def snapshot(self) -> Mapping[str, Any]:
        return {"last": os.getpid()}


@pytest.mark.parametrize("way", WAYS)
def test_workers_are_reused_from_batch_to_batch(
    bench: Bench, source: KeptSource, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark ends those that leave some of their input unread, and new ones have everything to import again."""
    take_way(way, monkeypatch)
    source.add("0", partition(0, 48))
    query = "SELECT * FROM worker_of(TABLE(t) PARTITION BY k ORDER BY ts)"
    job = trimtab.Job(
        bench.spark, checkpoint=str(bench.checkpoint), engines=2, intake=Intake(min_rows=6, max_rows=6, first_rows=6)
    )
    job.stream("t", source, event_time="ts", delay="0 seconds")
    job.query("workers", query).write(bench.keep("workers"))
    run = finished(job)
    assert len(run.history) >= 8
    pids = {row["pid"] for row in bench.rows("workers")}
    assert 0 < len(pids) <= 6, "with new ones for every batch there are sixteen"


def test_a_restart_goes_on_where_the_last_one_ended(
    bench: Bench, source: KeptSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[KeptSource] = []
    monkeypatch.setattr(KeptSource, "close", lambda self: closed.append(self), raising=False)
    source.add("a", events((1, 0, 5), (1, 1, 7)))
    finished(job_of(bench, source, {"rises": RISES}))
    source.add("a", events((1, 2, 3), (1, 3, 9)))
    assert closed == [source], "the driver keeps nothing open"
    source.add("b", events((2, 4, 1)))  # a partition that is new
    finished(job_of(bench, source, {"rises": RISES}))
    assert known(bench).positions == {"a": 4, "b": 1}
    assert known(bench).events == 5


def test_a_batch_that_is_repeated_reads_the_same_ranges_whatever_came_since(bench: Bench, source: KeptSource) -> None:
    source.add("a", events((1, 0, 5), (1, 1, 7)))
    taken: list[tuple[int, int]] = []

    def failing(frame: Any, batch: int) -> None:
        taken.append((batch, frame.count()))
        if len(taken) == 1:
            raise RuntimeError("no room")

    def job() -> trimtab.Job:
        made = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
        made.stream("t", source, event_time="ts")
        made.query("all", "SELECT k FROM t").write(failing)
        return made

    with pytest.raises(JobError, match="no room"):
        finished(job())
    source.add("a", events((1, 2, 3)))
    finished(job())
    assert taken == [(0, 2), (0, 2), (1, 1)]


@pytest.mark.parametrize("way", ["columns", "engines", "jvm"])
def test_a_job_that_begins_at_the_end_keeps_where_that_was_even_if_it_is_killed_at_once(
    bench: Bench, source: KeptSource, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    source = replace(source, begins_at_end=True)
    source.add("a", events((1, 0, 5)))

    def killed(_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Pipeline, "before_commit", killed)  # its plan is written
        with pytest.raises(RuntimeError, match="killed"):
            finished(job_of(bench, source, {"all": "SELECT k, x FROM t"}))
    source.add("a", events((1, 1, 7), (2, 2, 3)))
    finished(job_of(bench, source, {"all": "SELECT k, x FROM t"}))
    assert bench.rows("all") == [{"k": 1, "x": 7}, {"k": 2, "x": 3}]
    assert known(bench).positions == {"a": 3}


def test_rows_and_partitions_that_come_later_are_read_and_a_quiet_stream_still_tells(
    bench: Bench, source: KeptSource
) -> None:
    source.add("a", events((1, 0, 0), (2, 1, 0)))
    run = job_of(bench, source, {"silent": SILENT}, idle_after="1 second").start(trigger="100 milliseconds")
    try:
        source.add("b", events((3, 2, 0)))
        until = time.monotonic() + PATIENCE_S
        while len(bench.rows("silent")) < 3 and run.is_active and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        run.stop()
    run.await_termination()
    assert sorted(row["k"] for row in bench.rows("silent")) == [1, 2, 3]


def test_rows_that_the_source_has_dropped_end_the_job_with_an_error(bench: Bench, source: KeptSource) -> None:
    source.add("a", events((1, 0, 5), (1, 1, 7)))
    finished(job_of(bench, source, {"rises": RISES}))
    shortened = KeptSource(source.folder, SCHEMA, dropped=3)
    source.add("a", events((1, 2, 3), (1, 3, 9)))
    with pytest.raises(TrimtabError, match=r"dropped 1 positions") as raised:
        finished(job_of(bench, shortened, {"rises": RISES}))
    assert raised.value.code == "source.lost"


def test_a_stream_changes_from_a_dataframe_to_a_source_and_back(bench: Bench, source: KeptSource) -> None:
    """A match goes over each change; batches are counted on, and no row is late or taken twice."""
    source = replace(source, columns=stored(SCHEMA.empty_table()).schema)  # as the DataFrame has the columns
    bench.run(events((1, 0, 5), (2, 0, 1)), rises=RISES)
    source.add("a", events((1, 0, 5), (2, 0, 1), (1, 2, 7)))  # what Spark has read, and a row after it
    with pytest.raises(JobError, match="Spark has read stream t so far, up to ") as raised:
        finished(job_of(bench, source, {"rises": RISES}))
    assert raised.value.code == "job.source-changed"
    with pytest.raises(TrimtabError, match="begins partition a at 7, but it has positions 0 to 3"):
        finished(job_of(bench, source, {"rises": RISES}, start_at={"a": 7}))
    finished(job_of(bench, source, {"rises": RISES}, start_at={"a": 2}))
    assert (known(bench).batch, known(bench).positions, known(bench).spark_batch) == (2, {"a": 3}, None)
    source.add("a", events((1, 3, 9), (2, 4, 2)))
    finished(job_of(bench, source, {"rises": RISES}, start_at={"a": 2}))  # it doesn't count any more
    assert (known(bench).batch, known(bench).positions) == (3, {"a": 5})

    with pytest.raises(JobError, match=r"trimtab has read stream t itself so far, up to \{'a': 5"):
        bench.run(rises=RISES)
    (bench.folder / "t").rename(bench.folder / "before")
    bench.stream = FileStream(bench.folder / "t", bench.spark, SCHEMA)  # so Spark's log of files must be forgotten
    bench.stream.add(events((1, 5, 10), (2, 6, 1), (2, 7, 3)))
    job = trimtab.Job(bench.spark, checkpoint=str(bench.checkpoint), key_groups=8, engines=2, warm=False)
    job.stream("t", bench.stream.frame(), event_time="ts", start_at="own")
    job.query("rises", RISES).write(bench.keep("rises"))
    run = finished(job, close=True)
    assert (known(bench).spark_batch, known(bench).positions, run.progress.late) == (0, {}, 0)
    assert sorted((row["a"], row["b"]) for row in bench.rows("rises")) == [(1, 2), (1, 3), (5, 7), (9, 10)]


def test_files_that_were_just_written_are_read_and_those_of_equal_names_in_another_folder_are_others(
    bench: Bench,
) -> None:
    for folder, x in (("one", 5), ("other", 7)):
        (bench.folder / folder).mkdir()
        pq.write_table(events((x, 0, x)), bench.folder / folder / "a.parquet")

    def job(folder: str, **options: Any) -> trimtab.Job:
        files = trimtab.Files(str(bench.folder / folder), schema=SCHEMA, settled_after_s=1.0)
        return job_of(bench, files, {"all": "SELECT k, x FROM t"}, **options)

    finished(job("one"))
    with pytest.raises(JobError, match=r"/one so far, up to \{'files': 1\}; now Files .*/other") as raised:
        finished(job("other"))
    assert raised.value.code == "job.source-changed"
    finished(job("other", start_at="own"), close=True)
    assert bench.rows("all") == [{"k": 5, "x": 5}, {"k": 7, "x": 7}]
    assert (known(bench).positions, known(bench).source) == ({"files": 1}, f"Files {bench.folder / 'other'}")


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_are_lost_while_they_are_read_end_the_job_with_the_same_error(
    bench: Bench, source: KeptSource, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_way(way, monkeypatch)
    source.add("a", events((1, 0, 5), (1, 1, 7)))
    source.add("b", events((2, 0, 5)))
    with pytest.raises(InputError, match="b is gone") as raised:
        finished(job_of(bench, replace(source, lost="b"), {"rises": RISES}))
    assert (raised.value.code, raised.value.hint) == ("source.lost", "a test says so")


def test_partition_by_is_refused_because_the_source_knows_its_partitions(bench: Bench, source: KeptSource) -> None:
    source.add("a", events((1, 0, 5)))
    with pytest.raises(JobError, match="its source knows its partitions"):
        job_of(bench, source, {}, partition_by="k", partitions=2)
    with pytest.raises(JobError, match="neither a streaming DataFrame nor a source"):
        job_of(bench, [1, 2], {})
