"""Restarts from a checkpoint: what stays, what may change, what is refused."""

from __future__ import annotations

import dataclasses
import shutil
from typing import Any

import pytest

from tests.spark.bench import COLUMNS, COUNTS, RISES, SCHEMA, Bench, events, finished
from tests.support.spark_laws import FileStream
from trimtab.errors import JobError, StateError
from trimtab.state import manifest as manifests
from trimtab.state.files import Folder
from trimtab.state.sweep import KEEP


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def test_state_watermark_and_totals_survive_a_restart(bench: Bench) -> None:
    bench.run(events((1, 0, 1), (2, 0, 5)), rises=RISES, counts=COUNTS)
    first = bench.manifest()
    run = bench.run(events((1, 1, 2), (2, 1, 4)), events((1, -1, 9)), close=True, rises=RISES, counts=COUNTS)
    last = bench.manifest()
    assert plain(bench.rows("rises")) == [(1, 1, 2)]
    assert plain(bench.rows("counts")) == [(1, 2, 3), (2, 2, 9)]
    assert [batch.batch for batch in run.history] == [1, 2, 3]
    assert (first["events"], last["events"], last["late"]) == (2, 5, 1)
    assert last["matches"] == {"rises": 1, "counts": 2}
    assert last["watermark_us"] == first["watermark_us"] + 1_000_000
    with pytest.raises(JobError, match="was closed and can't be reopened"):
        bench.run(rises=RISES, counts=COUNTS)


def test_a_placement_stays_and_engines_may_change_at_a_start(bench: Bench) -> None:
    bench.stream.add(events((1, 0, 1)))
    job = bench.job(engines=3)
    job.query("rises", RISES).write(bench.keep("rises"))
    run = job.start(available_now=True)
    run.move({0: 2, 5: 0})
    run.await_termination()
    bench.run(
        events((1, 1, 0)), options={"engines": None}, rises=RISES
    )  # even if the move came after the first run's last batch, this one applies it
    moved = bench.manifest()["placement"]
    assert (moved[0], moved[5]) == (2, 0)
    assert bench.manifest()["engines"] == 3
    run = bench.run(events((1, 2, 5)), options={"engines": None}, rises=RISES)
    assert list(run.placement["t"].owner) == bench.manifest()["placement"] == moved
    run = bench.run(events((1, 3, 1)), events((1, 60, 1)), options={"engines": 2}, rises=RISES)
    assert [len(batch.engines) for batch in run.history] == [2, 2]
    assert set(bench.manifest()["placement"]) == {0, 1}
    assert plain(bench.rows("rises")) == [(1, 0, 5)]
    assert run.history[0].moved >= 2
    assert run.history[1].moved == 0


def test_an_added_query_starts_fresh_and_the_state_of_a_removed_one_is_swept(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), gone=COUNTS.replace("10 seconds", "1 hour"))
    before = bench.segments()
    assert before
    tables = [events((1, second, second)) for second in range(1, KEEP + 2)]
    bench.run(*tables, rises=RISES)
    assert plain(bench.rows("rises")) == [(1, 1, 2)], "the query was added after the first row"
    assert not before & bench.segments()
    assert set(bench.manifest()["queries"]) == {"rises"}
    assert len(bench.manifests()) == KEEP
    named = {file[0] for file in bench.manifest()["segments"]}
    assert named <= bench.segments()


def test_a_changed_query_is_refused_by_name_and_can_be_reset(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), rises=RISES, columns=COLUMNS)
    before = bench.manifests()
    with pytest.raises(JobError, match="query rises is not the one") as raised:
        bench.run(rises=RISES.replace("B.x > A.x", "B.x < A.x"), columns=COLUMNS)
    assert raised.value.code == "job.changed-query"
    assert "reset=True" in raised.value.hint
    assert bench.manifests() == before
    bench.stream.add(events((1, 1, 0)))
    bench.stream.add(events((1, 2, -1)))
    job = bench.job()
    job.query("rises", RISES.replace("B.x > A.x", "B.x < A.x"), reset=True).write(bench.keep("rises"))
    job.query("columns", COLUMNS).write(bench.keep("columns"))
    finished(job, close=True)
    assert plain(bench.rows("rises")) == [(1, 0, -1)], "the row before the reset is forgotten"
    assert len(bench.rows("columns")) == 3


def test_state_from_before_queries_were_signed_is_refused_and_can_be_reset(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), rises=RISES)
    folder = Folder(str(bench.home / "manifests"))
    newest = manifests.newest(folder)
    assert newest is not None
    unsigned = dataclasses.replace(newest.queries["rises"], fingerprint="ab" * 32)
    earlier = dataclasses.replace(newest, queries={"rises": unsigned})
    folder.write(manifests.manifest_name(newest.batch), earlier.to_bytes())
    with pytest.raises(JobError, match="before queries were signed") as raised:
        bench.run(rises=RISES)
    assert raised.value.code == "job.unsigned-query"
    job = bench.job()
    job.query("rises", RISES, reset=True).write(bench.keep("rises"))
    finished(job)


def test_a_stream_that_was_forgotten_begins_another_incarnation(bench: Bench) -> None:
    other = FileStream(bench.folder / "u", bench.spark, SCHEMA)
    other.add(events((1, 0, 1)))

    batches: set[tuple[int, str]] = set()

    def by_batch(frame: Any, batch: int, incarnation: str) -> None:
        del frame
        batches.add((batch, incarnation))

    def run(*streams: str) -> None:
        job = bench.job(engines=1)
        job.stream("u", other.frame(), event_time="ts")
        for name in streams:
            sql = COLUMNS.replace("FROM t", f"FROM {name}")
            handle = job.query(f"q{name}", sql).write("parquet", path=str(bench.folder / f"out-{name}"))
            if name == "t":
                handle.write(by_batch)
        finished(job)

    bench.stream.add(events((1, 0, 1)))
    run("t")
    run("u")  # the stream t is not read any more, and is forgotten
    run("t", "u")
    files = [path.name for path in (bench.folder / "out-t").glob("qt-*-000000000-000.parquet")]
    assert len(files) == 2, "the first batch of each incarnation is another batch"
    assert sorted(batch for batch, _ in batches) == [0, 0], "functions can tell them apart, too"


def test_a_query_may_change_what_it_computes_from_its_matches(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), rises=f"SELECT k, a FROM ({RISES})")
    bench.run(events((1, 1, 2)), close=True, rises=f"SELECT k AS key, b * 10 AS b FROM ({RISES})")
    assert bench.rows("rises") == [{"key": 1, "b": 20}]


def test_the_number_of_key_groups_is_fixed(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), columns=COLUMNS)
    with pytest.raises(JobError, match="has 8 key groups, not 16") as raised:
        bench.run(options={"key_groups": 16}, columns=COLUMNS)
    assert raised.value.code == "job.key-groups"


def test_a_checkpoint_has_one_job_at_a_time(bench: Bench) -> None:
    job = bench.job()
    job.query("columns", COLUMNS).write(bench.keep("columns"))
    run = job.start(trigger="50 milliseconds")
    try:
        with pytest.raises(StateError) as raised:
            bench.run(columns=COLUMNS)
        assert raised.value.code == "state.locked"
    finally:
        run.stop()
    bench.run(events((1, 0, 1)), columns=COLUMNS)
    assert plain(bench.rows("columns")) == [(1, 1)]


def test_a_committed_batch_that_spark_has_forgotten_is_not_run_twice(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), events((2, 1, 2)), columns=COLUMNS)
    bench.calls.clear()
    bench.forget_commit(1)
    run = bench.run(columns=COLUMNS)
    assert bench.calls == []
    assert run.progress.batches == 0
    run = bench.run(events((3, 2, 3)), columns=COLUMNS)
    assert [batch.batch for batch in run.history] == [2]
    assert bench.calls == [("columns", 2)]
    assert bench.manifest()["events"] == 3


def test_a_batch_that_was_delivered_but_not_committed_gives_no_duplicates(bench: Bench) -> None:
    def start() -> None:
        job = bench.job()
        job.query("columns", COLUMNS).write("parquet", path=str(bench.folder / "out")).write(bench.keep("columns"))
        job.query("rises", RISES).write("parquet", path=str(bench.folder / "rises"))
        finished(job)

    for second in range(3):
        bench.stream.add(events((1, second, second), (2, second, -second)))
    start()
    expected = plain(bench.parquet("out")), plain(bench.parquet("rises"))
    given = dict(bench.given["columns"])
    bench.forget_commit(2)
    bench.manifests()[-1].unlink()
    start()
    assert (plain(bench.parquet("out")), plain(bench.parquet("rises"))) == expected
    assert len(expected[0]) == 6
    assert bench.given["columns"] == given, "the same rows under the same number"
    assert bench.calls[-1] == ("columns", 2)


def test_a_batch_that_was_begun_is_repeated_as_it_was_planned_whatever_was_changed_since(bench: Bench) -> None:
    batches = [events((1, 0, 1), (2, 0, 5)), events((1, 1, 2), (2, 1, 9)), events((3, 30, 0))]
    bench.run(*batches, rises=RISES, counts=COUNTS)
    given = {query: dict(by_batch) for query, by_batch in bench.given.items()}
    assert len(given["rises"][2]) == 2
    bench.forget_commit(2)
    bench.manifests()[-1].unlink()  # as if the job had died between the sinks and the manifest
    bench.calls.clear()
    run = bench.run(
        events((1, 40, 1)), options={"delay": "1 hour", "engines": 3}, rises=f"SELECT k FROM ({RISES})", columns=COLUMNS
    )
    assert bench.given["rises"] == given["rises"], "the same rows, and nothing more is decided with an hour's delay"
    assert bench.given["counts"] == given["counts"]
    assert set(bench.given["columns"]) == {3}, "changes from the next batch on"
    assert [len(batch.engines) for batch in run.history] == [2, 3]
    assert set(bench.manifest()["queries"]) == {"rises", "columns"}


def test_an_end_of_the_input_that_was_begun_is_finished_by_the_next_start(bench: Bench) -> None:
    def start(*, close: bool) -> None:
        job = bench.job()
        job.query("counts", COUNTS).write("parquet", path=str(bench.folder / "out")).write(bench.keep("counts"))
        finished(job, close=close)

    bench.stream.add(events((1, 0, 1)))
    start(close=True)
    given = dict(bench.given["counts"])
    bench.manifests()[-1].unlink()  # as if the job had died between the sinks and the manifest
    bench.stream.add(events((1, 1, 2)))  # too late: the sinks already have the rows of the end
    with pytest.raises(JobError, match="was closed and can't be reopened"):
        start(close=False)
    assert bench.given["counts"] == given
    assert plain(bench.parquet("out")) == [(1, 1, 1)]
    assert bench.manifest()["closed"]


def test_a_job_that_ended_while_it_closed_its_streams_can_close_the_others(bench: Bench) -> None:
    other = FileStream(bench.folder / "u", bench.spark, SCHEMA)
    other.add(events((2, 0, 5)))
    bench.stream.add(events((1, 0, 1)))

    def start(*, close: bool) -> None:
        job = bench.job()
        job.stream("u", other.frame(), event_time="ts")
        job.query("here", COUNTS).write(bench.keep("here"))
        job.query("there", COUNTS.replace("FROM t", "FROM u")).write(bench.keep("there"))
        finished(job, close=close)

    start(close=True)
    assert (plain(bench.rows("here")), plain(bench.rows("there"))) == ([(1, 1, 1)], [(2, 1, 5)])
    manifests = bench.checkpoint / "streams" / "u" / "manifests"
    max(manifests.glob("*.json")).unlink()
    bench.calls.clear()
    bench.given.clear()
    with pytest.raises(JobError, match="start it with close=True to close the others"):
        start(close=False)
    start(close=True)
    assert bench.calls == [("there", 1)]
    assert plain(bench.rows("there")) == [(2, 1, 5)]
    with pytest.raises(JobError, match="stream t, u was closed"):
        start(close=True)


def test_a_stream_that_is_no_longer_read_is_forgotten(bench: Bench) -> None:
    other = FileStream(bench.folder / "u", bench.spark, SCHEMA)
    other.add(events((2, 0, 5)))
    bench.stream.add(events((1, 0, 1)))
    job = bench.job()
    job.stream("u", other.frame(), event_time="ts")
    job.query("here", COLUMNS).write(bench.keep("here"))
    job.query("there", COLUMNS.replace("FROM t", "FROM u")).write(bench.keep("there"))
    finished(job)
    bench.run(here=COLUMNS)
    assert not (bench.checkpoint / "streams" / "u").exists()
    assert not (bench.checkpoint / "spark" / "u").exists()


def test_folders_that_do_not_belong_together_are_refused(bench: Bench) -> None:
    for second in range(3):
        bench.stream.add(events((1, second, second)))
    bench.run(rises=RISES)
    for manifest in bench.manifests()[1:]:
        manifest.unlink()
    with pytest.raises(StateError, match=r"Spark goes on with batch 3 .*state ends before 1") as raised:
        bench.run(events((1, 9, 9)), rises=RISES)
    assert raised.value.code == "state.missing-version"
    shutil.rmtree(bench.checkpoint / "spark")
    with pytest.raises(StateError, match=r"ends with Spark's batch 0, which .*offsets lacks") as raised:
        bench.run(rises=RISES)
    assert raised.value.code == "state.missing-version"


def test_state_is_merged_beside_the_stream_and_survives_a_restart(bench: Bench) -> None:
    hours = COUNTS.replace("10 seconds", "1 hour")
    bench.run(*(events((second % 3, second, 1), (9, second, second)) for second in range(14)), counts=hours)
    runs = bench.manifest()["queries"]["counts"]["runs"]
    assert len({run[2] for run in runs}) < 14, "runs of several batches have become one"
    bench.run(events((9, 20, 0)), close=True, options={"engines": 3}, counts=hours)
    assert plain(bench.rows("counts")) == [(0, 5, 5), (1, 5, 5), (2, 4, 4), (9, 15, 91)]
