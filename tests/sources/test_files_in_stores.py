"""Files in an object store: found, read and checked as on a local disk; in memory, and on an S3-compatible server."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.state.s3_server import location, s3_server
from tests.state.stores import remote_folder
from trimtab.errors import InputError, JobError
from trimtab.sources.files import Files
from trimtab.sources.source import Range
from trimtab.state.files import Folder
from trimtab.state.objects import open_objects
from trimtab.testing import check_source


def parquet_bytes(*values: int) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"k": pa.array(values, pa.int64())}), written)
    return written.getvalue()


def fill(place: str) -> None:
    objects = open_objects(place)
    for number in range(20):
        objects.write(f"{number % 2}/{number:02}.parquet", parquet_bytes(*range(number)))
    objects.write("0/_SUCCESS", b"")
    objects.write("_temporary/0/x.parquet", b"half")


def check_all(place: str, log: str) -> None:
    fill(place)
    source = Files(place, partitions=["0", "1"]).opened(Folder(log))
    assert source.schema == pa.schema({"k": pa.int64()})
    assert source.latest() == {"0": 10, "1": 10}
    rows = pickle.loads(pickle.dumps(source)).read(Range("1", 0, 10))
    assert sorted(rows.table["k"].to_pylist()) == sorted(k for number in range(1, 20, 2) for k in range(number))
    assert len(rows.appended_us) == rows.table.num_rows
    check_source(source, reads=3)
    open_objects(place).write("1/late.parquet", parquet_bytes(99))
    assert source.latest() == {"0": 10, "1": 11}
    assert source.read(Range("1", 10, 11)).table["k"].to_pylist() == [99]
    again = Files(place, partitions=["0", "1"]).opened(Folder(log))
    assert again.latest() == {"0": 10, "1": 11}
    open_objects(place).write("1/late.parquet", parquet_bytes(98))
    with pytest.raises(InputError, match=r"1/late\.parquet has changed since it was found"):
        again.read(Range("1", 10, 11))
    open_objects(place).delete("1/late.parquet")
    with pytest.raises(InputError, match=r"1/late\.parquet has vanished since it was found"):
        again.read(Range("1", 10, 11))


def test_files_in_memory_are_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    here = remote_folder(monkeypatch)
    check_all(here.child("in").location, here.child("log").location)


def test_a_folder_without_objects_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    here = remote_folder(monkeypatch)
    source = Files(here.child("in").location, schema="k BIGINT").opened(here.child("log"))
    assert source.latest() == {"files": 0}


def test_a_folder_has_no_files_of_one_whose_name_only_begins_like_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    here = remote_folder(monkeypatch)
    open_objects(here.child("input").location).write("a.parquet", parquet_bytes(1))
    open_objects(here.child("in").location).write("b.parquet", parquet_bytes(2))
    source = Files(here.child("in").location).opened(here.child("log"))
    assert source.latest() == {"files": 1}
    assert source.read(Range("files", 0, 1)).table["k"].to_pylist() == [2]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with s3_server() as found:
        yield found


@pytest.mark.servers
def test_files_on_an_s3_server_are_a_source(port: int) -> None:
    check_all(location(port, "data/in"), location(port, "checkpoint/log"))


@pytest.mark.servers
def test_messages_have_no_credentials(port: int) -> None:
    source = Files(location(port, "other"), schema="k BIGINT")
    assert "secret" not in repr(source)
    elsewhere = location(port, "other").replace("@bucket", "@nowhere")
    with pytest.raises(JobError, match="s3://nowhere/other doesn't exist") as raised:
        _ = Files(elsewhere).schema
    assert "secret" not in str(raised.value)
