"""Segment files: what was written comes back, mapped and not copied; damage is reported."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.model import array, model_of, random_key, same, slot, tables_of
from tests.state.stores import remote_folder
from trimtab.errors import StateError
from trimtab.state import local_copies, segment
from trimtab.state.bundle import Bundle, to_bundle
from trimtab.state.files import Folder
from trimtab.state.local_copies import local_copy, make_room
from trimtab.state.manifest import SegmentFile
from trimtab.state.segment import MAGIC, Segment, open_segment, segment_of, verify_segment, write_segment

TAIL_BYTES = 16 + len(MAGIC)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder that is treated as if it were on another machine; local copies are in a folder of their own."""
    monkeypatch.setenv("TRIMTAB_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "far").mkdir()
    return Folder(f"{remote_folder(monkeypatch, tmp_path).location.removesuffix('here')}far")


def some_bundle(seed: int = 0, keys: int = 20) -> Bundle:
    random = np.random.default_rng(seed)
    model = {slot(n % 5, n): (random_key(random),) for n in range(keys)}
    return to_bundle(tables_of(model, random), array({*model, slot(4, 1000)}))


def assert_equal(found: Bundle, expected: Bundle) -> None:
    for name in ("slots", "key_starts", "due_us", "due_slots"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    assert list(found.tables) == list(expected.tables)
    assert list(found.starts) == list(expected.starts)
    for name, table in expected.tables.items():
        assert found.tables[name].equals(table)
        assert found.tables[name].schema.equals(table.schema, check_metadata=True)
    for name, starts in expected.starts.items():
        assert found.starts[name].tolist() == starts.tolist()


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_parts_come_back_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = Folder(str(tmp_path_factory.mktemp("segments")))
    parts = {"one": some_bundle(seed), "two": some_bundle(seed + 1, keys=1), "freed": to_bundle({}, np.array([1, 2]))}
    file, sizes = write_segment(folder, "a.segment", parts)
    path = folder.path_of("a.segment")
    assert os.path.getsize(path) == file.size_bytes
    assert xxhash.xxh3_64_hexdigest(Path(path).read_bytes()) == file.checksum
    verify_segment(path, file)
    opened = open_segment(path)
    assert tuple(opened.parts) == ("one", "two", "freed")
    for name, bundle in parts.items():
        assert_equal(opened.part(name), bundle)
        assert (sizes[name].slots, sizes[name].keys) == (len(bundle.slots), bundle.keys)
    assert sum(size.size_bytes for size in sizes.values()) <= file.size_bytes
    assert folder.names() == ["a.segment"]
    assert folder.temporaries() == []


def test_a_segment_without_parts_can_be_read(folder: Folder) -> None:
    file, sizes = write_segment(folder, "a", {})
    verify_segment(folder.path_of("a"), file)
    assert (dict(open_segment(folder.path_of("a")).parts), sizes) == ({}, {})


def test_tables_are_mapped_and_begin_at_multiples_of_64_bytes(folder: Folder) -> None:
    write_segment(folder, "a", {"q": some_bundle()})
    opened = open_segment(folder.path_of("a"))
    (described,) = opened.parts.data["q"].args
    before = pa.total_allocated_bytes()
    bundle = opened.part("q")
    values = bundle.tables["keys"].column("__slot").chunk(0)
    assert pa.total_allocated_bytes() - before < 1000
    assert values.buffers()[1].address % 8 == 0
    assert all(place[0] % 64 == 0 for place in described["tables"].values())
    assert not bundle.slots.flags.owndata


def test_a_deleted_segment_can_be_read_as_long_as_it_is_open(folder: Folder) -> None:
    expected = some_bundle()
    write_segment(folder, "a", {"q": expected})
    opened = open_segment(folder.path_of("a"))
    os.unlink(folder.path_of("a"))
    assert_equal(opened.part("q"), expected)
    with pytest.raises(StateError) as raised:
        open_segment(folder.path_of("a"))
    assert raised.value.code == "state.missing"


def test_a_segment_is_opened_once_in_a_process(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_open_segments", segment._OpenSegments())
    monkeypatch.setattr(segment, "OPEN_SEGMENTS", 2)
    monkeypatch.setattr(segment, "UNUSED_S", 0.0)
    for name in ("a", "b", "c"):
        write_segment(folder, name, {"q": some_bundle()})
    first: Segment = open_segment(folder.path_of("a"))
    bundle = first.part("q")
    assert open_segment(folder.path_of("a")) is first
    open_segment(folder.path_of("b"))
    open_segment(folder.path_of("c"))
    assert open_segment(folder.path_of("a")) is not first
    assert_equal(bundle, some_bundle())
    write_segment(folder, "a", {"other": some_bundle(1)})  # never happens to a real segment
    assert list(open_segment(folder.path_of("a")).parts) == ["other"]


def test_a_batch_that_needs_more_segments_than_are_kept_open_opens_each_of_them_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "_open_segments", segment._OpenSegments())
    monkeypatch.setattr(segment, "OPEN_SEGMENTS", 4)
    monkeypatch.setattr(segment, "MOST_OPEN_SEGMENTS", 7)
    names = [f"s{number}" for number in range(8)]
    for name in names:
        write_segment(folder, name, {"q": some_bundle(keys=1)}, durable=False)
    first = [open_segment(folder.path_of(name)) for name in names[:7]]
    assert [open_segment(folder.path_of(name)) for name in names[:7]] == first
    open_segment(folder.path_of(names[7]))  # one more than the most: the longest unused one goes
    assert [open_segment(folder.path_of(name)) for name in names[1:7]] == first[1:]
    monkeypatch.setattr(segment, "UNUSED_S", 0.0)  # a batch later, the others are no longer used
    open_segment(folder.path_of(names[0]))
    assert len(segment._open_segments._known) == 4


def test_what_the_manifest_says_is_compared_when_a_segment_is_first_opened(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = write_segment(folder, "a", {"q": some_bundle()})
    path = Path(folder.path_of("a"))
    content = path.read_bytes()
    reads: list[str] = []
    opened = segment._opened

    def noted(path: str, file: SegmentFile | None) -> Segment:
        reads.append(path)
        return opened(path, file)

    monkeypatch.setattr(segment, "_opened", noted)
    segment_of(folder, file)
    segment_of(folder, file)
    assert len(reads) == 1
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 1  # not in the footer
    for wrong in (bytes(damaged), content[:64] + bytes(len(content) - 364) + content[-300:]):
        path.write_bytes(wrong)
        with pytest.raises(StateError, match="is damaged") as raised:
            segment_of(folder, file)
        assert raised.value.code == "state.corrupt"


@pytest.mark.parametrize("damage", ["zeroed", "truncated", "empty", "foreign"])
def test_a_damaged_local_copy_is_fetched_again(elsewhere: Folder, damage: str) -> None:
    expected = some_bundle()
    file, _ = write_segment(elsewhere, "a", {"q": expected})
    copy = Path(local_copy(elsewhere, file))
    whole = copy.read_bytes()
    middle = len(whole) // 2  # a hole in the middle is what a power cut leaves of a file that was never synced
    hole = whole[:middle] + bytes(64) + whole[middle + 64 :]
    copy.write_bytes({"zeroed": hole, "truncated": whole[:-100], "empty": b"", "foreign": b"PAR1" * 100}[damage])
    assert_equal(segment_of(elsewhere, file).part("q"), expected)
    assert copy.read_bytes() == whole


def test_a_local_copy_is_on_disk_before_it_has_its_name(elsewhere: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, link, replace = os.fsync, os.link, os.replace

    def synced(descriptor: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        fsync(descriptor)

    def linked(source: str, target: str) -> None:
        steps.append("name")
        link(source, target)

    def renamed(source: str, target: str) -> None:
        if str(target).endswith(".segment"):
            steps.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "replace", renamed)
    file, _ = write_segment(elsewhere, "a", {"q": some_bundle()})
    assert steps[:2] == ["file", "name"]
    os.unlink(local_copy(elsewhere, file))
    steps.clear()
    segment_of(elsewhere, file)
    assert steps == ["file", "name", "folder"]


def test_a_copy_that_is_used_again_is_not_mapped_again(elsewhere: Folder) -> None:
    file, _ = write_segment(elsewhere, "a", {"q": some_bundle()})
    assert segment_of(elsewhere, file) is segment_of(elsewhere, file)


def test_a_manifest_cannot_name_a_file_outside_of_its_folder(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    file, _ = write_segment(folder, "a", {"q": some_bundle()})
    inner = Folder(str(tmp_path / "inner"))
    for name in ("../a", str(tmp_path / "a"), "..", "", "a\0"):
        with pytest.raises(StateError) as raised:
            segment_of(inner, SegmentFile(name, file.size_bytes, file.checksum))
        assert raised.value.code == "state.name"


def footer_bytes(content: bytes) -> int:
    length: int = struct.unpack("<Q", content[-TAIL_BYTES + 8 : -len(MAGIC)])[0]
    return length


def test_any_damage_to_the_magic_words_or_the_footer_is_noticed_when_opening(folder: Folder) -> None:
    write_segment(folder, "a", {"q": some_bundle()})
    path = Path(folder.path_of("a"))
    content = path.read_bytes()
    footer_start = len(content) - TAIL_BYTES - footer_bytes(content)
    for place in (*range(len(MAGIC)), *range(footer_start, len(content))):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        with pytest.raises(StateError) as raised:
            segment._opened(str(path), None)
        assert raised.value.code == ("state.foreign" if place < len(MAGIC) else "state.corrupt")
        assert str(path) in str(raised.value)
        assert "hint" in str(raised.value)


def test_any_damaged_byte_and_any_cut_is_noticed_when_verifying(folder: Folder) -> None:
    file, _ = write_segment(folder, "a", {"q": some_bundle(keys=3)})
    path = Path(folder.path_of("a"))
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="checksum is wrong"):
            verify_segment(str(path), file)
    for length in range(0, len(content), 101):
        path.write_bytes(content[:length])
        with pytest.raises(StateError, match="bytes instead of"):
            verify_segment(str(path), file)
        with pytest.raises(StateError) as raised:
            open_segment(str(path))
        assert raised.value.code == "state.corrupt"


def test_a_damaged_table_is_reported(folder: Folder) -> None:
    write_segment(folder, "a", {"q": some_bundle()})
    path = Path(folder.path_of("a"))
    offset = open_segment(str(path)).parts.data["q"].args[0]["tables"]["keys"][0]
    content = bytearray(path.read_bytes())
    content[offset : offset + 64] = b"\x55" * 64
    path.write_bytes(content)
    with pytest.raises(StateError) as raised:
        segment._opened(str(path), None).part("q").tables["keys"]
    assert raised.value.code == "state.corrupt"


def test_a_file_that_isnt_a_segment_is_reported(folder: Folder) -> None:
    folder.write("a", b"PAR1" * 100)
    with pytest.raises(StateError, match="not a segment") as raised:
        open_segment(folder.path_of("a"))
    assert raised.value.code == "state.foreign"


def test_a_later_format_asks_for_an_upgrade(folder: Folder) -> None:
    footer = json.dumps({"format": 99, "whatever": []}).encode()
    tail = struct.pack("<QQ", xxhash.xxh3_64_intdigest(footer), len(footer)) + MAGIC
    folder.write("a", MAGIC + bytes(48) + footer + tail)
    with pytest.raises(StateError, match="upgrade trimtab") as raised:
        open_segment(folder.path_of("a"))
    assert raised.value.code == "state.newer"


def test_a_missing_part_is_reported(folder: Folder) -> None:
    write_segment(folder, "a", {"q": some_bundle()})
    with pytest.raises(StateError, match="no part 'other'"):
        open_segment(folder.path_of("a")).part("other")


def test_nothing_is_left_behind_when_writing_fails(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segment, "_write_table", full)
    with pytest.raises(StateError) as raised:
        write_segment(folder, "a", {"q": some_bundle()})
    assert raised.value.code == "state.disk-full"
    assert folder.names() == []
    assert folder.temporaries() == []


def test_a_vanished_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StateError) as raised:
        write_segment(Folder(str(tmp_path / "none")), "a", {"q": some_bundle()})
    assert raised.value.code == "state.gone"
    assert not (tmp_path / "none").exists()


def test_segments_elsewhere_are_read_from_a_checked_copy(elsewhere: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = some_bundle()
    file, _ = write_segment(elsewhere, "a", {"q": expected})
    kept = local_copy(elsewhere, file)
    assert_equal(segment_of(elsewhere, file).part("q"), expected)
    os.unlink(kept)
    assert local_copy(elsewhere, file) == kept
    monkeypatch.setattr(Folder, "fetch", None)  # a second time nothing is fetched
    assert_equal(segment_of(elsewhere, file).part("q"), expected)
    assert [name for name in os.listdir(local_copies.cache_folder()) if name.startswith(".")] == []


def test_a_damaged_segment_elsewhere_is_not_copied(elsewhere: Folder, tmp_path: Path) -> None:
    file, _ = write_segment(elsewhere, "a", {"q": some_bundle()})
    os.unlink(local_copy(elsewhere, file))
    path = tmp_path / "far" / "a"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(StateError, match=r"far/a is damaged: its checksum is wrong") as raised:
        segment_of(elsewhere, file)
    assert raised.value.code == "state.corrupt"
    assert os.listdir(local_copies.cache_folder()) == []
    path.unlink()
    with pytest.raises(StateError) as raised:
        segment_of(elsewhere, file)
    assert raised.value.code == "state.missing"


def test_old_copies_make_room_and_open_ones_stay_readable(elsewhere: Folder) -> None:
    files: list[SegmentFile] = []
    for number in range(4):
        file, _ = write_segment(elsewhere, f"s{number}", {"q": some_bundle(number)})
        files.append(file)
        os.utime(local_copy(elsewhere, file), (number, number))
    opened = segment_of(elsewhere, files[0])  # used last, but opened first
    os.utime(local_copy(elsewhere, files[0]), (0, 0))
    part = opened.part("q")
    abandoned = local_copies.cache_folder() / ".left.by.a.crash"
    abandoned.touch()
    os.utime(abandoned, (0, 0))
    make_room(limit_bytes=files[2].size_bytes + files[3].size_bytes)
    left = sorted(os.listdir(local_copies.cache_folder()))
    assert left == sorted(f"{file.checksum}-{file.size_bytes}.segment" for file in files[2:])
    assert_equal(part, some_bundle(0))
    assert same(model_of(segment_of(elsewhere, files[0]).part("q").state()), model_of(some_bundle(0).state()))
