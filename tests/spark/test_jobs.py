"""What jobs do on Spark, shown by small jobs."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.bench import COLUMNS, COUNTS, RISES, SCHEMA, SILENT, Bench, events, finished
from tests.support.spark_laws import FileStream
from trimtab import evaluate
from trimtab.api.job import Job
from trimtab.errors import InputError, JobError

SITES = "SELECT x, COUNT(*) AS n FROM t GROUP BY x, window(ts, '10 seconds')"


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def test_queries_with_other_keys_share_a_stream(bench: Bench) -> None:
    run = bench.run(
        events((1, 0, 7), (2, 1, 7)),
        events((1, 2, 8), (2, 3, 9)),
        close=True,
        counts=COUNTS,
        sites=SITES,
        rises=RISES,
        columns=COLUMNS,
    )
    assert plain(bench.rows("counts")) == [(1, 2, 15), (2, 2, 16)]
    assert plain(bench.rows("sites")) == [(7, 2), (8, 1), (9, 1)]
    assert plain(bench.rows("rises")) == [(1, 7, 8), (2, 7, 9)]
    assert plain(bench.rows("columns")) == [(1, 7), (1, 8), (2, 7), (2, 9)]
    assert run.progress.events == 4, "a row counts once, however many routes it takes"
    assert run.progress.matches == {"counts": 2, "sites": 3, "rises": 2, "columns": 4}
    assert [batch.events for batch in run.history] == [2, 2, 0]
    assert all(len(batch.engines) == 2 for batch in run.history)


def test_rows_that_a_query_filters_out_still_raise_its_watermark(bench: Bench) -> None:
    filtered = COUNTS.replace("FROM t", "FROM t WHERE x > 0")
    run = bench.run(events((1, 0, 1), (2, 1, 0)), events((2, 60, 0)), events((2, 61, 0)), counts=filtered)
    assert plain(bench.rows("counts")) == [(1, 1, 1)], "decided before the end of the input"
    assert run.progress.events == 4
    assert bench.manifest()["events"] == 4


def test_an_idle_key_times_out_because_other_keys_raise_the_watermark(bench: Bench) -> None:
    tables = [events(*((key, key / 10, key) for key in range(8))), events((9, 60, 0)), events((9, 61, 0))]
    bench.run(*tables, silent=SILENT)
    assert plain(bench.rows("silent")) == [(key, key) for key in range(8)]


def test_two_streams_have_their_own_time_and_state(bench: Bench) -> None:
    other = FileStream(bench.folder / "u", bench.spark, SCHEMA)
    other.add(events((1, 1000, 5), (1, 1001, 6)))
    bench.stream.add(events((1, 0, 1)))
    bench.stream.add(events((1, 1, 2)))
    job = bench.job()
    job.stream("u", other.frame(), event_time="ts")
    job.query("here", RISES).write(bench.keep("here"))
    job.query("there", RISES.replace("FROM t", "FROM u")).write(bench.keep("there"))
    run = finished(job, close=True)
    assert plain(bench.rows("here")) == [(1, 1, 2)]
    assert plain(bench.rows("there")) == [(1, 5, 6)]
    assert set(run.progress.streams) == {"t", "u"}
    assert set(run.placement) == {"t", "u"}
    with pytest.raises(JobError, match="there is no stream v"):
        run.move({0: 0}, stream="v")


def test_parquet_is_readable_by_spark_and_by_pandas(bench: Bench) -> None:
    import pandas

    bench.stream.add(events((1, 0, 1), (2, 0, 5)))
    bench.stream.add(events((1, 1, 2), (2, 1, 4)))
    job = bench.job()
    path = str(bench.folder / "out")
    job.query("rises", RISES).write("parquet", path=path)
    job.query("timed", "SELECT ts, x FROM t").write("parquet", path=str(bench.folder / "timed"), compression="zstd")
    finished(job, close=True)
    assert [tuple(row) for row in bench.spark.read.parquet(path).collect()] == [(1, 1, 2)]
    assert pandas.read_parquet(path).to_dict("records") == [{"k": 1, "a": 1, "b": 2}]
    timed = bench.spark.read.parquet(str(bench.folder / "timed"))
    assert timed.schema["ts"].dataType.typeName() == "timestamp"
    assert timed.count() == 4


def test_a_function_gets_rows_in_order_of_time_and_the_number_of_the_batch(bench: Bench) -> None:
    keys = range(6)
    timed = "SELECT k, ts, SUM(x) OVER (PARTITION BY k ORDER BY ts) AS s FROM t"
    tables = [events(*((key, 10 * part + (7 * key) % 5, 1) for key in keys)) for part in range(3)]
    for engines in (1, 3):
        other = Bench(bench.spark, bench.folder / str(engines))
        other.run(*tables, close=True, options={"engines": engines}, timed=timed)
        assert [batch for _, batch in other.calls] == sorted({batch for _, batch in other.calls})
        for rows in other.given["timed"].values():
            times = [row["ts"] for row in rows]
            assert times == sorted(times)
        assert len(other.rows("timed")) == 18


def test_rows_can_go_to_a_view_to_the_console_and_to_any_format(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.stream.add(events((1, 0, 1)))
    bench.stream.add(events((1, 1, 2)))
    job = bench.job()
    query = job.query("columns", COLUMNS).write("memory").write("console", rows=1)
    query.write("json", path=str(bench.folder / "json")).write("memory", view="again")
    finished(job)
    expected = [(1, 1), (1, 2)]
    for view in ("columns", "again"):
        assert sorted(map(tuple, bench.spark.table(view).collect())) == expected
    assert sorted(map(tuple, bench.spark.read.json(str(bench.folder / "json")).collect())) == expected
    shown = capsys.readouterr().out
    assert "-- columns, batch 0: 1 rows\nk  x\n1  1" in shown
    assert "-- columns, batch 1: 1 rows" in shown


def test_rows_that_cannot_be_taken_go_to_quarantine_with_the_reason(bench: Bench) -> None:
    # Spark raises for an index of 0.
    fails = "SELECT k, ELEMENT_AT(ARRAY(10, 20), CAST(x AS INT)) AS v FROM t"
    bench.stream.add(events((1, 0, 1), (1, 0, 0), (None, 1, 2), (2, None, 2), (2, 2, 2)))
    job, stream = bench.job_and_stream()
    stream.quarantine(bench.keep("bad")).quarantine("parquet", path=str(bench.folder / "bad"))
    job.query("picked", fails).write(bench.keep("picked"))
    job.query("counts", COUNTS).write(bench.keep("counts"))
    run = finished(job, close=True)
    assert plain(bench.rows("counts")) == [(1, 2, 1), (2, 1, 2)]
    assert sorted(map(str, plain_values(bench.rows("picked")))) == ["(1, 10)", "(2, 20)", "(None, 20)"]
    reasons = {(row["k"], row["x"]): (row["query"], row["reason"]) for row in bench.rows("bad")}
    assert reasons == {
        (1, 0): ("picked", "query picked can't compute its columns of this row"),
        (None, 2): ("counts", "k is null, and rows are keyed by it"),
        (2, 2): (None, "ts is null"),
    }
    assert len(bench.parquet("bad")) == 3
    assert run.progress.quarantined == bench.manifest()["quarantined"] == 3


def plain_values(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows]


def test_late_rows_are_counted_and_go_to_their_sink(bench: Bench) -> None:
    for table in (events((1, 0, 1), (1, 20, 2)), events((1, 16, 3), (1, 14.9, 4), (2, 3, 5))):
        bench.stream.add(table)
    job, stream = bench.job_and_stream(delay="5 seconds")
    stream.late(bench.keep("late"))
    job.query("counts", COUNTS).write(bench.keep("counts"))
    run = finished(job, close=True)
    assert plain(bench.rows("counts")) == [(1, 1, 1), (1, 1, 2), (1, 1, 3)]
    assert sorted(row["x"] for row in bench.rows("late")) == [4, 5]
    assert list(bench.rows("late")[0]) == SCHEMA.names
    assert run.progress.late == bench.manifest()["late"] == 2


def test_moves_and_resizes_take_effect_in_the_next_batch_and_can_be_requested_in_a_batch(bench: Bench) -> None:
    for second in range(5):
        bench.stream.add(events(*((key, second, second + key) for key in range(6))))
    job = bench.job(engines=2)
    runs: list[Any] = []

    def disturb(frame: Any, batch: int) -> None:
        bench.keep("columns")(frame, batch)
        while not runs:
            time.sleep(0.01)
        (run,) = runs
        match batch:
            case 0:
                run.resize(4)
                run.move({0: 3})  # to an engine that only the next batch has
            case 1:
                run.resize(1)
            case 2:
                with pytest.raises(JobError, match="engines are 0 to 0"):
                    run.move({1: 1})  # an engine that the batch under way no longer has
            case 3:
                run.resize(3)

    job.query("columns", COLUMNS).write(disturb)
    job.query("rises", RISES).write(bench.keep("rises"))
    run = _start_held(job, runs)
    run.await_termination()
    assert [len(batch.engines) for batch in run.history] == [2, 4, 1, 1, 3]
    assert run.placement["t"].engines == 3
    assert len(bench.rows("columns")) == 30
    assert len(bench.rows("rises")) == 12
    for bad in ({8: 0}, {0: 3}, {-1: 0}):
        with pytest.raises(JobError) as raised:
            run.move(bad)
        assert raised.value.code == "job.move"
    for number in (0, 9, -1):
        with pytest.raises(JobError) as raised:
            run.resize(number)
        assert raised.value.code == "job.engines"


def _start_held(job: Job, runs: list[Any]) -> Any:
    run = job.start(available_now=True)
    runs.append(run)
    return run


def test_a_running_job_takes_no_more_streams_queries_or_sinks(bench: Bench) -> None:
    job, stream = bench.job_and_stream()
    query = job.query("q", COLUMNS).write(bench.keep("q"))
    run = job.start()
    try:
        for change in (
            lambda: job.query("r", COLUMNS),
            lambda: job.stream("u", bench.stream.frame(), event_time="ts"),
            lambda: query.write("console"),
            lambda: stream.late("console"),
            lambda: stream.quarantine("console"),
        ):
            with pytest.raises(JobError, match="stop it") as raised:
                change()
            assert raised.value.code == "job.running"
    finally:
        run.stop()
    job.query("r", COLUMNS).write(bench.keep("r"))
    bench.stream.add(events((1, 0, 1)))
    finished(job)
    assert bench.rows("q") == bench.rows("r") == [{"k": 1, "x": 1}]


def test_a_continuous_job_takes_files_as_they_come_until_it_is_stopped(bench: Bench) -> None:
    bench.stream.add(events((1, 0, 1)))
    job = bench.job()
    job.query("rises", RISES).write("parquet", path=str(bench.folder / "out"))
    run = job.start(trigger="50 milliseconds")
    try:
        assert not run.await_termination(0.01)
        bench.stream.add(events((1, 1, 2)))
        bench.stream.add(events((1, 60, 0)))
        for _ in range(600):
            if run.progress.batches >= 3 or not run.is_active:
                break
            run.await_termination(0.1)
    finally:
        run.stop()
    assert run.await_termination()
    assert not run.is_active
    assert run.progress.events == 3
    files = list((bench.folder / "out").glob("*.parquet"))
    assert pa.concat_tables([pq.read_table(file) for file in files]).to_pylist() == [{"k": 1, "a": 1, "b": 2}]


def test_a_job_can_be_stopped_from_inside_a_batch(bench: Bench) -> None:
    for second in range(4):
        bench.stream.add(events((1, second, second)))
    job = bench.job()
    runs: list[Any] = []

    def stop(frame: Any, batch: int) -> None:
        bench.keep("columns")(frame, batch)
        while not runs:
            time.sleep(0.01)
        runs[0].stop()

    job.query("columns", COLUMNS).write(stop)
    run = _start_held(job, runs)
    assert run.await_termination(60)
    assert [batch for _, batch in bench.calls] == [0]
    bench.run(columns=COLUMNS)
    assert plain(bench.rows("columns")) == [(1, second) for second in range(4)]


def test_evaluate_says_what_to_do_with_a_dataframe(spark: Any) -> None:
    frame = spark.range(3)
    with pytest.raises(InputError) as caught:
        evaluate("SELECT id FROM t", {"t": frame})
    assert caught.value.code == "input.table"
    assert "t.toArrow()" in caught.value.hint
    assert "trimtab.Job" in caught.value.hint
    assert evaluate("SELECT id FROM t", {"t": frame.toArrow()}).num_rows == 3
