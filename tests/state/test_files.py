"""Folders: files that appear whole or not at all, and faults that say what to do."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.state.stores import remote_folder
from trimtab.errors import StateError
from trimtab.state.files import Folder


@pytest.fixture(params=["local", "file", "remote"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """The same contract for a path, a file:// URI and an object store."""
    (tmp_path / "here").mkdir()
    if request.param == "remote":
        return remote_folder(monkeypatch)
    return Folder(f"file://{tmp_path}/here" if request.param == "file" else f"{tmp_path}/here")


def test_what_is_written_is_read(folder: Folder) -> None:
    folder.write("b", b"one")
    folder.write("a", b"two")
    folder.write("b", b"three")
    assert (folder.read("a"), folder.read("b")) == (b"two", b"three")
    assert folder.names() == ["a", "b"]
    assert folder.exists()
    assert folder.exists("a")
    assert not folder.exists("c")
    assert not folder.child("c").exists()
    assert folder.temporaries() == []


def test_deleting_twice_is_fine(folder: Folder) -> None:
    folder.write("a", b"")
    folder.delete("a")
    folder.delete("a")
    assert folder.names() == []
    folder.child("deep").child("er").make()
    folder.child("deep").make()
    folder.child("deep").child("er").write("x", b"1")
    assert folder.names() == ["deep"]
    folder.child("deep").remove_all(lambda: None)
    folder.child("deep").remove_all(lambda: None)
    assert folder.names() == []


def test_a_file_is_not_written_over_unless_asked(folder: Folder) -> None:
    folder.write("a", b"first", replace=False)
    with pytest.raises(FileExistsError):
        folder.write("a", b"second", replace=False)
    assert folder.read("a") == b"first"
    assert folder.temporaries() == []


def test_only_one_of_two_concurrent_writers_of_a_new_file_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(str(tmp_path))
    monkeypatch.setattr(Folder, "exists", lambda *_: False)  # both checked before either wrote
    folder.write("a", b"first", replace=False)
    with pytest.raises(FileExistsError):
        folder.write("a", b"second", replace=False)
    assert folder.read("a") == b"first"


def test_a_finished_file_is_moved_in(folder: Folder, tmp_path: Path) -> None:
    local = tmp_path / "finished"
    local.write_bytes(b"x" * 100_000)
    folder.publish(str(local), "a")
    assert not local.exists()
    assert folder.read("a") == b"x" * 100_000
    folder.fetch("a", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"x" * 100_000
    assert sorted(os.listdir(tmp_path)) == ["copy", "here"]


def test_a_file_from_another_disk_is_copied_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "finished").write_bytes(b"content")
    replace = os.replace

    def other_disk(source: str, target: str) -> None:
        if not source.startswith(f"{tmp_path}/here"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        replace(source, target)

    monkeypatch.setattr(os, "replace", other_disk)
    folder = Folder(f"{tmp_path}/here")
    folder.publish(f"{tmp_path}/finished", "a")
    assert folder.read("a") == b"content"
    assert os.listdir(tmp_path) == ["here"]
    assert folder.temporaries() == []


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(str(tmp_path))
    folder.write("a", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError) as caught:
        folder.write("a", b"new")
    assert caught.value.code == "state.disk-full"
    assert f"{tmp_path}/a" in str(caught.value)
    assert folder.read("a") == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_durable_files_are_on_disk_before_they_have_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    replace, fsync = os.replace, os.fsync

    def watched_replace(source: str, target: str) -> None:
        steps.append("name")
        replace(source, target)

    def watched_fsync(descriptor: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "replace", watched_replace)
    monkeypatch.setattr(os, "fsync", watched_fsync)
    folder = Folder(str(tmp_path / "here"))
    folder.make()
    folder.write("a", b"content", durable=True)
    (tmp_path / "finished").write_bytes(b"content")
    folder.publish(str(tmp_path / "finished"), "b", durable=True)
    assert steps == ["file", "name", "folder"] * 2
    folder.write("a", b"content", durable=False)
    assert steps[6:] == ["name"]


def test_a_folder_that_vanished_is_not_made_again(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "here"))
    (tmp_path / "finished").write_bytes(b"")
    attempts: list[Callable[[], object]] = [lambda: folder.read("a"), folder.names]
    attempts += [lambda: folder.write("a", b""), lambda: folder.publish(str(tmp_path / "finished"), "a")]
    for attempt in attempts:
        with pytest.raises(StateError) as caught:
            attempt()
        assert caught.value.code == "state.gone"
        assert folder.shown in str(caught.value)
    assert not (tmp_path / "here").exists()


def test_a_missing_file_in_an_existing_folder_is_another_error(folder: Folder) -> None:
    with pytest.raises(StateError) as caught:
        folder.read("a")
    assert caught.value.code == "state.missing"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "state.disk-full"),
        (errno.EDQUOT, "state.disk-full"),
        (errno.EACCES, "state.access"),
        (errno.EROFS, "state.access"),
        (errno.EIO, "state.io"),
    ],
)
def test_faults_of_the_disk_say_what_to_do(
    number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Iterator[None]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(StateError) as caught:
        Folder(str(tmp_path)).write("a", b"content")
    assert caught.value.code == code
    assert f"{tmp_path}/a" in caught.value.message
    assert caught.value.hint
    assert os.listdir(tmp_path) == []


def test_a_file_isnt_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for attempt in (Folder(f"{tmp_path}/file").names, Folder(f"{tmp_path}/file").make):
        with pytest.raises(StateError) as caught:
            attempt()
        assert caught.value.code == "state.foreign"


def test_whether_a_folder_could_be_written_can_be_checked(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.check_writable()
    new = folder.child("new").child("newer")
    new.check_writable()
    assert not folder.exists("new")
    folder.write("file", b"")
    if not folder.is_local:
        return
    with pytest.raises(StateError, match="is not a folder, or is inside a file"):
        folder.child("file").child("new").check_writable()
    monkeypatch.setattr(os, "access", lambda path, _: path != folder.location)
    for each in (folder, new):
        with pytest.raises(StateError, match=each.location) as caught:
            each.check_writable()
        assert caught.value.code == "state.access"


def test_folders_are_pickled_as_their_location(folder: Folder) -> None:
    folder.write("a", b"content")
    travelled = pickle.loads(pickle.dumps(folder))
    assert travelled == folder
    assert travelled.read("a") == b"content"
    assert len(pickle.dumps(folder)) < 300


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Folder("here").location == f"{tmp_path}/here"
    assert Folder("here").path_of("a") == f"{tmp_path}/here/a"
    assert Folder(f"file://{tmp_path}/a%20b").location == f"{tmp_path}/a b"


def test_credentials_in_a_location_are_never_shown() -> None:
    folder = Folder("s3://id:secret@bucket/here?endpoint_override=localhost:9000").child("more")
    assert folder.location == "s3://id:secret@bucket/here/more?endpoint_override=localhost:9000"
    assert repr(folder) == "Folder('s3://bucket/here/more')"
    assert folder.shown_path("a") == "s3://bucket/here/more/a"


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(StateError) as caught:
        Folder("gopher://somewhere/else").names()
    assert caught.value.code == "state.location"
    assert "gopher" in str(caught.value)
