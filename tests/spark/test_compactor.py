"""Merges beside the stream: a failure costs time and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.spark import compactor
from trimtab.spark.compactor import TOO_MANY_SEQUENCES, Compactor
from trimtab.state import manifest as manifests
from trimtab.state.checkpoint import StreamFolders, segment_name
from trimtab.state.files import Folder
from trimtab.state.manifest import Manifest, QueryState, SegmentFile, StateRun
from trimtab.state.merging import Merged, Work
from trimtab.state.sweep import sweep


def version(batch: int, sequences: int) -> Manifest:
    names = [f"{number:012d}-e0-a.segment" for number in range(sequences)]
    runs = tuple(StateRun(name, "q", number, False, 0, 8, 5, 5, 100) for number, name in enumerate(names))
    files = {name: SegmentFile(name, 1, "0" * 16) for name in names}
    return Manifest("j", "t", batch, 8, 1, (0,) * 8, None, None, {"q": QueryState("f", runs, "")}, files)


@pytest.fixture
def folders(tmp_path: Path) -> StreamFolders:
    found = StreamFolders.of(Folder(str(tmp_path)))
    found.make()
    return found


class Failing(Compactor):
    """Merges fail as often as the test says; its tasks run nowhere."""

    faults = 10**9
    tries = 0

    def _run(self, work: list[Work], over_columns: bool) -> list[Merged]:  # noqa: ARG002
        self.tries += 1
        if self.tries <= self.faults:
            raise OSError("503 Slow Down")
        return [Merged(each.merge, (), None) for each in work]


def finished(work: Compactor, known: Manifest) -> list[Merged]:
    if work._under_way is not None:
        work._under_way.exception(timeout=10)
    return work.finished(known)


def test_a_merge_that_fails_is_planned_again_later_and_the_batch_goes_on(
    folders: StreamFolders, caplog: pytest.LogCaptureFixture
) -> None:
    spark: Any = None
    work = Failing(spark, folders, "c0ffee00", 1)
    work.faults = 3
    tries: list[int] = []
    for batch in range(30, 60):
        merged = finished(work, version(batch - 1, 30))
        work.consider(version(batch, 30))
        tries.append(work.tries)
        if merged:
            break
    work.stop()
    assert merged
    assert [tries.index(number) for number in (1, 2, 3)] == sorted({tries.index(number) for number in (1, 2, 3)})
    assert caplog.text.count("merging state failed") == 3
    assert len(tries) > 7, "the pauses grow"


def test_merges_that_fail_for_ever_end_the_job_when_far_too_many_runs_wait(folders: StreamFolders) -> None:
    spark: Any = None
    work = Failing(spark, folders, "c0ffee00", 1)
    work.consider(version(0, 30))
    assert finished(work, version(1, 30)) == []
    work.consider(version(100, 30))
    with pytest.raises(OSError, match="503"):
        finished(work, version(101, TOO_MANY_SEQUENCES + 1))
    work.stop()


def test_orphans_are_deleted_beside_the_stream(folders: StreamFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "SWEEP_EVERY", 3)
    spark: Any = None
    work = Failing(spark, folders, "c0ffee00", 7)
    sweep(folders, epoch=7)
    for batch in range(3):
        name, orphan = (segment_name(batch, maker, "c0ffee00", 7) for maker in ("e0", "e1"))
        for each in (name, orphan):
            folders.segments.write(each, b"x")
        files = {name: SegmentFile(name, 1, "0" * 16)}
        known = Manifest("j", "t", batch, 8, 1, (0,) * 8, None, None, {}, files)
        manifests.write(folders.manifests, known, epoch=7)
        work.consider(known)
    work._threads.shutdown(wait=True)
    assert [name[13:15] for name in folders.segments.names()] == ["e0"] * 3
