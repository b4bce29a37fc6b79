"""Sinks whose folders are named by the values of columns."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from trimtab.driver.happenings import HandOver
from trimtab.errors import JobError
from trimtab.spark.parquet_sink import ParquetSink
from trimtab.spark.partitioning import NULL, partitioned
from trimtab.spark.side_by_side import side_by_side
from trimtab.spark.sinks import Delivery, make_sink
from trimtab.state.files import Folder

NO_SPARK = cast(SparkSession, None)
NOON = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)
ROWS = pa.table({"k": ["a", "b", "a", None], "n": [1, 2, 3, 4], "x": [10, 20, 30, 40]})


def sink(folder: Path, **options: Any) -> ParquetSink:
    """The sink of a job that has just been started."""
    found = make_sink(NO_SPARK, "parquet", {"path": str(folder / "out"), **options})
    assert isinstance(found, ParquetSink)
    found.prepare("drops", ROWS.column_names)
    return found


def batch(folder: Path, number: int, rows: pa.Table, *, may_repeat: bool = False, **more: Any) -> Delivery:
    outbox = Folder(str(folder / "outbox"))
    outbox.make()
    values: dict[str, Any] = {"files": (), "spark": NO_SPARK, **more}
    return Delivery("drops", "c0ffee", number, rows, outbox=outbox, may_repeat=may_repeat, **values)


def read(folder: Path) -> list[dict[str, Any]]:
    """What any reader finds that knows Hive's names."""
    table = pa_dataset.dataset(folder / "out", format="parquet", partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: int(row["n"]))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*.parquet"))


@pytest.mark.parametrize("options", [{"partition_by": "k"}, {"partitionBy": ["k"]}])
def test_rows_are_in_the_folders_of_their_values(options: dict[str, Any], tmp_path: Path) -> None:
    sink(tmp_path, **options).deliver(batch(tmp_path, 7, ROWS))
    name = "drops-c0ffee-000000007-000.parquet"
    assert files(tmp_path) == [f"k={NULL}/{name}", f"k=a/{name}", f"k=b/{name}"]
    assert read(tmp_path) == ROWS.select(["n", "x", "k"]).to_pylist()
    assert pq.ParquetFile(tmp_path / "out" / "k=a" / name).read().to_pydict() == {"n": [1, 3], "x": [10, 30]}


def test_what_engines_left_is_shared_out_by_tasks(tmp_path: Path, spark: Any) -> None:
    found = batch(tmp_path, 0, ROWS.slice(0, 1), files=("e0.parquet", "e1.parquet"), spark=spark, epoch=3)
    pq.write_table(ROWS.slice(1, 2), found.outbox.path_of("e0.parquet"))
    pq.write_table(ROWS.slice(3, 1), found.outbox.path_of("e1.parquet"))
    sink(tmp_path, partition_by="k,x").deliver(found)
    assert read(tmp_path) == ROWS.select(["n", "k", "x"]).to_pylist()
    assert [name.rsplit("-", 1)[0] for name in files(tmp_path)] == [
        f"k={NULL}/x=40/drops-c0ffee-000000000",
        "k=a/x=10/drops-c0ffee-000000000",
        "k=a/x=30/drops-c0ffee-000000000",
        "k=b/x=20/drops-c0ffee-000000000",
    ]
    assert found.outbox.names() == ["e0.parquet", "e1.parquet"], "another sink may need them; the commit deletes them"


def test_a_batch_that_comes_again_replaces_its_first_try_in_all_folders(tmp_path: Path) -> None:
    sink(tmp_path, partition_by="k").deliver(batch(tmp_path, 0, ROWS))
    sink(tmp_path, partition_by="k").deliver(batch(tmp_path, 1, ROWS))
    again = ROWS.slice(0, 2)  # as if the first try had been another one
    sink(tmp_path, partition_by="k").deliver(batch(tmp_path, 1, again, may_repeat=True))
    assert len(files(tmp_path)) == 3 + 2
    assert sorted(row["n"] for row in read(tmp_path)) == [1, 1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("a/b c=%ü", "k=a%2Fb c%3D%25ü"),
        ("", f"k={NULL}"),
        (-7, "k=-7"),
        (True, "k=true"),
        (NOON.date(), "k=2030-01-01"),
        (NOON, "k=2030-01-01 12%3A00%3A00"),
        (Decimal("1.50"), "k=1.50"),
    ],
)
def test_values_of_all_types_are_named_as_in_spark(value: Any, name: str) -> None:
    table = pa.table({"k": [value, None], "n": [1, 2]})
    found = [parts for parts, _ in partitioned(table, ["k"])]
    assert found == list(dict.fromkeys([(name,), (f"k={NULL}",)]))


def test_partitions_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for by, reported in [("day", "there is no such column"), ("k,k", "by k, k"), ("k,n,x", "by all columns")]:
        with pytest.raises(JobError, match=reported) as raised:
            sink(tmp_path, partition_by=by)
        assert raised.value.code == "job.sink"
    floats = pa.table({"k": [1.5], "n": [1], "x": [1]})
    with pytest.raises(JobError, match="there can be no partitions by k, which is double"):
        sink(tmp_path, partition_by="k").deliver(batch(tmp_path, 0, floats))


def test_only_sinks_that_run_no_spark_jobs_leave_the_thread_of_the_batch() -> None:
    sinks = {"plain": [ParquetSink("a")], "parts": [ParquetSink("b", partition_by=("k",))], "both": []}
    sinks["both"] = [*sinks["plain"], *sinks["parts"]]
    outputs = [cast(HandOver, SimpleNamespace(name=name, outputs=())) for name in sinks]
    threads: dict[str, threading.Thread] = {}
    side_by_side(outputs, sinks, lambda output: threads.update({output.name: threading.current_thread()}))
    assert [name for name, thread in threads.items() if thread is threading.current_thread()] == ["parts", "both"]
