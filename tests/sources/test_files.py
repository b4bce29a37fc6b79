"""Files: what is found when, which position it has, and which mistakes are refused."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.found_files import Clock, K, keys_of, numbers, put, source_of
from trimtab.errors import JobError
from trimtab.sources import file_log
from trimtab.sources.files import Files
from trimtab.sources.rate import Rate
from trimtab.sources.source import Range, identity_of, opened
from trimtab.state.files import Folder

# What is found ---------------------------------------------------------------------------------


def test_it_says_up_to_when_it_knows_all_files_that_came(tmp_path: Path) -> None:
    clock = Clock(1_000.0)
    source = source_of(tmp_path, clock=clock, settled_after_s=5)
    assert (source.complete_s, source.latest(), source.complete_s) == (-math.inf, {"files": 0}, 1_000.0)
    clock.now_s = 1_010.0
    file = put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=1_009.0)
    assert (source.latest(), source.complete_s) == ({"files": 0}, 1_000.0), "it came after that"
    clock.now_s = 1_012.0
    put(file, numbers(1, 2), modified_s=1_020.0)  # by the clock of a file server that is ahead
    assert (source.latest(), source.complete_s) == ({"files": 0}, 1_010.0)
    clock.now_s = 1_017.0
    assert (source.latest(), source.complete_s) == ({"files": 1}, 1_017.0)


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


def test_everything_that_is_there_now_can_be_waited_for(tmp_path: Path) -> None:
    clock = Clock(100.0)
    source = source_of(tmp_path, clock=clock)
    put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=99.0)
    waits = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        clock.now_s += seconds
        put(tmp_path / "in" / f"later-{len(waits)}.parquet", numbers(2), modified_s=clock.now_s)
        return False

    assert source.latest() == {"files": 0}
    source.settle(wait)
    assert source.read(Range("files", 0, 1)).table["k"].to_pylist() == [1]
    assert 1.0 <= clock.now_s - 100.0 < 1.2, "what came since isn't waited for"


def test_a_file_that_is_written_on_and_on_is_waited_for_only_so_long(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(100.0)
    source = source_of(tmp_path, clock=clock)

    def wait(seconds: float) -> bool:
        clock.now_s += seconds
        put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=clock.now_s)
        return False

    wait(0.0)
    source.settle(wait)
    assert (source.latest(), round(clock.now_s)) == ({"files": 0}, 120)
    assert "without 1 files that are still being written" in caplog.text


def test_waiting_ends_when_the_job_is_stopped(tmp_path: Path) -> None:
    source = source_of(tmp_path, clock=Clock(100.0))
    put(tmp_path / "in" / "a.parquet", numbers(1), modified_s=99.0)
    source.settle(lambda _: True)
    assert source.latest() == {"files": 0}


def test_another_folder_has_a_log_of_its_own_and_files_of_the_same_names_are_others(tmp_path: Path) -> None:
    put(tmp_path / "one" / "a.parquet", numbers(1))
    put(tmp_path / "other" / "a.parquet", numbers(2))

    def of(folder: str) -> Files:
        source = opened(Files(str(tmp_path / folder), schema=K, clock=Clock()), Folder(str(tmp_path / "home")))
        assert isinstance(source, Files)
        return source

    for _ in range(2):  # the log of a folder stays, whatever was read in between
        for folder, key in (("one", 1), ("other", 2)):
            source = of(folder)
            assert source.latest() == {"files": 1}
            assert keys_of(source, 0, 1) == [key]
    put(tmp_path / "one" / "b.parquet", numbers(3))
    assert (of("one").latest(), of("other").latest()) == ({"files": 2}, {"files": 1})


def test_the_log_that_an_older_build_has_begun_is_gone_on_with(tmp_path: Path) -> None:
    put(tmp_path / "in" / "b.parquet", numbers(1), modified_s=100)
    source = Files(str(tmp_path / "in"), schema=K, clock=Clock())
    source.opened(Folder(str(tmp_path / "home")).child("source")).latest()
    put(tmp_path / "in" / "a.parquet", numbers(2), modified_s=1)
    again = opened(source, Folder(str(tmp_path / "home")))
    assert isinstance(again, Files)
    assert again.latest() == {"files": 2}
    assert keys_of(again, 0, 2) == [1, 2]


def test_what_tells_folders_apart_has_no_credentials() -> None:
    files = Files("s3://user:secret@bucket/in?access_key_id=x", schema=K)
    assert identity_of(files) == "Files s3://bucket/in"
    assert identity_of(Rate(1.0)) == "Rate"


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


# Mistakes --------------------------------------------------------------------------------------


def test_mistakes_are_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="'xml' is no format of files\n  hint: write one of parquet, csv"):
        Files("somewhere", format="xml")  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"csv files don't say which types .*\n  hint: give the columns: schema="):
        Files("somewhere", format="csv")
    with pytest.raises(JobError, match="column k is VARIANT"):
        Files("somewhere", schema="k VARIANT")
    with pytest.raises(JobError, match=r"json files have no column m that is map<string, int64>\n  hint: read it"):
        Files("somewhere", format="json", schema=K.append(pa.field("m", pa.map_(pa.string(), pa.int64()))))
    with pytest.raises(JobError, match="csv files have no column l that is list"):
        Files("somewhere", format="csv", schema="k BIGINT, l ARRAY<BIGINT>")
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
