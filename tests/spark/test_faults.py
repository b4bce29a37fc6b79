"""A fault ends a job with an error that names it, and nothing is lost or doubled when the job is started again."""

from __future__ import annotations

import errno
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.bench import COLUMNS, RISES, SCHEMA, Bench, events, finished
from trimtab.api.job import Job
from trimtab.errors import JobError, OperatorError, StateError, ThreadLimitError, TrimtabError, places_of
from trimtab.state.manifest import FORMAT, seal


def contents(folder: pathlib.Path) -> dict[str, str]:
    """A digest of every file of a checkpoint except the lock, which every start writes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def flipped(segment: pathlib.Path) -> None:
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)


def cut_off(segment: pathlib.Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-10])


def foreign(segment: pathlib.Path) -> None:
    segment.write_bytes(b"these are the notes of another program\n")


@pytest.mark.parametrize("damage", [flipped, cut_off, foreign, pathlib.Path.unlink])
def test_a_damaged_segment_is_found_before_it_is_used_and_no_state_is_touched(
    bench: Bench, damage: Callable[[pathlib.Path], None]
) -> None:
    bench.run(events((1, 0, 1)), rises=RISES)
    (name,) = bench.segments()
    damage(bench.home / "segments" / name)
    before = contents(bench.checkpoint)
    with pytest.raises(StateError, match=name) as raised:
        bench.run(events((1, 1, 2)), rises=RISES)
    assert raised.value.code == ("state.missing" if damage is pathlib.Path.unlink else "state.corrupt")
    if damage is flipped:  # an engine found it, in its first batch
        (manifest,) = bench.manifests()
        kept = (f"streams/t/segments/{name}", f"streams/t/manifests/{manifest.name}")
        assert all(contents(bench.checkpoint)[each] == before[each] for each in kept)
    else:
        assert contents(bench.checkpoint) == before
    assert bench.calls == []


def test_manifests_that_cannot_be_read_are_named(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), rises=RISES)
    (manifest,) = bench.manifests()
    good = manifest.read_bytes()
    manifest.write_bytes(seal(FORMAT + 1, {"more": "than is known"}))
    with pytest.raises(StateError, match=manifest.name) as raised:
        bench.run(rises=RISES)
    assert raised.value.code == "state.newer"
    manifest.write_bytes(good.replace(b'"late":0', b'"late":1'))
    before = contents(bench.checkpoint)
    with pytest.raises(StateError, match=manifest.name) as raised:
        bench.run(rises=RISES)
    assert raised.value.code == "state.corrupt"
    assert contents(bench.checkpoint) == before
    manifest.write_bytes(good)
    bench.run(events((1, 1, 2)), close=True, rises=RISES)
    assert bench.rows("rises") == [{"k": 1, "a": 1, "b": 2}]


def test_a_checkpoint_that_vanishes_ends_the_job(bench: Bench) -> None:
    for second in range(4):
        bench.stream.add(events((1, second, second)))

    def vanish(frame: Any, batch: int) -> None:
        del frame
        if batch == 1:
            shutil.rmtree(bench.checkpoint)

    job = bench.job()
    job.query("columns", COLUMNS).write(vanish)
    job.query("rises", RISES).write(bench.keep("rises"))
    with pytest.raises(StateError, match=str(bench.checkpoint)):
        finished(job)
    assert bench.calls == []


def test_a_full_disk_in_the_driver_costs_a_restart_and_no_row(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync
    left = [2]  # the start reserves the next manifest: the file and its folder

    def full(descriptor: int) -> None:
        if "manifests" in os.readlink(f"/proc/self/fd/{descriptor}"):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    bench.run(events((1, 0, 1)), rises=RISES, columns=COLUMNS)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StateError, match="no room left") as raised:
            bench.run(events((1, 1, 2)), rises=RISES, columns=COLUMNS)
    assert raised.value.code == "state.disk-full"
    assert len(bench.manifests()) == 1
    bench.run(close=True, rises=RISES, columns=COLUMNS)
    assert bench.rows("rises") == [{"k": 1, "a": 1, "b": 2}]
    assert bench.calls.count(("columns", 1)) == 2, "the batch was repeated under its number"
    assert len(bench.rows("columns")) == 2


def test_a_full_disk_in_a_worker_costs_a_restart_and_no_row(bench: Bench) -> None:
    small = bench.home / "segments"
    small.mkdir(parents=True)
    # A folder alone is no checkpoint, so a job without data creates one.
    shutil.rmtree(bench.checkpoint)
    bench.run(rises=RISES)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("file systems can't be mounted here")
    try:
        rows = [(key, 0.0, key) for key in range(200)]
        with pytest.raises(StateError, match="no room left") as raised:
            bench.run(events(*rows), rises=RISES)
        assert raised.value.code == "state.disk-full"
        assert bench.manifests() == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
    bench.run(events((7, 1, 8)), close=True, rises=RISES)
    assert bench.rows("rises") == [{"k": 7, "a": 7, "b": 8}]


class SinkError(Exception):
    """What a user's own sink may raise."""


def test_a_sink_that_fails_ends_the_job_and_gets_the_same_batch_again(bench: Bench) -> None:
    for second in range(3):
        bench.stream.add(events((1, second, second), (2, second, -second)))
    taken: list[tuple[int, list[dict[str, Any]]]] = []
    broken = [True]

    def sink(frame: Any, batch: int) -> None:
        taken.append((batch, frame.toArrow().to_pylist()))
        if batch == 1 and broken[0]:
            raise SinkError("the database is down")

    def start() -> None:
        job = bench.job()
        job.query("columns", COLUMNS).write(sink)
        finished(job)

    for _ in range(2):  # a failing batch fails at every start: nothing is skipped silently
        with pytest.raises(JobError, match="the database is down") as raised:
            start()
        assert raised.value.code == "job.sink-failed"
        assert isinstance(raised.value.__cause__, SinkError)
        assert re.match(
            r"error\[job.sink-failed\]: sink tests.spark.test_faults.\S+sink of columns failed in batch 1: SinkError: ",
            str(raised.value),
        )
        assert places_of(raised.value) == "batch 1 of stream t"
    broken[0] = False
    start()
    assert [batch for batch, _ in taken] == [0, 1, 1, 1, 2]
    assert taken[1] == taken[2] == taken[3]
    assert bench.manifest()["events"] == 6


def failing(bench: Bench, sql: str, **options: Any) -> TrimtabError:
    job: Job = bench.job(**options)
    job.query("q", sql).write(bench.keep("q"))
    with pytest.raises(TrimtabError) as raised:
        finished(job, close=True)
    return raised.value


def test_an_operator_that_fails_in_a_worker_is_named_at_every_start(spark: Any, tmp_path: pathlib.Path) -> None:
    schema = SCHEMA.set(2, pa.field("x", pa.string()))
    bench = Bench(spark, tmp_path, schema)
    for second in range(2):
        rows = events((1, second, 0))
        bench.stream.add(rows.set_column(2, "x", pa.array(["many"])))
    for _ in range(2):
        error = failing(bench, "SELECT * FROM runs_of(TABLE(t) PARTITION BY k ORDER BY ts, 1)")
        assert isinstance(error, OperatorError)
        assert "runs_of: on_rows for k = 1: TypeError" in str(error)
        assert places_of(error) == "query q, batch 1 of stream t"
    assert bench.manifest()["batch"] == 0, "the first row is committed, the second one waits"


def test_a_python_function_that_fails_in_a_query_names_the_query(bench: Bench) -> None:
    def inverse(x: float) -> float:
        return 1 / x

    bench.spark.udf.register("inverse", inverse, "double")
    bench.stream.add(events((1, 0, 0)))
    job = bench.job()
    job.query("plain", COLUMNS).write(bench.keep("plain"))
    job.query("inverses", "SELECT k, ts, inverse(x) AS x FROM t").write(bench.keep("inverses"))
    with pytest.raises(Exception, match="ZeroDivisionError") as raised:
        finished(job)
    assert places_of(raised.value) == "query inverses, batch 0 of stream t"


def test_too_many_partial_matches_in_a_worker_are_an_error_with_the_key(bench: Bench) -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS n
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) DEFINE C AS C.x > SUM(A.x) + SUM(B.x))"""
    bench.stream.add(events(*((5, second, 1) for second in range(20))))
    error = failing(bench, sql, max_threads=3)
    assert isinstance(error, ThreadLimitError)
    assert "first k=5" in str(error)
    assert places_of(error) == "query q, batch 0 of stream t"
    assert bench.manifests() == []


def test_when_one_stream_fails_the_others_stop_and_keep_what_they_have(bench: Bench) -> None:
    from tests.support.spark_laws import FileStream

    other = FileStream(bench.folder / "u", bench.spark, SCHEMA)
    other.add(events((1, 0, 1)))
    bench.stream.add(events((1, 0, 1)))

    def broken(_: Any, batch: int) -> None:
        raise SinkError(f"batch {batch}")

    def start(sink: Any) -> None:
        job = bench.job()
        job.stream("u", other.frame(), event_time="ts")
        job.query("here", COLUMNS).write(sink)
        job.query("there", COLUMNS.replace("FROM t", "FROM u")).write(bench.keep("there"))
        finished(job)

    with pytest.raises(JobError, match="SinkError: batch 0"):
        start(broken)
    start(bench.keep("here"))
    assert bench.rows("here") == bench.rows("there") == [{"k": 1, "x": 1}]
