"""Files in an object store: found, read and checked as on a local disk; in memory, and on an S3-compatible server."""

from __future__ import annotations

import io
import pickle
from collections.abc import Container, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.state.s3_server import location, s3_server
from tests.state.stores import remote_folder
from tests.support.found_files import Clock, source_of
from trimtab.errors import InputError, JobError
from trimtab.sources.file_store import FileStore, Found
from trimtab.sources.files import LISTED_EVERY_S, Files
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
    clock = Clock()
    source = Files(place, partitions=["0", "1"], clock=clock).opened(Folder(log))
    assert source.schema == pa.schema({"k": pa.int64()})
    assert source.latest() == {"0": 10, "1": 10}
    rows = pickle.loads(pickle.dumps(source)).read(Range("1", 0, 10))
    assert sorted(rows.table["k"].to_pylist()) == sorted(k for number in range(1, 20, 2) for k in range(number))
    assert len(rows.appended_us) == rows.table.num_rows
    check_source(source, reads=3)
    open_objects(place).write("1/late.parquet", parquet_bytes(99))
    clock.now_s += LISTED_EVERY_S
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


def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where folders are listed from now on."""
    found, listed = list[str](), FileStore.listed

    def noted(store: FileStore, known: Container[str] = ()) -> list[Found]:
        found.append(store.folder.location)
        return listed(store, known)

    monkeypatch.setattr(FileStore, "listed", noted)
    return found


def test_a_store_is_listed_once_a_second_however_often_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    here, clock = remote_folder(monkeypatch), Clock()
    place = here.child("in").location
    source = Files(place, schema="k BIGINT", clock=clock).opened(here.child("log"))
    seen = listings(monkeypatch)
    assert (list(source.partitions()), source.latest(), len(seen)) == (["files"], {"files": 0}, 1)
    open_objects(place).write("a.parquet", parquet_bytes(1))
    for passed_s, count in ((0.5, 0), (0.25, 0), (0.25, 1), (0.875, 1), (-7.0, 1)):
        clock.now_s += passed_s
        assert source.latest() == {"files": count}
    assert len(seen) == 3, "the last time because the clock was set back"
    source.opened(here.child("another log")).latest()
    assert len(seen) == 4


def test_between_two_listings_a_store_knows_the_files_that_came_before_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, clock = remote_folder(monkeypatch), Clock(1_000.0)
    source = Files(here.child("in").location, schema="k BIGINT", clock=clock).opened(here.child("log"))
    found = []
    for clock.now_s in (1_000.0, 1_000.75, 1_001.0):
        source.latest()
        found.append(source.complete_s)
    assert found == [1_000.0, 1_000.0, 1_001.0]


def test_a_local_folder_is_listed_whenever_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(tmp_path)
    seen = listings(monkeypatch)
    assert [source.latest() for _ in range(3)] == [{"files": 0}] * 3
    assert len(seen) == 3


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
