"""Sweeping: whatever happens, every manifest that exists names only files that exist."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import StateError
from trimtab.state import manifest as manifests
from trimtab.state.checkpoint import Checkpoint, StreamFolders, segment_name
from trimtab.state.files import Folder
from trimtab.state.manifest import Manifest, SegmentFile
from trimtab.state.sweep import NEVER, OLD_S, sweep, sweep_orphans


def segment(batch: int, rest: str = "e0-a") -> str:
    return f"{batch:012d}-{rest}.segment"


def manifest(batch: int, *names: str) -> Manifest:
    files = {name: SegmentFile(name, 1, "0" * 16) for name in names}
    return Manifest("ab" * 16, "ticks", batch, 8, 1, (0,) * 8, None, None, {}, files)


@pytest.fixture
def folders(tmp_path: Path) -> StreamFolders:
    found = Checkpoint.open(str(tmp_path), 8).stream("ticks")
    found.make()
    return found


def commit(folders: StreamFolders, batch: int, *names: str) -> None:
    for name in names:
        folders.segments.write(name, b"x")
    manifests.write(folders.manifests, manifest(batch, *names))


def assert_whole(folders: StreamFolders) -> None:
    there = set(folders.segments.names())
    for batch in manifests.batches(folders.manifests):
        assert set(manifests.read(folders.manifests, batch).segments) <= there


def test_old_versions_are_deleted_with_the_files_that_only_they_name(folders: StreamFolders) -> None:
    for batch in range(6):
        commit(folders, batch, segment(0, "e0-base"), segment(batch))
    sweep(folders, epoch=1)
    assert manifests.batches(folders.manifests) == [3, 4, 5]
    assert folders.segments.names() == sorted([segment(0, "e0-base"), *map(segment, (3, 4, 5))])
    sweep(folders, epoch=1, keep=1)
    assert manifests.batches(folders.manifests) == [5]
    assert_whole(folders)


def test_what_no_version_names_is_deleted_whatever_its_batch(folders: StreamFolders) -> None:
    merged, again, lost = (segment(999_999_999_999, each) for each in ("m-a", "m-b", "m-c"))
    commit(folders, 5, merged)
    commit(folders, 6, again)
    for name in (lost, segment(7), segment(5, "e1-dead")):
        folders.segments.write(name, b"x")
    folders.manifests.write(manifests.manifest_name(4), b"{")  # damaged: names no files, and is deleted
    folders.outbox.write("000000000007-e0-a.parquet", b"x")
    sweep(folders, epoch=1, keep=1)
    assert manifests.batches(folders.manifests) == [6]
    assert folders.segments.names() == [again]
    assert folders.outbox.names() == []


def test_before_the_first_commit_all_segments_are_leftovers(folders: StreamFolders) -> None:
    folders.segments.write(segment(0), b"x")
    sweep(folders, epoch=1)
    assert folders.segments.names() == []


def test_files_with_other_names_are_kept(folders: StreamFolders) -> None:
    folders.segments.write("notes.txt", b"")
    folders.manifests.write("7.json", b"")
    sweep(folders, epoch=1)
    assert folders.segments.names() == ["notes.txt"]
    assert "7.json" in folders.manifests.names()


def test_old_temporary_files_are_deleted(folders: StreamFolders) -> None:
    for folder in (folders.manifests, folders.segments):
        for name, age_s in ((".old", OLD_S + 10), (".new", OLD_S - 10)):
            folder.write(name, b"")
            os.utime(folder.path_of(name), (time.time() - age_s, time.time() - age_s))
    sweep(folders, epoch=1)
    assert [name for name, _ in folders.segments.temporaries()] == [".new"]


def test_nothing_is_deleted_if_a_version_to_be_kept_is_damaged(folders: StreamFolders) -> None:
    for batch in range(5):
        commit(folders, batch, segment(batch))
    folders.manifests.write(manifests.manifest_name(3), b"{")
    with pytest.raises(StateError) as caught:
        sweep(folders, epoch=1)
    assert caught.value.code == "state.corrupt"
    assert len(manifests.batches(folders.manifests)) == len(folders.segments.names()) == 5


@pytest.mark.parametrize("survived", range(8))
def test_a_sweeper_may_die_at_any_moment(
    folders: StreamFolders, survived: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(6):
        commit(folders, batch, segment(batch))
    folders.segments.write(segment(2, "e1-dead"), b"x")
    delete = Folder.delete
    deleted: list[str] = []

    def dies(folder: Folder, name: str) -> None:
        if len(deleted) == survived:
            raise KeyboardInterrupt
        deleted.append(name)
        delete(folder, name)

    monkeypatch.setattr(Folder, "delete", dies)
    try:
        sweep(folders, epoch=1)
    except KeyboardInterrupt:
        assert survived < 7
    assert_whole(folders)
    monkeypatch.setattr(Folder, "delete", delete)
    sweep(folders, epoch=1)
    assert folders.segments.names() == [*map(segment, (3, 4, 5))]


@given(st.lists(st.lists(st.integers(0, 30), max_size=5), min_size=1, max_size=3))
def test_exactly_the_files_that_no_manifest_needs_are_deleted(named: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folders = StreamFolders.of(Folder(place))
        folders.make()
        for batch in range(31):
            folders.segments.write(segment(batch), b"x", durable=False)
        for number, each in enumerate(named):
            manifests.write(folders.manifests, manifest(20 + number, *map(segment, each)), durable=False)
        sweep(folders, epoch=1)
        assert set(folders.segments.names()) == {segment(batch) for each in named for batch in each}


def own(batch: int, epoch: int, maker: str = "e0") -> str:
    return segment_name(batch, maker, "c0ffee00", epoch)


def test_files_of_later_owners_are_kept(folders: StreamFolders) -> None:
    commit(folders, 0, own(0, 5))
    left, later = own(1, 5), own(1, 7)
    for name in (left, later):
        folders.segments.write(name, b"x")
        folders.outbox.write(name.replace(".segment", ".parquet"), b"x")
    sweep(folders, epoch=7)
    assert left not in folders.segments.names()
    assert later in folders.segments.names()
    assert folders.outbox.names() == [later.replace(".segment", ".parquet")]


def test_an_owner_that_was_replaced_does_not_sweep(folders: StreamFolders) -> None:
    sweep(folders, epoch=2)
    folders.segments.write(own(0, 2), b"x")
    with pytest.raises(StateError) as caught:
        sweep(folders, epoch=1)
    assert caught.value.code == "state.lost-lock"
    manifests.write(folders.manifests, manifest(0, *folders.segments.names()), epoch=2)
    with pytest.raises(StateError) as caught:
        sweep(folders, epoch=1)
    assert caught.value.code == "state.lost-lock"
    assert_whole(folders)


def test_plans_of_batches_that_were_undone_are_deleted(folders: StreamFolders) -> None:
    commit(folders, 3)
    for number in (3, 4, 5):
        folders.plans.write(manifests.manifest_name(number), b"{}")
    sweep(folders, epoch=1)
    assert folders.plans.names() == [manifests.manifest_name(number) for number in (3, 4)]


def test_what_repeated_tasks_left_is_deleted_while_the_job_runs(folders: StreamFolders) -> None:
    sweep(folders, epoch=4)
    merged, other = own(NEVER, 4, "m"), own(NEVER, 4, "m")
    kept = [own(0, 4), own(1, 4), merged]
    for batch, names in enumerate(([kept[0]], [kept[0], kept[1]], [kept[1], merged])):
        for name in names:
            folders.segments.write(name, b"x")
        manifests.write(folders.manifests, manifest(batch, *names), epoch=4)
    running = own(3, 4)
    for name in (own(1, 4), own(2, 4, "e1"), other, running):  # repeated tasks, a repeated merge, a batch under way
        folders.segments.write(name, b"x")
    folders.outbox.write("000000000002-e0-epoch4-00.parquet", b"x")
    folders.outbox.write("000000000003-e0-epoch4-00.parquet", b"x")
    sweep_orphans(folders, epoch=4)
    assert folders.segments.names() == sorted([*kept, running])
    assert folders.outbox.names() == ["000000000003-e0-epoch4-00.parquet"]
    assert_whole(folders)
