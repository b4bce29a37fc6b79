"""Files: what is found when, which position it has, what is read, and what is wrong alone."""

from __future__ import annotations

import datetime
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.found_files import Clock, put
from trimtab.errors import InputError, JobError
from trimtab.sources import file_log
from trimtab.sources.files import Files
from trimtab.sources.source import Range
from trimtab.state.files import Folder

K = pa.schema({"k": pa.int64()})


def numbers(*values: int) -> pa.Table:
    return pa.table({"k": values}, schema=K)


def source_of(tmp_path: Path, **options: Any) -> Files:
    (tmp_path / "in").mkdir(exist_ok=True)
    options = {"schema": K, "clock": Clock()} | options
    return Files(str(tmp_path / "in"), **options).opened(Folder(str(tmp_path / "log")))


def keys_of(source: Files, start: int, end: int, partition: str = "files") -> list[int | None]:
    found: list[int | None] = source.read(Range(partition, start, end)).table["k"].to_pylist()
    return found


# What is found ---------------------------------------------------------------------------------


def test_files_have_the_order_of_their_times_and_names(tmp_path: Path) -> None:
    put(tmp_path / "in" / "b.parquet", numbers(1), modified_s=10)
    put(tmp_path / "in" / "deep" / "er" / "a.parquet", numbers(2), modified_s=20)
    put(tmp_path / "in" / "a.parquet", numbers(3), modified_s=10)
    source = source_of(tmp_path)
    assert source.latest() == {"files": 3}
    assert keys_of(source, 0, 3) == [3, 1, 2]
    assert keys_of(source, 1, 2) == [1]
    assert keys_of(source, 3, 3) == []


def test_a_file_moved_in_late_with_an_old_time_comes_last(tmp_path: Path) -> None:
    put(tmp_path / "in" / "b.parquet", numbers(1), modified_s=100)
    source = source_of(tmp_path)
    assert source.latest() == {"files": 1}
    put(tmp_path / "in" / "a.parquet", numbers(2), modified_s=1)
    assert source.latest() == {"files": 2}
    assert source.latest() == {"files": 2}
    assert keys_of(source, 0, 2) == [1, 2]


def test_a_process_that_has_forgotten_the_log_reads_it_again(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", numbers(1))
    source = source_of(tmp_path)
    assert source.latest() == {"files": 1}
    file_log._content.cache_clear()
    assert source.latest() == {"files": 1}
    assert keys_of(source, 0, 1) == [1]


def test_a_job_that_starts_again_goes_on_with_the_same_positions(tmp_path: Path) -> None:
    put(tmp_path / "in" / "b.parquet", numbers(1), modified_s=100)
    source_of(tmp_path).latest()
    put(tmp_path / "in" / "a.parquet", numbers(2), modified_s=1)
    again = source_of(tmp_path)
    assert again.latest() == {"files": 2}
    assert keys_of(again, 0, 2) == [1, 2]


def test_a_new_log_in_the_same_place_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=100)
    source_of(tmp_path).latest()
    put(tmp_path / "in" / "b.parquet", numbers(2), modified_s=1)
    Folder(str(tmp_path / "log")).remove_all(lambda: None)
    again = source_of(tmp_path)
    assert again.latest() == {"files": 2}
    assert keys_of(again, 0, 2) == [2, 1]


def test_latest_begins_after_the_files_that_are_there_at_the_start(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", numbers(1))
    source = source_of(tmp_path, start="latest")
    assert source.partitions()["files"].start == 1
    put(tmp_path / "in" / "b.parquet", numbers(2))
    assert source.latest() == {"files": 2}
    assert source_of(tmp_path, start="latest").partitions()["files"].start == 1
    assert source_of(tmp_path).partitions()["files"].start == 0


def test_latest_of_an_empty_folder_begins_at_its_first_file(tmp_path: Path) -> None:
    source = source_of(tmp_path, start="latest")
    assert source.latest() == {"files": 0}
    put(tmp_path / "in" / "a.parquet", numbers(1))
    assert source.latest() == {"files": 1}
    assert source.partitions()["files"].start == 0


def test_unfinished_and_hidden_files_are_left_alone(tmp_path: Path) -> None:
    names = (".a.parquet", "_SUCCESS", "a.parquet.tmp", "a.crc", "a.parquet._COPYING_", "_temporary/0/a.parquet")
    for name in names:
        put(tmp_path / "in" / name, b"half")
    source = source_of(tmp_path)
    assert source.latest() == {"files": 0}
    os.rename(tmp_path / "in" / "a.parquet.tmp", tmp_path / "in" / "a.parquet")
    assert source.latest() == {"files": 1}


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    with open(os.fsencode(tmp_path / "in") + b"/\xff.parquet", "wb"):
        pass
    with pytest.raises(JobError, match="is not UTF-8"):
        source.latest()


def test_a_young_file_waits_until_it_has_settled(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    source = source_of(tmp_path, clock=clock, settled_after_s=5)
    put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=998)
    assert source.latest() == {"files": 0}
    clock.now_s = 1004.0
    put(tmp_path / "in" / "a.parquet", numbers(1, 2), modified_s=1003)
    assert source.latest() == {"files": 0}
    clock.now_s = 1008.0
    assert source.latest() == {"files": 1}
    assert keys_of(source, 0, 1) == [1, 2]


def test_a_file_that_changed_between_two_looks_waits_however_old_its_time_is(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    source = source_of(tmp_path, clock=clock, settled_after_s=5)
    put(tmp_path / "in" / "a.parquet", b"begun", modified_s=998)
    assert source.latest() == {"files": 0}
    put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=500)
    assert source.latest() == {"files": 0}
    assert source.latest() == {"files": 1}


def test_a_file_from_the_future_settles_when_it_no_longer_changes(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    source = source_of(tmp_path, clock=clock, settled_after_s=5)
    put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=9_000)
    assert source.latest() == {"files": 0}
    clock.now_s = 1005.0
    assert source.latest() == {"files": 1}


def test_thousands_of_new_files_cost_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(tmp_path)
    source.latest()
    for number in range(2000):
        (tmp_path / "in" / f"{number}.parquet").touch()
    writes: list[str] = []
    write = Folder.write

    def counted(self: Folder, name: str, data: bytes, **options: Any) -> None:
        writes.append(name)
        write(self, name, data, **options)

    monkeypatch.setattr(Folder, "write", counted)
    monkeypatch.setattr(source, "_clock", lambda: time.time() + 60)
    assert source.latest() == {"files": 2000}
    assert len(writes) == 1
    assert source.latest() == {"files": 2000}
    assert len(writes) == 1


def test_the_log_is_written_before_a_position_is_given_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "in" / "a.parquet", numbers(1))
    source = source_of(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "write", full)
        with pytest.raises(OSError, match="no room"):
            source.latest()
    assert source_of(tmp_path).latest() == {"files": 1}


# Partitions ------------------------------------------------------------------------------------


def test_folders_and_patterns_are_partitions_with_orders_of_their_own(tmp_path: Path) -> None:
    put(tmp_path / "in" / "north" / "a.parquet", numbers(1), modified_s=10)
    put(tmp_path / "in" / "south" / "b.parquet", numbers(2), modified_s=20)
    put(tmp_path / "in" / "south" / "x-a.parquet", numbers(3), modified_s=30)
    put(tmp_path / "in" / "x-b.parquet", numbers(4), modified_s=40)
    put(tmp_path / "in" / "y.parquet", numbers(5), modified_s=50)
    source = source_of(tmp_path, partitions=["north", "x-*", "south", "east"])
    assert source.latest() == {"north": 1, "x-*": 2, "south": 1, "east": 0}
    assert set(source.partitions()) == set(source.latest())
    assert keys_of(source, 0, 2, "x-*") == [3, 4]
    assert keys_of(source, 0, 1, "south") == [2]


@pytest.mark.parametrize("partitions", [[], ["a", "a"], ["**/a"], ["/"], ["../b"]])
def test_partitions_that_make_no_sense_are_refused(partitions: list[str]) -> None:
    with pytest.raises(JobError, match="give folders below the path or patterns"):
        Files("somewhere", partitions=partitions)


# Reading ---------------------------------------------------------------------------------------


def test_a_worker_reads_from_a_pickled_copy(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", numbers(1, 2), modified_s=7)
    source = source_of(tmp_path)
    copied = pickle.loads(pickle.dumps(source))
    assert source.latest() == {"files": 1}
    rows = copied.read(Range("files", 0, 1))
    assert rows.table.equals(numbers(1, 2))
    assert rows.appended_us.to_pylist() == [7_000_000, 7_000_000]
    assert rows.undecoded is None


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_missing_columns_are_null_others_are_dropped_and_types_are_cast(tmp_path: Path, format: str) -> None:
    first = pa.table({"k": pa.array([1], pa.int32()), "other": ["x"]})
    second = pa.table({"v": [0.5], "k": ["17"]})
    put(tmp_path / "in" / f"a.{format}", first)
    put(tmp_path / "in" / f"b.{format}", second)
    source = source_of(tmp_path, format=format, schema="k BIGINT, v DOUBLE")
    source.latest()
    rows = source.read(Range("files", 0, 2))
    assert rows.table.to_pylist() == [{"k": 1, "v": None}, {"k": 17, "v": 0.5}]
    assert rows.undecoded is None


def test_the_columns_of_the_first_file_are_kept(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", pa.table({"k": pa.array([1], pa.int32())}), modified_s=10)
    put(tmp_path / "in" / "b.parquet", pa.table({"k": ["x", "2"]}), modified_s=20)
    source = source_of(tmp_path, schema=None)
    assert source.schema == pa.schema({"k": pa.int32()})
    assert source.latest() == {"files": 2}
    os.unlink(tmp_path / "in" / "a.parquet")
    assert source_of(tmp_path, schema=None).schema == pa.schema({"k": pa.int32()})
    again = Files(str(tmp_path / "in"))
    assert again.schema == pa.schema({"k": pa.string()})
    with pytest.raises(JobError, match="began with other columns: k int32; now k string"):
        again.opened(Folder(str(tmp_path / "log")))


def test_a_damaged_arrow_file_is_bad_as_a_whole(tmp_path: Path) -> None:
    whole = put(tmp_path / "in" / "a.arrow", pa.table({"k": ["a" * 100, "b"]}))
    put(whole, whole.read_bytes().replace(b"aaaa", b"\xff\xff\xff\xff"))
    source = source_of(tmp_path, format="arrow", schema="k STRING")
    source.latest()
    rows = source.read(Range("files", 0, 1))
    assert rows.table.num_rows == 0
    assert rows.undecoded is not None
    assert "a.arrow: no arrow file: " in rows.undecoded["reason"][0].as_py()


def test_a_stream_in_an_arrow_file_is_read(tmp_path: Path) -> None:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, K) as stream:
        stream.write_table(numbers(4, 5))
    put(tmp_path / "in" / "a.arrows", written.getvalue().to_pybytes())
    source = source_of(tmp_path, format="arrow", schema=None)
    source.latest()
    assert keys_of(source, 0, 1) == [4, 5]


def test_a_bad_line_is_alone(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.csv", b"k,s\n1,a\ntwo,b\n3\n4,d\n")
    put(tmp_path / "in" / "b.csv", b"s,k\nx,5\n")
    source = source_of(tmp_path, format="csv", schema="k BIGINT, s STRING")
    source.latest()
    rows = source.read(Range("files", 0, 2))
    assert rows.table.to_pylist() == [{"k": 1, "s": "a"}, {"k": 4, "s": "d"}, {"k": 5, "s": "x"}]
    assert rows.undecoded is not None
    assert rows.undecoded.to_pylist() == [
        {"partition": "files", "position": 0, "value": b"two,b", "reason": "a.csv:3: k: 'two' is no int64"},
        {"partition": "files", "position": 0, "value": b"3", "reason": "a.csv:4: it doesn't have 2 fields"},
    ]


def test_a_damaged_file_is_one_bad_value_and_others_go_on(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", b"PAR1 no, it isn't", modified_s=1)
    put(tmp_path / "in" / "b.parquet", pa.table({"other": [1]}), modified_s=2)
    put(tmp_path / "in" / "c.parquet", numbers(3), modified_s=3)
    whole = put(tmp_path / "in" / "d.parquet", numbers(*range(1000)), modified_s=4)
    put(whole, whole.read_bytes()[:200] + b"\xff" * 400 + whole.read_bytes()[600:], modified_s=4)
    source = source_of(tmp_path)
    source.latest()
    rows = source.read(Range("files", 0, 4))
    assert rows.table["k"].to_pylist() == [3]
    assert rows.undecoded is not None
    assert rows.undecoded["position"].to_pylist() == [0, 1, 3]
    reasons = rows.undecoded["reason"].to_pylist()
    assert reasons[0].startswith("a.parquet: no parquet file: ")
    assert reasons[1] == "b.parquet: no parquet file: it has none of the columns k, but other"
    assert rows.undecoded["value"][0].as_py() == b"PAR1 no, it isn't"


def test_a_row_of_columns_that_can_not_be_cast_is_shown_as_json(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.parquet", pa.table({"k": [1.0, 2.5], "v": ["x", "y"]}))
    source = source_of(tmp_path)
    source.latest()
    rows = source.read(Range("files", 0, 1))
    assert rows.table["k"].to_pylist() == [1]
    assert rows.undecoded is not None
    assert rows.undecoded.select(["value", "reason"]).to_pylist() == [
        {"value": b'{"k": 2.5}', "reason": "a.parquet:2: k: 2.5 is no int64"}
    ]


def test_a_file_that_vanished_or_changed_is_named(tmp_path: Path) -> None:
    path = put(tmp_path / "in" / "a.parquet", numbers(1))
    source = source_of(tmp_path)
    source.latest()
    put(path, numbers(1, 2, 3))
    with pytest.raises(InputError, match=r"a\.parquet has changed since it was found"):
        source.read(Range("files", 0, 1))
    os.unlink(path)
    with pytest.raises(InputError, match=r"a\.parquet has vanished since it was found\n  hint: put it back"):
        source.read(Range("files", 0, 1))
    assert source.latest() == {"files": 1}


def test_a_name_that_appears_again_is_no_new_file(tmp_path: Path) -> None:
    path = put(tmp_path / "in" / "a.parquet", numbers(1))
    source = source_of(tmp_path)
    assert source.latest() == {"files": 1}
    os.unlink(path)
    assert source.latest() == {"files": 1}
    put(path, numbers(2), modified_s=2000)
    assert source.latest() == {"files": 1}


def test_times_are_in_utc(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.csv", b"ts\n2024-01-02 03:04:05\n2024-01-02T05:04:05.123456789+02:00\n\n")
    source = source_of(tmp_path, format="csv", schema="ts TIMESTAMP")
    source.latest()
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert source.read(Range("files", 0, 1)).table["ts"].to_pylist() == [moment, moment.replace(microsecond=123456)]


# Mistakes --------------------------------------------------------------------------------------


def test_mistakes_are_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="'xml' is no format of files\n  hint: write one of parquet, csv"):
        Files("somewhere", format="xml")  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"csv files don't say which types .*\n  hint: give the columns: schema="):
        Files("somewhere", format="csv")
    with pytest.raises(JobError, match="column k is ARRAY"):
        Files("somewhere", schema="k ARRAY<INT>")
    with pytest.raises(JobError, match='write "earliest" or "latest"'):
        Files("somewhere", start="now")  # type: ignore[arg-type]
    with pytest.raises(JobError, match="0 or more"):
        Files("somewhere", settled_after_s=-1)
    with pytest.raises(JobError, match="has no folder for its log"):
        Files("somewhere", schema=K).latest()
    with pytest.raises(JobError, match="has no files yet"):
        source_of(tmp_path, schema=None)
    with pytest.raises(JobError, match="nowhere doesn't exist"):
        Files(str(tmp_path / "nowhere"), schema=K).opened(Folder(str(tmp_path / "log"))).latest()
    put(tmp_path / "in" / "a.parquet", b"nothing")
    with pytest.raises(JobError, match=r"a\.parquet doesn't say which columns it has"):
        _ = Files(str(tmp_path / "in")).schema
