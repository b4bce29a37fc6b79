"""Files: what is read at a position, what is wrong alone, and what stops the job."""

from __future__ import annotations

import datetime
import os
import pickle
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from tests.support.found_files import K, keys_of, numbers, put, source_of
from trimtab.errors import InputError, JobError
from trimtab.sources.file_content import Content, Parser
from trimtab.sources.file_rows import PARSERS
from trimtab.sources.files import Files
from trimtab.sources.source import Range
from trimtab.state.files import Folder


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


@pytest.mark.parametrize("error", [pa.ArrowMemoryError, pa.ArrowCapacityError, MemoryError])
def test_a_file_is_not_damaged_because_there_is_too_little_memory_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    put(tmp_path / "in" / "a.parquet", numbers(1, 2))
    source = source_of(tmp_path)
    source.latest()

    def parse(*_: object) -> Content:
        raise error("malloc of size 64 failed")

    with monkeypatch.context() as small:
        small.setitem(cast(dict[str, Parser], PARSERS), "parquet", parse)
        with pytest.raises(error, match="malloc of size 64 failed"):
            source.read(Range("files", 0, 1))
    assert keys_of(source, 0, 1) == [1, 2]


def test_quarantine_can_say_in_which_file_a_row_was(tmp_path: Path) -> None:
    for number, rows in enumerate(((1, 2), (), (3,))):
        put(tmp_path / "in" / f"{number}.parquet", numbers(*rows), modified_s=number)
    source = source_of(tmp_path)
    source.latest()
    positions = source.read(Range("files", 0, 3)).positions
    assert positions is not None
    assert positions.to_pylist() == [0, 0, 2]
