"""Checkpoints: made in a new place, opened where one is, and nothing else is touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import JobError, StateError
from trimtab.state.checkpoint import FORMAT, Checkpoint, safe_name
from trimtab.state.files import Folder
from trimtab.state.lock import CheckpointLock
from trimtab.state.manifest import seal


def test_a_checkpoint_is_made_once_and_then_opened(tmp_path: Path) -> None:
    made = Checkpoint.open(f"{tmp_path}/new/here", 64)
    assert len(made.job) == 32
    assert made.key_groups == 64
    assert Checkpoint.open(f"{tmp_path}/new/here", 64) == made
    assert Checkpoint.open(f"file://{tmp_path}/new/here", 64) == made
    assert Checkpoint.existing(f"{tmp_path}/new/here") == made
    assert Checkpoint.open(f"{tmp_path}/other", 64).job != made.job


def test_an_empty_folder_and_a_locked_one_can_become_a_checkpoint(tmp_path: Path) -> None:
    with CheckpointLock(Folder(str(tmp_path))):
        (tmp_path / ".job.json.0123").write_text("{")  # a writer died here
        Checkpoint.open(str(tmp_path), 64)


def test_the_number_of_key_groups_is_fixed_for_life(tmp_path: Path) -> None:
    Checkpoint.open(str(tmp_path), 64)
    with pytest.raises(JobError, match="key_groups=64") as caught:
        Checkpoint.open(str(tmp_path), 65)
    assert caught.value.code == "job.key-groups"
    assert "fixed for a job's life" in caught.value.hint


@pytest.mark.parametrize("key_groups", [0, -1, 32_769])
def test_an_impossible_number_of_key_groups_makes_no_checkpoint(tmp_path: Path, key_groups: int) -> None:
    with pytest.raises(JobError) as caught:
        Checkpoint.open(f"{tmp_path}/here", key_groups)
    assert caught.value.code == "job.key-groups"
    assert os.listdir(tmp_path) == []


def test_a_folder_with_something_else_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    attempts: list[Callable[[], Checkpoint]] = [
        lambda: Checkpoint.open(str(tmp_path), 64),
        lambda: Checkpoint.existing(str(tmp_path)),
    ]
    for attempt in attempts:
        with pytest.raises(StateError) as caught:
            attempt()
        assert caught.value.code == "state.foreign"
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_looking_at_a_checkpoint_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StateError) as caught:
        Checkpoint.existing(f"{tmp_path}/here")
    assert caught.value.code == "state.missing"
    with pytest.raises(StateError) as caught:
        Checkpoint.existing(str(tmp_path))
    assert caught.value.code == "state.foreign"
    assert Checkpoint.look(f"{tmp_path}/here", 8) is None
    assert Checkpoint.look(str(tmp_path), 8) is None
    assert os.listdir(tmp_path) == []
    made = Checkpoint.open(str(tmp_path), 8)
    assert Checkpoint.look(str(tmp_path), 8) == made


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"{", "state.corrupt"), (seal(FORMAT, {"id": "ab"}), "state.corrupt"), (seal(FORMAT + 1, {}), "state.newer")],
)
def test_a_damaged_or_newer_job_file_is_not_changed(tmp_path: Path, content: bytes, code: str) -> None:
    (tmp_path / "job.json").write_bytes(content)
    with pytest.raises(StateError) as caught:
        Checkpoint.open(str(tmp_path), 64)
    assert caught.value.code == code
    assert (tmp_path / "job.json").read_bytes() == content


def test_streams_have_folders_of_their_own(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path), 64)
    assert checkpoint.streams() == []
    for name in ("ticks", "../up", "ä b"):
        folders = checkpoint.stream(name)
        folders.make()
        folders.manifests.write("a", b"")
    assert checkpoint.streams() == ["../up", "ticks", "ä b"]
    assert (tmp_path / "streams" / "ticks" / "manifests" / "a").exists()
    assert (tmp_path / "streams" / "ticks" / "segments").is_dir()
    assert sorted(os.listdir(tmp_path)) == ["job.json", "streams"]


def test_spark_is_given_locations_that_it_understands(tmp_path: Path) -> None:
    local = Checkpoint(Folder(f"{tmp_path}/a b"), "id", 64)
    assert local.spark("ticks") == f"file://{tmp_path}/a b/spark/ticks"
    azure = Checkpoint(Folder("abfss://container:secret@account.dfs.core.windows.net/here"), "id", 64)
    assert azure.spark("a/b") == "abfss://container@account.dfs.core.windows.net/here/spark/a~2Fb"
    remote = Checkpoint(Folder("s3://id:secret@bucket/a%20b?region=eu-north-1"), "id", 64)
    assert remote.spark("ticks") == "s3a://bucket/a b/spark/ticks"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_different_names_give_different_safe_names(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)
    assert safe_name(one).isascii()
    assert not set(safe_name(one)) & set("/.%\\: ")
