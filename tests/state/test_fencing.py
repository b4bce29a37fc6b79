"""The law of owners: however an old owner of a checkpoint and its successors interleave, no committed version is lost.

Each owner is a thread that stops before every operation on a file. A case is drawn as a sequence of moves: which owner
goes on, and for how many operations. An owner that isn't chosen hangs; a new one takes over after the lease's time.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from tests.state.stores import remote_folder
from trimtab.errors import StateError
from trimtab.state import manifest as manifests
from trimtab.state import objects
from trimtab.state.checkpoint import StreamFolders, segment_name
from trimtab.state.files import Folder
from trimtab.state.lock import EXPIRE_S, Lease
from trimtab.state.manifest import Manifest, SegmentFile, manifest_name
from trimtab.state.sweep import KEEP, sweep, sweep_orphans

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # this law is not about power cuts
OPERATIONS = ("read_tagged", "write", "update", "delete", "_entries", "exists")
ALLOWED = {"state.locked", "state.lost-lock", "state.committed", "state.missing"}
"""What an owner that was replaced may fail with. `state.missing`: it read a version that its successor deleted."""


@dataclass
class Place:
    """A stream's folders, a clock, the versions that were committed, and what sinks were given of each batch."""

    folders: StreamFolders
    now_s: float = 1_000.0
    committed: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)  # epoch, batch, files
    handed_over: dict[int, set[bytes]] = field(default_factory=dict)  # by batch: the plans that it was made by

    def check(self) -> None:
        """Every version that a start goes on from is whole, and is what its owner committed; sinks saw one plan."""
        known = manifests.batches(self.folders.manifests)
        there = set(self.folders.segments.names())
        for batch in known[-KEEP:]:
            found = manifests.read(self.folders.manifests, batch)
            assert (found.epoch, batch, frozenset(found.segments)) in self.committed, "a version was overwritten"
            assert set(found.segments) <= there, f"version {batch} of epoch {found.epoch} has lost files"
        newest = max((batch for _, batch, _ in self.committed), default=-1)
        assert (known[-1] if known else -1) == newest, "the newest version was lost"
        for batch, plans in self.handed_over.items():
            assert len(plans) == 1, f"sinks were given two different batches {batch}"


def live(place: Place, name: str) -> None:
    """What a job does with files, from its start on, for ever."""
    folders = place.folders
    lease = Lease(folders.home, name, lambda: place.now_s)
    lease.take()
    known = manifests.newest(folders.manifests)
    number = 0 if known is None else known.batch + 1
    plan = folders.plans.read(manifest_name(number)) if folders.plans.exists(manifest_name(number)) else None
    kept = {batch: manifests.read(folders.manifests, batch) for batch in manifests.batches(folders.manifests)[-KEEP:]}
    sweep(folders, epoch=lease.epoch)
    while True:
        number = 0 if known is None else known.batch + 1
        made = [segment_name(number, maker, "c0ffee00", lease.epoch) for maker in ("e0", "e1", "e9")]
        for each in made:
            folders.segments.write(each, b"x", durable=False)
        if plan is None:
            plan = name.encode()
            try:
                folders.plans.write(manifest_name(number), plan, durable=False, replace=False)
            except FileExistsError:
                return
            lease.check()
        place.handed_over.setdefault(number, set()).add(plan)
        lease.check()
        before = {} if known is None else dict(list(known.segments.items())[-3:])  # older ones were merged
        segments = before | {each: SegmentFile(each, 1, "0" * 16) for each in made[:2]}  # e9 was a repeated task
        known = Manifest("j", "t", number, 8, 1, (0,) * 8, None, None, {}, segments)
        manifests.write(folders.manifests, known, epoch=lease.epoch, durable=False)
        place.committed.append((lease.epoch, number, frozenset(segments)))
        plan, kept[number] = None, known
        gone = [kept.pop(each) for each in sorted(kept) if each <= number - KEEP]
        named = {each for version in kept.values() for each in version.segments}
        for version in gone:
            folders.manifests.delete(manifest_name(version.batch))
        if number:
            folders.plans.delete(manifest_name(number - 1))
        for each in sorted({each for version in gone for each in version.segments} - named):
            folders.segments.delete(each)
        if number % 2:
            sweep_orphans(folders, epoch=lease.epoch)


class Owner:
    """A job in a thread of its own, which goes on only when it may."""

    def __init__(self, place: Place, name: str) -> None:
        self.error: BaseException | None = None
        self._may, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._is_over = self._is_killed = False
        self._thread = threading.Thread(target=self._run, args=(place, name), daemon=True)
        self._thread.owner = self  # type: ignore[attr-defined]
        self._thread.start()
        self._stopped.acquire()

    def _run(self, place: Place, name: str) -> None:
        self.pause()
        try:
            live(place, name)
        except BaseException as error:
            self.error = error
        self._is_over = True
        self._stopped.release()

    def pause(self) -> None:
        """Called by its thread before an operation."""
        self._stopped.release()
        self._may.acquire()
        if self._is_killed:
            raise SystemExit

    def go_on(self, operations: int) -> None:
        """Let it make some operations."""
        for _ in range(operations):
            if not self._is_over:
                self._may.release()
                self._stopped.acquire()

    def kill(self) -> None:
        """End its thread."""
        self._is_killed = True
        self.go_on(1)
        self._thread.join()


@contextmanager
def stoppable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Owners stop before each operation on a file."""
    depth = threading.local()

    def stopping(work: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*given: Any, **options: Any) -> Any:
            owner = getattr(threading.current_thread(), "owner", None)
            if owner is None or getattr(depth, "inside", False):
                return work(*given, **options)
            owner.pause()
            depth.inside = True
            try:
                return work(*given, **options)
            finally:
                depth.inside = False

        return operation

    with monkeypatch.context() as patched:
        for name in OPERATIONS:
            patched.setattr(Folder, name, stopping(getattr(Folder, name)))
        yield


MOVES = st.lists(st.tuples(st.sampled_from((0, 0, 1, 1, 2)), st.integers(1, 4) | st.integers(5, 30)), min_size=8)


@pytest.mark.parametrize("kind", ["local", "store"])
def test_no_interleaving_of_owners_loses_or_overwrites_a_version(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commits, takeovers = 0, 0

    @settings(max_examples=settings().max_examples * 3)
    @given(MOVES)
    def law(moves: list[tuple[int, int]]) -> None:
        nonlocal commits, takeovers
        with tempfile.TemporaryDirectory(dir=IN_MEMORY) as location, stoppable(monkeypatch):
            if kind == "store":
                store = MemoryStore()
                monkeypatch.setattr(objects, "_open_store", lambda *_: store)
                objects.open_objects.cache_clear()
            place = Place(StreamFolders.of(Folder(location if kind == "local" else "s3://bucket/here")))
            place.folders.make()
            owners: list[Owner] = []
            try:
                for chosen, operations in moves:
                    if chosen >= len(owners):
                        place.now_s += EXPIRE_S  # the others have hung for so long
                        owners.append(Owner(place, f"job {len(owners)}"))
                    owners[min(chosen, len(owners) - 1)].go_on(operations)
                    place.check()
            finally:
                for each in owners:
                    each.kill()
            for each in owners:
                if isinstance(each.error, StateError):
                    assert each.error.code in ALLOWED, each.error
                else:
                    assert each.error is None or isinstance(each.error, SystemExit), repr(each.error)
            commits += len(place.committed)
            takeovers += len({epoch for epoch, _, _ in place.committed}) > 1

    law()
    assert commits > 50, "the cases are long enough to commit"
    assert takeovers > 3, "and versions of several owners follow each other"


def test_a_manifest_that_was_hanging_does_not_replace_the_successors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write of one owner hangs past its lease; its successor has committed the batch meanwhile."""
    store = MemoryStore()
    monkeypatch.setattr(objects, "_open_store", lambda *_: store)
    objects.open_objects.cache_clear()
    folders = StreamFolders.of(Folder("s3://bucket/here"))

    def version(who: str) -> Manifest:
        return Manifest("j", "t", 7, 8, 1, (0,) * 8, None, None, {}, {who: SegmentFile(who, 1, "0" * 16)})

    create = objects.Objects.create

    def hangs(self: objects.Objects, name: str, data: bytes) -> None:
        monkeypatch.setattr(objects.Objects, "create", create)
        manifests.write(folders.manifests, version("B"), epoch=2)
        create(self, name, data)

    monkeypatch.setattr(objects.Objects, "create", hangs)
    with pytest.raises(StateError) as caught:
        manifests.write(folders.manifests, version("A"), epoch=1)
    assert caught.value.code == "state.committed"
    found = manifests.newest(folders.manifests)
    assert found is not None
    assert list(found.segments) == ["B"]


@pytest.mark.parametrize("kind", ["local", "store"])
def test_a_job_that_was_replaced_cannot_commit_what_its_successor_has_swept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = StreamFolders.of(Folder(str(tmp_path)) if kind == "local" else remote_folder(monkeypatch))
    folders.make()
    sweep(folders, epoch=1)
    name = segment_name(0, "e0", "c0ffee00", 1)
    folders.segments.write(name, b"x")
    sweep(folders, epoch=2)  # it hung here, and another job took over
    assert folders.segments.names() == []
    version = Manifest("j", "t", 0, 8, 1, (0,) * 8, None, None, {}, {name: SegmentFile(name, 1, "0" * 16)})
    with pytest.raises(StateError) as caught:
        manifests.write(folders.manifests, version, epoch=1)
    assert caught.value.code == "state.lost-lock"
    assert manifests.newest(folders.manifests) is None
    manifests.write(folders.manifests, replace(version, segments={}), epoch=2)
    assert manifests.batches(folders.manifests) == [0]
