"""A checkpoint on an S3-compatible server: the same promises as on a local disk, also while the server fails."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.state.s3_server import failing_proxy, location, s3_server
from tests.support.bottle import Bottle
from tests.support.laws import bag
from trimtab.deciding.placement import Placement
from trimtab.errors import StateError
from trimtab.state import local_copies
from trimtab.state.bundle import to_bundle
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.files import Folder
from trimtab.state.lock import EXPIRE_S, CheckpointLock, Lease
from trimtab.state.segment import segment_of, write_segment

pytestmark = pytest.mark.servers

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
COUNTS = "SELECT k, ts, COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS n FROM t"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with s3_server() as found:
        yield found


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE_DIR", str(tmp_path / "cache"))


def test_files_are_written_read_listed_and_deleted(port: int, tmp_path: Path) -> None:
    folder = Folder(location(port, "files/a%20b"))
    folder.make()
    assert not folder.exists()
    folder.write("a", b"one")
    folder.write("a", b"two")
    folder.child("deep").child("er").write("x", b"1")
    folder.child("k=a%2Fb c").write("x", b"2")
    (tmp_path / "large").write_bytes(content := os.urandom(20_000_000))
    folder.publish(str(tmp_path / "large"), "large")
    folder.fetch("large", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == content
    assert folder.names() == ["a", "deep", "k=a%2Fb c", "large"]
    assert folder.child("k=a%2Fb c").names() == ["x"]
    assert folder.read("a") == b"two"
    assert folder.exists("deep")
    for _ in range(2):
        folder.delete("a")
    with pytest.raises(StateError) as caught:
        folder.read("a")
    assert caught.value.code == "state.missing"
    for _ in range(2):
        folder.remove_all(lambda: None)
    assert folder.names() == []


def test_a_job_that_was_replaced_while_it_deleted_a_stream_stops_deleting(port: int) -> None:
    folder = Folder(location(port, "a-stream"))
    for number in range(120):
        folder.write(f"{number:03d}", b"x")
    checks = []

    def check() -> None:
        checks.append(len(folder.names()))
        if len(checks) == 3:
            raise StateError("state.lost-lock", "another job has taken over", "stop")

    with pytest.raises(StateError, match="taken over"):
        folder.remove_all(check)
    assert checks[0] == checks[1] == 120, "at the beginning, and before the first of many files is deleted"
    assert 0 < len(folder.names()) == checks[2] < 120


def test_credentials_and_the_address_may_come_from_the_environment(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    Folder("s3a://bucket/environment?region=eu-north-1").write("a", b"content")
    assert Folder(location(port, "environment")).read("a") == b"content"


def test_a_bucket_that_does_not_exist_is_named_at_once(port: int) -> None:
    with pytest.raises(StateError, match="s3://nowhere/here") as caught:
        Checkpoint.open(location(port, "here").replace("bucket", "nowhere"), 8)
    assert caught.value.code == "state.gone"


def test_of_many_writers_of_one_file_one_succeeds(port: int) -> None:
    folder = Folder(location(port, "race"))

    def create(number: int) -> bool:
        try:
            folder.write("a", str(number).encode(), replace=False)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(create, range(8))) == 1
    content, tag = folder.read_tagged("a")

    def update(number: int) -> bool:
        try:
            folder.update("a", f"{number} after {content.decode()}".encode(), tag)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(update, range(8))) == 1


def test_a_checkpoint_has_one_owner_and_epochs_grow(port: int) -> None:
    checkpoint = Checkpoint.open(location(port, "owned"), 8)
    with CheckpointLock(checkpoint.folder) as first, pytest.raises(StateError) as caught:
        CheckpointLock(checkpoint.folder).acquire()
    assert caught.value.code == "state.locked"
    stalled = Lease(checkpoint.folder, "one")
    stalled.take()
    successor = Lease(checkpoint.folder, "two", clock=lambda: time.time() + EXPIRE_S)
    successor.take()
    with pytest.raises(StateError) as caught:
        stalled.check()
    assert caught.value.code == "state.lost-lock"
    assert first.epoch < stalled.epoch < successor.epoch


def test_a_damaged_local_copy_is_fetched_again(port: int) -> None:
    folder = Folder(location(port, "segments"))
    slots = np.arange(1000)
    state = {"keys": pa.table({"__slot": slots, "deadline_us": pa.nulls(1000, pa.int64())})}
    file, _ = write_segment(folder, "a", {"q": to_bundle(state, slots)})
    copy = Path(local_copies.local_copy(folder, file))
    with open(copy, "r+b") as opened:
        opened.truncate(100)
    assert segment_of(folder, file).part("q").slots.tolist() == slots.tolist()
    assert copy.stat().st_size == file.size_bytes


def events(first: int) -> pa.Table:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    rows = range(first, first + 20)
    times = [start + datetime.timedelta(seconds=row) for row in rows]
    return pa.table({"k": [row % 7 for row in rows], "ts": times, "v": list(rows)}, SCHEMA)


def a_life(place: str) -> list[str]:
    """A job that is moved, merged, and killed in every batch."""
    bottle = Bottle(place, {"q": COUNTS}, SCHEMA, "ts")
    for number in range(5):
        bottle.batch(events(20 * number), Placement.even(1 + number % 3, 8), deaths=[3 * number])
        if number == 3:
            bottle.carry_out(bottle.merge_into_base("q", 0, 8))
    bottle.close(deaths=[5])
    return bag(bottle.rows("q"))


def test_a_job_gives_the_same_answer_as_on_a_local_disk_also_while_the_server_fails(port: int, tmp_path: Path) -> None:
    expected = a_life(str(tmp_path / "here"))
    assert len(expected) == 100
    with failing_proxy(port, every=7) as (proxy, failed):
        assert a_life(location(proxy, "job")) == expected
    assert len(failed) > 20
