"""The log of found files: positions keep their meaning through merges, restarts and other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import StateError
from trimtab.sources import file_log
from trimtab.sources.file_log import MERGED, Chunk, FileLog, covering, merge_from
from trimtab.sources.file_store import Found
from trimtab.state.files import Folder


def log_in(path: Path) -> FileLog:
    return FileLog.begun(Folder(str(path)), dict)[0]


def forget() -> None:
    """As another process would begin."""
    file_log._content.cache_clear()


def found(name: object) -> Found:
    return Found(f"{name}.csv", 1, 2, "")


def chunks_in(path: Path) -> list[str]:
    return sorted(each.name for each in path.glob("found-*"))


def test_positions_survive_merges_and_restarts(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    expected: dict[str, list[Found]] = {"a": [], "b": []}
    for look in range(5 * MERGED):
        files = {"a": [found(look)], "b": [found(f"{look}-{n}") for n in range(look % 3)]}
        assert log.add(files)
        for name, some in files.items():
            expected[name] += some
        if look % 7 == 0:
            forget()
            log = log_in(tmp_path)
    assert len(chunks_in(tmp_path)) < MERGED + 6
    for name, files_of in expected.items():
        assert log.ends()[name] == len(files_of)
        assert log.entries(name, 0, len(files_of)) == files_of
        assert log.entries(name, 30, 70) == files_of[30:70]
        assert log.entries(name, 5, 5) == []
    assert log.first_ends() == {"a": 1}
    assert log.known() == {each.path for files_of in expected.values() for each in files_of}


def test_a_process_reads_on_where_another_has_merged(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for look in range(MERGED):
        log.add({"a": [found(look)]})
    worker = file_log._Content(Folder(str(tmp_path)))
    worker.refresh()
    assert worker.ends == {"a": MERGED}
    log.add({"a": [found("merged")]})
    assert chunks_in(tmp_path) == [Chunk(0, 0).name, Chunk(1, MERGED).name]
    worker.refresh()
    assert worker.ends == {"a": MERGED + 1}
    assert worker.entries("a", 0, MERGED + 1) == log.entries("a", 0, MERGED + 1)


def test_what_another_process_wrote_is_not_written_over(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.add({"a": [found(0)]})
    Folder(str(tmp_path)).write(Chunk(1, 1).name, (tmp_path / Chunk(0, 0).name).read_bytes())
    assert not log.add({"a": [found(1)]})
    assert log.entries("a", 0, 2) == [found(0), found(0)]
    assert log.add({"a": [found(2)]})


def test_a_crash_between_merging_and_deleting_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "delete", lambda *_: None)
        log = log_in(tmp_path)
        for look in range(MERGED + 1):
            log.add({"a": [found(look)]})
    assert len(chunks_in(tmp_path)) == MERGED + 2
    forget()
    again = log_in(tmp_path)
    assert again.ends() == {"a": MERGED + 1}
    for look in range(MERGED):
        again.add({"a": [found(f"later-{look}")]})
    assert again.ends() == {"a": 2 * MERGED + 1}
    assert len(chunks_in(tmp_path)) == 2


def test_a_chunk_that_is_damaged_or_missing_is_named(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for look in range(3):
        log.add({"a": [found(look)]})
    (tmp_path / Chunk(2, 2).name).write_bytes(b"nothing")
    forget()
    with pytest.raises(StateError, match=f"{Chunk(2, 2).name} is damaged"):
        log_in(tmp_path)
    (tmp_path / Chunk(1, 1).name).unlink()
    with pytest.raises(StateError, match=f"lacks {Chunk(1, 1).name}"):
        log_in(tmp_path)


def test_positions_that_were_never_given_out_are_refused(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.add({"a": [found(0)]})
    for partition, start, end in (("a", 0, 2), ("b", 0, 1), ("a", -1, 1)):
        with pytest.raises(StateError, match="has no files"):
            log.entries(partition, start, end)


def test_a_log_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "about.json").write_text('{"format": 99, "id": "x"}')
    with pytest.raises(StateError, match="later version"):
        log_in(tmp_path)


def test_a_large_chunk_is_merged_only_with_as_many_files() -> None:
    single = [(Chunk(number, number), 1) for number in range(10, 10 + MERGED)]
    assert merge_from([(Chunk(0, 0), 5), *single[1:]]) is None
    assert merge_from([(Chunk(0, 0), 5), *single]) == 1
    assert merge_from([(Chunk(0, 0), 5), (Chunk(1, 9), MERGED), *single]) == 1
    assert merge_from([(Chunk(0, 0), 5), (Chunk(1, 9), MERGED + 1), *single]) == 2


def test_chunks_cover_all_looks_once() -> None:
    def names(*ends: tuple[int, int]) -> list[str]:
        return [Chunk(*each).name for each in ends]

    assert covering([]) == ([], [])
    chosen, others = covering(names((0, 0), (1, 1), (2, 2), (1, 3), (3, 3), (4, 4)))
    assert chosen == [Chunk(0, 0), Chunk(1, 3), Chunk(4, 4)]
    assert others == [Chunk(1, 1), Chunk(2, 2), Chunk(3, 3)]
    with pytest.raises(StateError):
        covering(names((1, 1)))
