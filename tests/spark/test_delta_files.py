"""Files that tasks write for Delta tables: what deltalake would have written, in one commit, or nothing of it."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from tests.state.s3_server import s3_server
from tests.support.tasks_here import TasksHere
from trimtab.errors import JobError, StateError
from trimtab.spark.delta_demands import TableFacts, obstacle
from trimtab.spark.delta_files import DeltaFile, DeltaFiles, statistics
from trimtab.spark.delta_sink import DeltaTableSink
from trimtab.spark.outbox import Piece
from trimtab.spark.sinks import Delivery
from trimtab.state.files import Folder

NOON = datetime.datetime(2030, 1, 1, 12, 0, 0, 456_789, tzinfo=datetime.UTC)
DAY, NAN = NOON.date(), float("nan")
TYPES = {
    "n": pa.int64(),
    "text": pa.string(),
    "day": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "price": pa.decimal128(30, 12),
    "is_up": pa.bool_(),
    "small": pa.int16(),
    "x": pa.float64(),
    "bytes": pa.binary(),
    "list": pa.list_(pa.struct([("a", pa.int32())])),
    "map": pa.map_(pa.string(), pa.int64()),
}
VALUES: list[tuple[Any, ...]] = [
    ("a b/c=%ü", DAY, NOON, NOON.replace(tzinfo=None), Decimal("1.5"), True, 7, 1.5, b"\0", [{"a": 1}], [("k", 1)]),
    (None,) * 11,
    ("", datetime.date.min, NOON.replace(year=1960), datetime.datetime.min, Decimal(0), False, -7, NAN, b"", [], []),
]
"""Rows without their number `n`."""


def rows(*numbers: int) -> pa.Table:
    columns = zip(*((number, *VALUES[number % len(VALUES)]) for number in numbers), strict=True)
    typed = zip(columns, TYPES.items(), strict=True)
    return pa.table({name: pa.array(list(column), kind) for column, (name, kind) in typed})


def sink(path: Path, by: str = "", **options: Any) -> DeltaTableSink:
    found = DeltaTableSink(str(path), (by,) if by else (), **options)
    found.prepare("drops", list(TYPES))
    return found


def batch(folder: Path, number: int, small: pa.Table, *files: pa.Table, tasks: TasksHere | None = None) -> Delivery:
    """A batch with rows in memory and in files."""
    outbox = Folder(str(folder / "outbox"))
    outbox.make()
    names = tuple(f"e{place}.parquet" for place in range(len(files)))
    for name, table in zip(names, files, strict=True):
        pq.write_table(table, outbox.path_of(name))
    spark = (tasks or TasksHere()).session
    return Delivery("drops", "c0ffee", number, small, names, outbox, spark, may_repeat=False, epoch=3)


def read(path: Path) -> list[dict[str, Any]]:
    found = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t ORDER BY n")
    return list(pa.table(found).select(list(TYPES)).to_pylist())


def log(path: Path) -> list[dict[str, Any]]:
    entries = sorted((path / "_delta_log").glob("*.json"))
    return [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]


@pytest.mark.parametrize("by", ["", "text", "day", "ts", "local", "is_up", "small"])
def test_a_table_is_the_same_whoever_writes_it(by: str, tmp_path: Path) -> None:
    tasks = TasksHere()
    for number in (0, 1):
        found = batch(tmp_path, number, rows(number), rows(2, 3, 4), rows(5), tasks=tasks)
        sink(tmp_path / "tasks", by).deliver(found)
        sink(tmp_path / "driver", by, storage_options={"timeout": "30s"}).deliver(found)
    assert tasks.jobs == 2
    assert str(read(tmp_path / "tasks")) == str(read(tmp_path / "driver"))  # NaN isn't equal to itself
    ours, theirs = DeltaTable(str(tmp_path / "tasks")), DeltaTable(str(tmp_path / "driver"))
    assert (ours.schema(), ours.protocol()) == (theirs.schema(), theirs.protocol())
    assert ours.metadata().partition_columns == theirs.metadata().partition_columns
    assert (ours.version(), ours.transaction_version("trimtab-c0ffee-drops")) == (1, 1)

    def values(path: Path) -> set[str]:
        return {str(line["add"]["partitionValues"]) for line in log(path) if "add" in line}

    assert values(tmp_path / "tasks") == values(tmp_path / "driver")
    assert Folder(str(tmp_path / "outbox")).names() == ["e0.parquet", "e1.parquet"], "other sinks may need them"


def test_partitions_by_decimals_have_all_their_digits(tmp_path: Path) -> None:
    """deltalake itself fails for those between -1 and 0."""
    whole = rows(0, 1).set_column(5, "price", pa.array([Decimal("-0.5"), Decimal(0)], TYPES["price"]))
    sink(tmp_path / "t", "price").deliver(batch(tmp_path, 0, whole.slice(0, 0), whole))
    assert [row["price"] for row in read(tmp_path / "t")] == [Decimal("-0.5"), Decimal(0)]
    found = [line["add"]["partitionValues"]["price"] for line in log(tmp_path / "t") if "add" in line]
    assert found == ["-0.500000000000", "0.000000000000"]


def test_a_batch_that_comes_again_after_its_commit_is_there_once(tmp_path: Path) -> None:
    for _ in range(2):
        sink(tmp_path / "t", "day").deliver(batch(tmp_path, 4, rows(0), rows(1, 2)))
    assert [row["n"] for row in read(tmp_path / "t")] == [0, 1, 2]


@pytest.mark.parametrize("first", [True, False], ids=["new table", "old table"])
def test_a_try_that_is_killed_before_its_commit_changes_nothing(
    first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not first:
        sink(tmp_path / "t", "day").deliver(batch(tmp_path, 3, rows(0), rows(1)))
    before = [] if first else [0, 1]

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTableSink, "_add", killed)
        with pytest.raises(KeyboardInterrupt):
            sink(tmp_path / "t", "day").deliver(batch(tmp_path, 4, rows(2), rows(3)))
    orphans = {str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*4-00?-epoch3-*.parquet")}
    assert len(orphans) == 2
    assert DeltaTable.is_deltatable(str(tmp_path / "t")) is not first
    assert first or [row["n"] for row in read(tmp_path / "t")] == before
    sink(tmp_path / "t", "day").deliver(batch(tmp_path, 4, rows(2), rows(3)))
    assert [row["n"] for row in read(tmp_path / "t")] == [*before, 2, 3]
    table = DeltaTable(str(tmp_path / "t"))
    assert set(table.vacuum(0, enforce_retention_duration=False, full=True)) == orphans


def test_two_tries_of_a_batch_can_not_both_be_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sink(tmp_path / "t")
    found.deliver(batch(tmp_path, 0, rows(0), rows(1)))
    stale = found._table()
    found.deliver(batch(tmp_path, 1, rows(2), rows(3)))
    monkeypatch.setattr(DeltaTableSink, "_table", lambda _: stale)
    with pytest.raises(JobError) as raised:
        found.deliver(batch(tmp_path, 1, rows(2), rows(3)))
    assert raised.value.code == "job.sink-failed"
    assert [row["n"] for row in read(tmp_path / "t")] == [0, 1, 2, 3]


def test_an_old_table_keeps_its_partitions_and_its_order_of_columns(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows(0).select(list(reversed(TYPES))), partition_by=["day"])
    tasks = TasksHere()
    sink(tmp_path / "t").deliver(batch(tmp_path, 0, rows(1), rows(2), tasks=tasks))
    assert tasks.jobs == 1
    assert str(read(tmp_path / "t")) == str(rows(0, 1, 2).to_pylist())
    assert DeltaTable(str(tmp_path / "t")).metadata().partition_columns == ["day"]
    with pytest.raises(JobError, match="does not match table partitioning"):
        sink(tmp_path / "t", "text").deliver(batch(tmp_path, 1, rows(1), rows(2), tasks=tasks))


@pytest.mark.servers
def test_tasks_write_to_an_object_store_themselves_if_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tasks, whole = TasksHere(), rows(0).set_column(1, "text", pa.array(["a b/c=%ü"]))
    with s3_server() as port:
        settings = {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "secret", "REGION": "eu-north-1", "ALLOW_HTTP": "true"}
        for name, value in {**settings, "ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        found = DeltaTableSink("s3://bucket/t", ("text",))
        found.deliver(batch(tmp_path, 0, whole, whole, tasks=tasks))
        found.deliver(batch(tmp_path, 1, whole, whole, tasks=tasks))

        def closed(*_: Any) -> None:
            raise StateError("state.access", "no key")

        with monkeypatch.context() as patch:
            patch.setattr(DeltaFiles, "write", closed)
            for number in (2, 3):  # the second one doesn't try
                found.deliver(batch(tmp_path, number, whole, whole, tasks=tasks))

        def elsewhere(files: DeltaFiles, piece: Piece) -> list[DeltaFile]:
            assert files.table is not None
            return write(replace(files, table=Folder("s3://bucket/other")), piece)

        with monkeypatch.context() as patch:
            write = DeltaFiles.write
            patch.setattr(DeltaFiles, "write", elsewhere)
            DeltaTableSink("s3://bucket/t", ("text",)).deliver(batch(tmp_path, 4, whole, whole, tasks=tasks))
        (folder,) = {parts for parts in Folder("s3://bucket/t").names() if parts.startswith("text=a b%2F")}
        files = Folder("s3://bucket/t").child(folder).names()
        table = pa.table(QueryBuilder().register("t", DeltaTable("s3://bucket/t")).execute("SELECT text FROM t"))
    assert tasks.jobs == 4
    assert table["text"].to_pylist() == ["a b/c=%ü"] * 10
    assert [name[:27] for name in files] == [f"drops-c0ffee-00000000{batch}-00{n}-" for batch in (0, 1) for n in (0, 1)]
    assert "tasks can't write to s3://bucket/t, so the driver does: error[state.access]: no key" in caplog.text
    assert "isn't there, so they write elsewhere" in caplog.text


def test_what_only_deltalake_can_honour_is_left_to_it(tmp_path: Path) -> None:
    tasks = TasksHere()
    write_deltalake(tmp_path / "t", rows(0))
    DeltaTable(str(tmp_path / "t")).alter.add_constraint({"few": "n < 4"})
    sink(tmp_path / "t").deliver(batch(tmp_path, 0, rows(1), rows(2, 3), tasks=tasks))
    assert [row["n"] for row in read(tmp_path / "t")] == [0, 1, 2, 3]
    with pytest.raises(JobError, match="1 rows failed validation"):
        sink(tmp_path / "t").deliver(batch(tmp_path, 1, rows(1), rows(4), tasks=tasks))
    assert tasks.jobs == 0


def field(name: str, kind: Any = "long", metadata: str = "", *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {metadata: "..."} if metadata else {}}


@pytest.mark.parametrize(
    ("table", "reported"),
    [
        (TableFacts([field("n", metadata="comment")], ["columnMapping", "invariants", "deletionVectors"], {}), ""),
        (TableFacts([field("n")], [], {"delta.columnMapping.mode": "none", "delta.appendOnly": "true"}), ""),
        (TableFacts([field("n")], [], {"delta.columnMapping.mode": "name"}), "the table maps names of columns"),
        (TableFacts([field("n")], ["clustering"], {}), "the table has the feature clustering"),
        (TableFacts([field("n", nullable=False)], [], {}), "the table has rules for n"),
        (TableFacts([field("n", metadata="delta.generationExpression")], [], {}), "the table has rules for n"),
        (TableFacts([field("n", "integer")], [], {}), "the table has other columns"),
        (TableFacts([field("n"), field("m")], [], {}), "the table has other columns"),
    ],
)
def test_a_table_says_what_it_asks_of_its_writers(table: TableFacts, reported: str) -> None:
    assert obstacle([field("n")], [], table) == reported


@pytest.mark.parametrize("kind", ["void", "timestamp_nanos", {"type": "array", "elementType": "void"}])
def test_types_that_delta_has_not_or_not_everywhere_are_left_to_deltalake(kind: Any) -> None:
    assert obstacle([field("n", kind)], [], None) == "the type of n"
    assert obstacle([field("n", "double")], ["n"], None) == "partitions by n"


def test_the_log_says_of_rows_what_deltalake_says(tmp_path: Path) -> None:
    table = rows(0, 1, 3).select(["n", "text", "day", "ts", "local", "small", "x", "list"])
    write_deltalake(tmp_path / "t", table)
    (theirs,) = (json.loads(line["add"]["stats"]) for line in log(tmp_path / "t") if "add" in line)
    with pq.ParquetWriter(tmp_path / "own.parquet", table.schema) as writer:
        for start in range(3):
            writer.write_table(table.slice(start, 1))
    ours = json.loads(statistics(pq.read_metadata(tmp_path / "own.parquet")))
    assert ours["numRecords"] == theirs["numRecords"] == 3
    for kind in ("minValues", "maxValues"):
        assert list(ours[kind]) == ["n", "text", "day", "ts", "local", "small"]
        assert ours[kind].items() <= theirs[kind].items()
    assert ours["nullCount"].items() <= theirs["nullCount"].items()
    long = pa.table({"text": ["a" * 33, None]})
    pq.write_table(long, tmp_path / "long.parquet")
    found = json.loads(statistics(pq.read_metadata(tmp_path / "long.parquet")))
    assert found == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"text": 1}}


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")])
@pytest.mark.parametrize("year", [-1_000, 20_000])
def test_times_that_python_has_not_are_written_without_a_range(kind: pa.DataType, year: int, tmp_path: Path) -> None:
    days = pa.array([(year - 1970) * 365, 0], pa.int32()).cast(pa.date32())
    table = pa.table({"n": [1, 2], "at": days.cast(pa.timestamp("s")).cast(kind) if kind != days.type else days})
    sink(tmp_path / "t").deliver(batch(tmp_path, 0, table, table))
    assert len(DeltaTable(str(tmp_path / "t")).file_uris()) == 2
    (found, *_) = (json.loads(line["add"]["stats"]) for line in log(tmp_path / "t") if "add" in line)
    assert found == {"numRecords": 2, "minValues": {"n": 1}, "maxValues": {"n": 2}, "nullCount": {"n": 0, "at": 0}}
    with pytest.raises(JobError, match="before the year 1 or after 9999") as raised:
        DeltaTableSink(str(tmp_path / "by"), ("at",)).deliver(batch(tmp_path, 0, table, table))
    assert raised.value.code == "job.sink"
