"""`trimtab demo --patterns`: its stream, what it does to the job, what it says and draws; once on a real Spark."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trimtab.api.evaluate import evaluate
from trimtab.cli.main import main
from trimtab.cli.replay_report import report
from trimtab.deciding.decision_log import read
from trimtab.deciding.placement import Placement
from trimtab.driver.progress import BatchProgress, EngineProgress, Progress
from trimtab.errors import InputError
from trimtab.state.files import Folder
from trimtab_lab.demo.job import CHANGES, Move, Resize, Restart, Story, run_job, schedule
from trimtab_lab.demo.picture import draw_story
from trimtab_lab.demo.queries import V_SHAPES
from trimtab_lab.demo.seed import key_groups_of_cards
from trimtab_lab.demo.stream import DELAY_S, DemoFolders, write_stream
from trimtab_lab.demo.view import DemoView, added


def batch_progress(batch: int, placement: Placement, moved: int = 0) -> BatchProgress:
    counts = [placement.owner.count(engine) for engine in range(placement.engines)]
    return BatchProgress(
        stream="ticks",
        batch=batch,
        events=sum(counts),
        late=0,
        quarantined=0,
        matches={"v_shapes": 1},
        watermark_us=None,
        batch_ms=10.0,
        stages_ms={},
        engines=tuple(EngineProgress(engine, count, 1.0, count, 0) for engine, count in enumerate(counts)),
        moved=moved,
        state_bytes=0,
        state_bytes_written=0,
        finished_at_s=0.0,
    )


class Disk:
    """What outlives a job: its placement and how many batches are done."""

    def __init__(self) -> None:
        self.placement = Placement.even(2, 1024)
        self.done = 0


class FakeRun:
    """A job that does one batch each time it is waited for."""

    def __init__(self, disk: Disk, engines: int | None, batches: int) -> None:
        self._disk, self._batches = disk, batches
        self.history: list[BatchProgress] = []
        self._next = disk.placement if engines is None else disk.placement.resized(engines)
        self._stopped = False

    @property
    def progress(self) -> Progress:
        return Progress(batches=len(self.history), matches={"v_shapes": len(self.history)})

    @property
    def placement(self) -> Mapping[str, Placement]:
        return {"ticks": self._disk.placement}

    def await_termination(self, _timeout_s: float | None = None) -> bool:
        if self._stopped or self._disk.done == self._batches:
            return True
        moved = self._next.moves_from(self._disk.placement)
        self._disk.placement = self._next
        self.history.append(batch_progress(self._disk.done, self._next, moved))
        self._disk.done += 1
        return False

    def move(self, moves: Mapping[int, int]) -> None:
        self._next = self._next.moved(moves)

    def resize(self, engines: int) -> None:
        self._next = self._next.resized(engines)

    def stop(self) -> None:
        self._stopped = True


def fake_story(batches: int) -> tuple[Story, list[int | None]]:
    disk, starts = Disk(), []

    def start(engines: int | None) -> Any:
        starts.append(engines)
        return FakeRun(disk, engines, batches)

    return run_job(start, schedule(batches - 1), DemoView(plain=True)), starts


def test_every_change_is_made_once_after_its_batch(capsys: pytest.CaptureFixture[str]) -> None:
    story, starts = fake_story(21)
    assert [batch for batch, _ in story.changes] == [2, 6, 9, 12, 16]
    assert [change for _, change in story.changes] == list(CHANGES)
    assert [batch.batch for batch in story.batches] == list(range(21))
    assert starts == [2, None]  # the second one takes the number of its checkpoint
    engines = [len(batch.engines) for batch in story.batches]
    assert engines == [2] * 7 + [4] * 10 + [3] * 4
    assert story.moved == 256 + 512 + 128 + sum(batch.moved for batch in story.batches[17:])
    printed = capsys.readouterr().out
    assert printed.count("ticks batch ") == 21
    assert "after batch 6: from now on 4 engines" in printed


def test_changes_fall_on_different_batches_and_leave_one_after_the_last() -> None:
    for files in range(len(CHANGES) + 1, 50):
        batches = [batch for batch, _ in schedule(files)]
        assert len(set(batches)) == len(CHANGES)
        assert batches[0] >= 0
        assert batches[-1] < files - 1


def test_what_was_done_before_a_restart_counts() -> None:
    first = Progress(batches=2, events=10, late=1, matches={"v_shapes": 3})
    second = Progress(batches=1, events=5, quarantined=2, matches={"v_shapes": 1, "candles": 4})
    whole = added(first, second)
    assert (whole.batches, whole.events, whole.late, whole.quarantined) == (3, 15, 1, 2)
    assert whole.matches == {"v_shapes": 4, "candles": 4}


def test_the_stream_is_out_of_order_but_never_later_than_the_delay(tmp_path: Path) -> None:
    whole = write_stream(tmp_path, 30_000, 6)
    files = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [file.name for file in files] == [f"ticks-{n:03d}.parquet" for n in range(6)]
    assert pa.concat_tables(pq.read_table(file) for file in files).equals(whole)
    times = whole["ts"].to_numpy()
    delays = np.maximum.accumulate(times) - times
    assert np.timedelta64(0) < delays.max() <= np.timedelta64(DELAY_S, "s")
    assert whole.select(["symbol", "ts"]).group_by(["symbol", "ts"]).aggregate([]).num_rows == whole.num_rows


def test_only_a_folder_of_a_demonstration_is_replaced(tmp_path: Path) -> None:
    folders = DemoFolders(tmp_path / "stream")
    folders.make_afresh()
    (folders.ticks / "old").touch()
    folders.make_afresh()
    assert list(folders.ticks.iterdir()) == []
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").touch()
    with pytest.raises(InputError, match="no demonstration made it"):
        DemoFolders(foreign).make_afresh()
    assert (foreign / "thesis.txt").exists()


@pytest.mark.parametrize("is_same", [True, False])
def test_the_picture_has_the_size_of_the_other_one(tmp_path: Path, is_same: bool) -> None:
    ticks = write_stream(tmp_path, 30_000, 1)
    found = evaluate(V_SHAPES, {"ticks": ticks}, event_time="ts", delay=f"{DELAY_S} seconds")
    assert found.num_rows
    draw_story(fake_story(21)[0], ticks, found, tmp_path / "demo.png", is_same=is_same)
    picture = (tmp_path / "demo.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1600, 900)
    assert len(picture) < 150_000


def test_a_story_without_matches_is_drawn_too(tmp_path: Path) -> None:
    ticks = write_stream(tmp_path, 100, 1)
    found = evaluate(V_SHAPES, {"ticks": ticks.slice(0, 0)})
    draw_story(fake_story(7)[0], ticks, found, tmp_path / "demo.png", is_same=True)
    assert (tmp_path / "demo.png").exists()


def test_without_java_the_error_names_the_demonstration_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["demo", "--out", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error[job.java]: ")
    assert "trimtab demo --without-spark" in error
    assert list(tmp_path.iterdir()) == []


def test_each_kind_of_change_says_what_it_is() -> None:
    assert [str(change) for change in (Move(0, 1), Resize(4), Restart())] == [
        "half of engine 0's key groups move to engine 1",
        "from now on 4 engines",
        "the job is stopped, and started again from its checkpoint",
    ]


@pytest.mark.spark
def test_both_demonstrations_find_the_same_on_a_real_spark(tmp_path: Path) -> None:
    # A process of its own: other tests of this one may have a session, which a demonstration would end.
    code = (
        "import functools, pathlib, sys; from trimtab_lab.demo import balance, on_spark; "
        "out = pathlib.Path(sys.argv[1]); "
        "by_events = balance.Balance(measure='events'); "  # which don't depend on how busy the machine is
        "race = functools.partial(balance.Race, rows=5000, balance=by_events); "
        "computing = race('computing', engines=2, files=4, layers=1); "
        "waiting = race('waiting', engines=4, files=8, wait_us=100); "
        "same = [on_spark.show(30_000, out, files=6, warm=False)]; "
        "same.append(balance.show(out, computing, waiting)); "
        "sys.exit(not all(same))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": the same (") == 2
    assert "rejected  0 rows" in done.stdout
    assert "1 restart" in done.stdout
    assert (tmp_path / "demo.png").exists()
    assert main(["state", "verify", str(tmp_path / "stream" / "checkpoint")]) == 0

    assert done.stdout.count("in one pass without Spark: the same.") == 2
    for name in ("hashed", "balanced"):
        for files, events in ((4, 1250), (8, 625)):
            line = rf"^{name} +batch +\d of {files}: {events:,} events"
            assert len(re.findall(line, done.stdout, re.MULTILINE)) == files
    assert len(re.findall(r"^  hashed .* 0 key groups moved$", done.stdout, re.MULTILINE)) == 2
    assert len(re.findall(r"^  balanced .* [1-9]\d* key groups moved$", done.stdout, re.MULTILINE)) == 2
    assert (tmp_path / "balance.png").exists()
    checkpoint = tmp_path / "balance" / "waiting" / "balanced" / "checkpoint"
    entries = list(read(Folder(f"{checkpoint}/streams/payments/decisions")))
    assert len(report(entries).lines) == 8
    # Which stream is typical is computed without Spark: its key groups have to be those of Spark.
    cards = pq.read_table(tmp_path / "balance" / "ticks" / "waiting")["card"].to_pylist()
    groups = key_groups_of_cards()[[int(card.removeprefix("card-")) for card in cards]]
    assert np.array_equal(
        np.sum([entry.observed.events for entry in entries], axis=0), np.bincount(groups, minlength=1024)
    )
