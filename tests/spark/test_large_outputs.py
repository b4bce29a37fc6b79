"""What engines put out beyond a size doesn't pass through the driver, whatever the sink: it is left in files."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.spark.bench import COUNTS, DAWN, SCHEMA, Bench, finished
from trimtab.spark.parquet_sink import ParquetSink
from trimtab.spark.sinks import Delivery
from trimtab.state.files import Folder
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
    types: list[str] = []

    def function(frame: Any, batch: int) -> None:
        del batch
        from_files.append("FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString())
        counts.append(frame.count())
        types.append(frame.schema["local"].dataType.typeName())

    bench.stream.add(many(0))
    job = bench.job(engines=1)
    handle = job.query("all", "SELECT k, ts, x, CAST(ts AS TIMESTAMP_NTZ) AS local FROM t")
    handle.write("parquet", path=str(bench.folder / "parquet")).write(function)
    handle.write("delta", path=str(bench.folder / "delta"))
    handle.write("json", path=str(bench.folder / "json"), partitionBy="k").write("memory", view="all_rows")
    finished(job)
    assert from_files == [True]
    assert (counts, types) == ([ROWS], ["timestamp_ntz"])
    read = bench.spark.read
    for found in (read.parquet(str(bench.folder / "parquet")), bench.spark.table("all_rows")):
        assert found.agg({"x": "sum"}).collect()[0][0] == ROWS * (ROWS - 1) // 2
        assert [found.schema[name].dataType.typeName() for name in ("ts", "local")] == ["timestamp", "timestamp_ntz"]
    table = DeltaTable(str(bench.folder / "delta"))
    assert (pa.table(table.get_add_actions())["num_records"].to_pylist(), table.version()) == ([ROWS], 0)
    assert [str(column.type.type) for column in table.schema().fields[1::2]] == ["timestamp", "timestamp_ntz"]
    (file,) = (bench.folder / "delta").glob("*.parquet")
    assert file.name.startswith("all-"), "a task wrote it"
    assert read.json(str(bench.folder / "json")).count() == ROWS
    assert len(list((bench.folder / "json").glob("k=*"))) == 50
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


@pytest.mark.parametrize("place", ["local", "store"])
def test_a_large_output_is_copied_in_parts(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be larger than the driver's memory, also if a further sink needs it, or if it is in an object store."""
    outbox = Folder(str(tmp_path / "outbox"))
    outbox.make()
    rows = many(0).slice(0, 1_000)
    pq.write_table(rows, outbox.path_of("e0.parquet"))

    def refused(folder: Folder, name: str) -> Any:
        raise AssertionError(f"{name} of {folder} was read as a whole")

    monkeypatch.setattr(Folder, "read_tagged", refused)
    if place == "store":  # a folder whose files have no path, as in a store
        monkeypatch.setattr(Folder, "is_local", property(lambda folder: folder.location != outbox.location))
        monkeypatch.setattr(Folder, "_objects", lambda _: _Store(tmp_path / "outbox"))
    sink = ParquetSink(str(tmp_path / "out"))
    sink.prepare("q", ["k"])
    spark: Any = None
    none = rows.slice(0, 0)
    sink.take(Delivery("q", "c0ffee", 3, none, ("e0.parquet",), outbox, spark, may_repeat=False, is_last=False))
    (written,) = (tmp_path / "out").iterdir()
    assert pq.read_table(written).equals(rows)
    assert (tmp_path / "outbox" / "e0.parquet").exists()


class _Store:
    """As much of a store as `Folder.fetch` needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fetch(self, name: str, target: Any) -> None:
        target.write((self.folder / name).read_bytes())
