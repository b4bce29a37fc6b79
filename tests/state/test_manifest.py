"""Manifests: written once, read whole, and refused if anything in them is damaged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import StateError
from trimtab.state import manifest as manifests
from trimtab.state.files import Folder
from trimtab.state.manifest import Manifest, QueryState, SegmentFile, StateRun, seal

SEGMENT = SegmentFile("000000000041-e0-a.segment", 512, "00ff00ff00ff00ff")
RUN = StateRun(SEGMENT.name, "drops", 41, False, 0, 8, 3, 4, 100)


def example(batch: int = 42, **changes: Any) -> Manifest:
    known = Manifest(
        job="ab" * 16,
        stream="ticks",
        batch=batch,
        key_groups=8,
        engines=2,
        placement=(0, 1) * 4,
        watermark_us=1_700_000_000_000_000,
        previous_watermark_us=None,
        queries={"drops": QueryState("f1", (RUN,), "SELECT 'ö' FROM ticks")},
        segments={SEGMENT.name: SEGMENT},
        events=10,
        late=1,
        quarantined=2,
        matches={"drops": 3},
        written_at_s=1_700_000_000.25,
    )
    return dataclasses.replace(known, **changes)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
numbers = st.integers(0, 2**62)
times = st.none() | st.integers(-(2**62), 2**62)
runs = st.builds(StateRun, st.sampled_from(["a", "b"]), names, st.integers(-1, 2**40), st.booleans(), *[numbers] * 5)
queries = st.dictionaries(names, st.builds(QueryState, names, st.lists(runs, max_size=4).map(tuple), st.text()))
FILES = {name: SegmentFile(name, 5, "0" * 16) for name in ("a", "b")}


@given(queries, times, times, st.lists(st.integers(0, 9)).map(tuple), st.booleans(), st.floats(0, 1e11))
def test_what_is_written_is_read(
    queries: dict[str, QueryState],
    watermark_us: int | None,
    previous_us: int | None,
    placement: tuple[int, ...],
    closed: bool,
    written_at_s: float,
) -> None:
    manifest = example(
        queries=queries,
        watermark_us=watermark_us,
        previous_watermark_us=previous_us,
        placement=placement,
        closed=closed,
        written_at_s=written_at_s,
        segments=FILES,
    )
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_manifests_of_earlier_formats_are_read() -> None:
    body = json.loads(example().to_bytes())["body"]
    earlier = {name: value for name, value in body.items() if name not in ("spark_batch", "incarnation", "spread")}
    for closed, last_of_spark in ((False, 42), (True, 41)):
        read = Manifest.from_bytes(seal(1, earlier | {"closed": closed}))
        assert read == example(spark_batch=last_of_spark, closed=closed)


@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    content = bytearray(example().to_bytes())
    place = data.draw(st.integers(0, len(content) - 2))  # the last one is the end of the line
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(StateError) as caught:
        Manifest.from_bytes(bytes(content), "here/42.json")
    assert caught.value.code == "state.corrupt"
    assert "here/42.json" in caught.value.message


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b'{"format":1}', b"\xff\xfe", example().to_bytes()[:-9]]
)
def test_content_that_isnt_a_manifest_is_reported_as_damaged(content: bytes) -> None:
    with pytest.raises(StateError, match="is damaged") as caught:
        Manifest.from_bytes(content)
    assert caught.value.code == "state.corrupt"
    assert "fresh checkpoint" in caught.value.hint


def test_a_body_with_a_part_missing_is_damaged_though_its_checksum_is_right() -> None:
    body = json.loads(example().to_bytes())["body"]
    del body["placement"]
    with pytest.raises(StateError) as caught:
        Manifest.from_bytes(seal(1, body))
    assert caught.value.code == "state.corrupt"


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(StateError, match="upgrade trimtab") as caught:
        Manifest.from_bytes(seal(manifests.FORMAT + 1, {"unknown": True}), "here/42.json")
    assert caught.value.code == "state.newer"
    assert "here/42.json" in caught.value.message


def test_the_newest_of_the_committed_batches_is_found(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    assert manifests.newest(folder) is None
    for batch in (9, 10, 2):
        manifests.write(folder, example(batch))
    folder.write("notes.txt", b"")
    folder.write("7.json", b"")
    assert manifests.batches(folder) == [2, 9, 10]
    assert manifests.newest(folder, job="ab" * 16, stream="ticks") == example(10)
    assert manifests.read(folder, 9) == example(9)


def test_a_committed_batch_is_never_written_again(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    manifests.write(folder, example())
    with pytest.raises(StateError, match="batch 42 of stream ticks is committed already") as caught:
        manifests.write(folder, example(events=11))
    assert caught.value.code == "state.committed"
    assert manifests.newest(folder) == example()


def test_manifests_of_other_jobs_streams_and_batches_are_refused(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    manifests.write(folder, example())
    folder.write("000000000050.json", example(51).to_bytes())
    foreign: list[tuple[int, dict[str, str]]] = [(42, {"job": "cd" * 16}), (42, {"stream": "trades"}), (50, {})]
    for batch, expected in foreign:
        with pytest.raises(StateError) as caught:
            manifests.read(folder, batch, **expected)
        assert caught.value.code == "state.foreign"
        assert f"0000{batch}.json" in caught.value.message
