"""The Delta sink by the package deltalake: each batch once, in one commit."""

from __future__ import annotations

import datetime
import importlib.util
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from trimtab.errors import JobError
from trimtab.spark.delta_sink import DeltaTableSink
from trimtab.spark.sinks import Delivery, DeltaSink, make_sink
from trimtab.state.files import Folder

NO_SPARK = cast(SparkSession, None)
NOON = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)


def rows(*numbers: int) -> pa.Table:
    times = pa.array([NOON] * len(numbers), pa.timestamp("us", "UTC"))
    return pa.table({"k": [number % 2 for number in numbers], "n": list(numbers), "ts": times})


def batch(folder: Path, number: int, found: pa.Table | None, *, may_repeat: bool = False, **more: Any) -> Delivery:
    values = {"name": "drops", "incarnation": "c0ffee", "files": (), **more}
    outbox = Folder(str(folder))
    return Delivery(batch=number, table=found, outbox=outbox, spark=NO_SPARK, may_repeat=may_repeat, **values)


def sink(folder: Path, **options: Any) -> DeltaTableSink:
    found = make_sink(NO_SPARK, "delta", {"path": str(folder / "out"), **options})
    assert isinstance(found, DeltaTableSink)
    found.prepare("drops", ["k", "n", "ts"])
    return found


def written(folder: Path) -> list[int]:
    table = DeltaTable(str(folder / "out"))
    files = [pq.ParquetFile(folder / "out" / name).read(columns=["n"]) for name in paths(table)]
    return sorted(number for file in files for number in file["n"].to_pylist())


def paths(table: DeltaTable) -> list[str]:
    return [str(each) for each in pa.table(table.get_add_actions())["path"].to_pylist()]


def test_a_batch_that_comes_again_is_written_once(tmp_path: Path) -> None:
    before = sink(tmp_path)
    before.deliver(batch(tmp_path, 0, rows(1, 2)))
    before.deliver(batch(tmp_path, 1, None))
    before.deliver(batch(tmp_path, 2, rows(3)))
    after = sink(tmp_path)
    after.deliver(batch(tmp_path, 2, rows(3), may_repeat=True))
    after.deliver(batch(tmp_path, 3, rows(4)))
    assert written(tmp_path) == [1, 2, 3, 4]
    assert DeltaTable(str(tmp_path / "out")).version() == 2
    assert DeltaTable(str(tmp_path / "out")).transaction_version("trimtab-c0ffee-drops") == 3


def test_rows_in_files_are_in_the_same_commit(tmp_path: Path) -> None:
    pq.write_table(rows(7, 8), tmp_path / "e0.parquet")
    own = sink(tmp_path, storage_options={"timeout": "30s"})  # tasks don't have these
    own.deliver(batch(tmp_path, 0, rows(6), files=("e0.parquet",)))
    assert written(tmp_path) == [6, 7, 8]
    assert DeltaTable(str(tmp_path / "out")).version() == 0


def test_another_incarnation_has_batches_of_its_own(tmp_path: Path) -> None:
    found = sink(tmp_path)
    found.deliver(batch(tmp_path, 0, rows(1)))
    found.deliver(batch(tmp_path, 0, rows(2), incarnation="cafe"))
    assert written(tmp_path) == [1, 2]


def test_a_job_that_looked_before_another_committed_the_batch_can_not_commit_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sink(tmp_path)
    found.deliver(batch(tmp_path, 0, rows(1)))
    stale = found._table()
    found.deliver(batch(tmp_path, 1, rows(2)))
    monkeypatch.setattr(DeltaTableSink, "_table", lambda _: stale)
    with pytest.raises(JobError) as raised:
        found.deliver(batch(tmp_path, 1, rows(2)))
    assert raised.value.code == "job.sink-failed"
    assert written(tmp_path) == [1, 2]


def test_a_table_may_have_partitions_by_columns(tmp_path: Path) -> None:
    found = sink(tmp_path, partition_by="k")
    found.deliver(batch(tmp_path, 0, rows(1, 2)))
    found.deliver(batch(tmp_path, 1, rows(3)))
    assert DeltaTable(str(tmp_path / "out")).metadata().partition_columns == ["k"]
    assert sorted(path.split("/")[0] for path in paths(DeltaTable(str(tmp_path / "out")))) == ["k=0", "k=1", "k=1"]
    with pytest.raises(JobError, match="have partitions by day: there is no such column"):
        sink(tmp_path, partition_by=["k", "day"])


def test_sparks_connector_writes_with_its_options_or_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path)
    assert isinstance(make_sink(NO_SPARK, "delta", {"path": path, "mergeSchema": "true"}), DeltaSink)
    assert isinstance(make_sink(NO_SPARK, "delta", {"path": "hdfs://host/table"}), DeltaSink)
    assert isinstance(make_sink(NO_SPARK, "delta", {}), DeltaSink)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert isinstance(make_sink(NO_SPARK, "delta", {"path": path}), DeltaSink)
