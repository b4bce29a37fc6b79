"""What engines put out beyond a size doesn't pass through the driver, whatever the sink: it is left in files."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.bench import COUNTS, DAWN, SCHEMA, Bench, finished
from trimtab.worker.orders import INLINE_BYTES

ROWS = 120_000


def many(first_s: int) -> pa.Table:
    times = pa.array([DAWN + datetime.timedelta(seconds=first_s, microseconds=n) for n in range(ROWS)])
    table = pa.table({"k": [n % 50 for n in range(ROWS)], "ts": times, "x": list(range(ROWS))}, schema=SCHEMA)
    assert table.nbytes > INLINE_BYTES
    return table


def test_every_sink_gets_all_rows_of_a_large_output(bench: Bench) -> None:
    from_files: list[bool] = []
    counts: list[int] = []

    def function(frame: Any, batch: int) -> None:
        del batch
        from_files.append("FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString())
        counts.append(frame.count())

    bench.stream.add(many(0))
    job = bench.job(engines=1)
    handle = job.query("all", "SELECT k, ts, x FROM t")
    handle.write("parquet", path=str(bench.folder / "parquet")).write(function)
    handle.write("json", path=str(bench.folder / "json")).write("memory", view="all_rows")
    finished(job)
    assert from_files == [True]
    assert counts == [ROWS]
    read = bench.spark.read
    for found in (read.parquet(str(bench.folder / "parquet")), bench.spark.table("all_rows")):
        assert found.agg({"x": "sum"}).collect()[0][0] == ROWS * (ROWS - 1) // 2
        assert found.schema["ts"].dataType.typeName() == "timestamp"
    assert read.json(str(bench.folder / "json")).count() == ROWS
    assert not list((bench.home / "outbox").iterdir()), "the files are deleted with the commit"


@pytest.mark.parametrize("sink", ["function", "parquet"])
def test_late_rows_and_those_in_quarantine_are_whole_and_written_by_the_engines(bench: Bench, sink: str) -> None:
    late = many(0)
    bad = late.set_column(1, "ts", pa.nulls(ROWS, pa.timestamp("us")))
    for table in (many(3600).slice(0, 10), late, bad):
        bench.stream.add(table)
    job, stream = bench.job_and_stream(engines=1)
    counts: dict[str, int] = {}

    def count(name: str) -> Any:
        def function(frame: Any, batch: int) -> None:
            del batch
            counts[name] = counts.get(name, 0) + frame.count()

        return function

    for name, to in (("late", stream.late), ("bad", stream.quarantine)):
        if sink == "function":
            to(count(name))
        else:
            to("parquet", path=str(bench.folder / name))
    job.query("counts", COUNTS).write(bench.keep("counts"))
    run = finished(job)
    assert (run.progress.late, run.progress.quarantined) == (ROWS, ROWS)
    if sink == "parquet":
        for name in ("late", "bad"):
            frame = bench.spark.read.parquet(str(bench.folder / name))
            counts[name] = frame.count()
            assert frame.columns[:3] == ["k", "ts", "x"]
        assert frame.columns[3:] == ["query", "reason"]
    assert counts == {"late": ROWS, "bad": ROWS}
