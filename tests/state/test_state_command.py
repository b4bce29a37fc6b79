"""`trimtab state`: shows what is in a checkpoint, without changing it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.state.stores import remote_folder
from trimtab.cli.main import main
from trimtab.engine.operator import Moment, State
from trimtab.errors import StateError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of
from trimtab.state import inspect
from trimtab.state import manifest as manifests
from trimtab.state.bundle import to_bundle
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.lock import CheckpointLock
from trimtab.state.manifest import Manifest, QueryState, StateRun
from trimtab.state.segment import write_segment
from trimtab.state.sweep import sweep

GROUPS = 4
START_S = 1_767_225_600  # 2026-01-01 00:00:00 UTC
START = datetime(2026, 1, 1)
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("symbol", pa.string()), ("venue", pa.int32()), ("price", pa.float64())]
)
FALLS = """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol, venue ORDER BY ts
    MEASURES FIRST(A.price) AS top, COUNT(*) AS n PATTERN (A B+ C) WITHIN INTERVAL '1' HOUR
    DEFINE B AS B.price < PREV(B.price), C AS C.price > PREV(C.price))"""
SUMS = "SELECT symbol, SUM(price) AS s FROM ticks GROUP BY symbol, window(ts, '1 minute')"


def slot(group: int, rest: int) -> int:
    return group << 48 | rest


def counts(values: Mapping[str, int], slots: Mapping[str, int]) -> State:
    """The state of a made-up operator that counts."""
    names = list(values)
    deadlines = [None if name == "patient" else START_S * 1_000_000 + 1_500_000 for name in names]
    return {
        "keys": pa.table(
            {
                "__slot": pa.array([slots[name] for name in names], pa.int64()),
                "name": pa.array(names, pa.string()),
                "deadline_us": pa.array(deadlines, pa.int64()),
            }
        ),
        "tally": pa.table({"key": pa.array(range(len(names)), pa.int64()), "count": list(values.values())}),
    }


SLOTS = {"ant": slot(0, 5), "bee": slot(1, 1), "cat": slot(1, 2), "dog": slot(3, 9), "patient": slot(3, 10)}


class Writer:
    """A job that commits the states that a test gives it."""

    def __init__(self, location: Path) -> None:
        self.checkpoint = Checkpoint.open(str(location), GROUPS)
        self.runs: dict[str, list[StateRun]] = {}
        self.files: dict[str, manifests.SegmentFile] = {}

    def commit(
        self,
        batch: int,
        states: Mapping[str, tuple[State, list[int]]],
        *,
        stream: str = "ticks",
        placement: tuple[int, ...] = (0, 1, 0, 1),
        base: bool = False,
    ) -> None:
        folders = self.checkpoint.stream(stream)
        folders.make()
        bundles = {
            name: to_bundle(state, np.array(sorted(touched), np.int64)) for name, (state, touched) in states.items()
        }
        file, sizes = write_segment(folders.segments, f"{batch:012d}-e0-a.segment", bundles)
        if base:
            self.runs.clear()
            self.files.clear()
        self.files[file.name] = file
        for name, size in sizes.items():
            run = StateRun(file.name, name, batch, base, 0, GROUPS, size.slots, size.keys, size.size_bytes)
            self.runs.setdefault(name, []).insert(0, run)
        queries = {name: QueryState("f", tuple(runs), f"SELECT {name}") for name, runs in self.runs.items()}
        manifests.write(
            folders.manifests,
            Manifest(
                job=self.checkpoint.job,
                stream=stream,
                batch=batch,
                key_groups=GROUPS,
                engines=2,
                placement=placement,
                watermark_us=(START_S + batch) * 1_000_000,
                previous_watermark_us=None,
                queries=queries,
                segments=dict(self.files),
                events=10 * batch,
                matches={},
                written_at_s=START_S + 60.0 * batch + 0.5,
            ),
        )


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """Three versions: a base with four keys; then one is changed, one is freed and one is new."""
    writer = Writer(tmp_path)
    first = counts({"ant": 1, "bee": 2, "cat": 3, "dog": 4}, SLOTS)
    writer.commit(4, {"counts": (first, [SLOTS[name] for name in ("ant", "bee", "cat", "dog")])}, base=True)
    writer.commit(5, {"counts": (counts({"ant": 11}, SLOTS), [SLOTS["ant"]])}, placement=(1, 1, 1, 1))
    writer.commit(6, {"counts": (counts({"patient": 7}, SLOTS), [SLOTS["bee"], SLOTS["patient"]])})
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    assert main(["state", *map(str, arguments)]) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 or captured.out else captured.err


def table(text: str, title: str) -> list[list[str]]:
    """The cells of the table whose first line starts with the title."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(title))
    cells: list[list[str]] = []
    for line in lines[start:]:
        if line.endswith((" row", " rows")):
            break
        if not line.startswith("---"):
            cells.append(line.replace("written at", "written-at").replace("moved groups", "moved-groups").split())
    return cells


def test_versions_and_sizes_are_listed(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "ls", location)
    assert text.startswith(
        f"job {Checkpoint.existing(str(location)).job} with 4 key groups\n\nSTREAM ticks\nbatch  written at"
    )
    versions = table(text, "batch")
    assert [row[:6] for row in versions[1:]] == [
        ["4", "2026-01-01", "00:04:00", "2026-01-01", "00:00:04", "2"],
        ["5", "2026-01-01", "00:05:00", "2026-01-01", "00:00:05", "2"],
        ["6", "2026-01-01", "00:06:00", "2026-01-01", "00:00:06", "2"],
    ]
    assert [row[6] for row in versions[1:]] == ["null", "2", "2"]  # groups 0 and 2 went to engine 1 and back
    assert "AT BATCH 6" in text
    assert table(text, "query")[1][:4] == ["counts", "3", "7", "6"]
    assert "AT BATCH 4" in (older := printed(capsys, "ls", location, "--batch", "4"))
    assert table(older, "query")[1][:4] == ["counts", "1", "4", "4"]


def test_live_keys_are_counted_by_group(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "ls", location, "--groups")
    rows = table(text, "query   group")
    assert [row[:4] for row in rows[1:]] == [
        ["counts", "0", "0", "1"],  # ant, twice in files
        ["counts", "1", "1", "1"],  # cat; bee was freed
        ["counts", "3", "1", "2"],  # dog and patient
    ]
    stored = sum(
        run.size_bytes
        for run in inspect.versions(Checkpoint.existing(str(location)), "ticks")[-1].queries["counts"].runs
    )
    assert sum(int(row[4]) for row in rows[1:]) == pytest.approx(stored, abs=3)


def test_the_live_state_of_a_key_is_shown(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "show", location, "--query", "counts", "name=ant").splitlines() == [
        "query counts at batch 6",
        "",
        "name=ant",
        "looked at again at 2026-01-01 00:00:01.5",
        "",
        "TALLY: as the operator keeps it",
        "count",
        "-----",
        "   11",
        "1 row",
    ]
    patient = printed(capsys, "show", location, "--query", "counts", "NAME=patient")
    assert "name=patient\nwaits for its next row\n" in patient
    assert "\n    7\n" in patient
    older = printed(capsys, "show", location, "--query", "counts", "--batch", "4", "name=ant")
    assert "\n    1\n" in older


def test_without_a_key_the_first_ones_are_listed(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "show", location, "--query", "counts").splitlines() == [
        "query counts at batch 6: 4 keys",
        "name     deadline",
        "-------  -----------------------",
        "ant      2026-01-01 00:00:01.500",
        "cat      2026-01-01 00:00:01.500",
        "dog      2026-01-01 00:00:01.500",
        "patient  null",
        "4 rows",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "reported"),
    [
        (["--query", "counts", "name=bee"], "state.key", "keeps nothing of name=bee at batch 6"),
        (["--query", "counts", "name=emu"], "state.key", "keeps nothing of name=emu"),
        (["--query", "counts", "size=3"], "state.key", "its key is name"),
        (["--query", "counts", "ant"], "state.key", "write for example symbol=KEEL"),
        (["--query", "other"], "state.query", "there are counts"),
        (["--query", "counts", "--batch", "3"], "state.version", "there are 4, 5, 6"),
        (["--query", "counts", "--stream", "trades"], "state.version", "it has ticks"),
    ],
)
def test_what_doesnt_exist_is_reported(
    location: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str, reported: str
) -> None:
    text = printed(capsys, "show", location, *arguments, status=1)
    assert text.startswith(f"error[{code}]: ")
    assert reported in text


def with_slots(state: State) -> tuple[State, list[int]]:
    """The state as the same operator leaves it on Spark, where the slot is its first partition column."""
    slots = [slot(place % GROUPS, place) for place in range(state["keys"].num_rows)]
    return {**state, "keys": state["keys"].add_column(0, "__slot", pa.array(slots, pa.int64()))}, slots


def test_patterns_and_windows_are_shown_in_readable_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table(
        {
            "ts": [START + timedelta(seconds=second) for second in range(4)],
            "symbol": ["KEEL", "KEEL", "HELM", "KEEL"],
            "venue": [1, 1, 1, 2],
            "price": [5.0, 4.0, 7.0, 3.0],
        },
        schema=SCHEMA,
    )
    states = {}
    for name, sql in (("falls", FALLS), ("sums", SUMS)):
        query = compile_query(sql, {"ticks": SCHEMA}, event_time="ts")
        moment = Moment((START_S + 3) * 1_000_000)
        _, state = operator_of(query).advance(query.intake.run(rows), {}, moment)
        states[name] = with_slots(state)
    Writer(tmp_path).commit(0, states)

    falls = printed(capsys, "show", tmp_path, "--query", "falls", "symbol=KEEL", "venue=1")
    assert "symbol=KEEL venue=1\nlooked at again at 2026-01-01 01:00:00\n" in falls
    assert "KEYS: " in falls
    kept = table(falls, "row  ")
    assert kept[0][:2] == ["row", "ts"]
    assert [row[0] for row in kept[1:]] == ["0", "1"]
    assert "THREADS: partial matches" in falls
    assert "position  first_row  last_row" in falls
    assert "__" not in falls

    several = printed(capsys, "show", tmp_path, "--query", "falls", "symbol=KEEL")
    assert "symbol=KEEL venue=1\n" in several
    assert "symbol=KEEL venue=2\n" in several
    listed = printed(capsys, "show", tmp_path, "--query", "falls").splitlines()
    assert listed[1].split() == ["symbol", "venue", "deadline"]
    assert printed(capsys, "show", tmp_path, "--query", "falls", "venue=x", status=1).startswith(
        "error[state.key]: 'x' is not a value of column venue, which is int32"
    )

    sums = printed(capsys, "show", tmp_path, "--query", "sums", "symbol=KEEL")
    assert "WINDOWS: open windows\nstart                last " in sums
    assert "\n2026-01-01 00:00:00  " in sums


def test_an_intact_checkpoint_is_reported_as_good(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with CheckpointLock(Checkpoint.existing(str(location)).folder):  # a job runs meanwhile
        before = sorted(str(path) for path in location.rglob("*"))
        text = printed(capsys, "verify", location)
        assert sorted(str(path) for path in location.rglob("*")) == before
    size_bytes = sum(path.stat().st_size for path in (location / "streams").rglob("*") if path.is_file())
    assert text == f"7 files, {size_bytes:,} bytes: all good\n"


def test_a_remote_checkpoint_is_looked_at_in_the_same_way(
    location: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    remote_folder(monkeypatch, location.parent)
    monkeypatch.setenv("TRIMTAB_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    remote = f"s3://bucket/{location.name}"
    for action, *rest in (["ls", "--groups"], ["show", "--query", "counts", "name=ant"], ["verify"]):
        assert printed(capsys, action, remote, *rest) == printed(capsys, action, location, *rest)
    (location / "streams" / "ticks" / "segments" / "000000000004-e0-a.segment").write_bytes(b"")
    lines = printed(capsys, "verify", remote, status=1).splitlines()  # the copy in the cache is still good
    assert f"{remote}/streams/ticks/segments/000000000004-e0-a.segment is damaged: it has 0 bytes" in lines[0]


def test_every_problem_has_a_line(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segments, kept = (location / "streams" / "ticks" / name for name in ("segments", "manifests"))
    damaged = segments / "000000000004-e0-a.segment"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    (segments / "000000000005-e0-a.segment").unlink()
    (kept / "000000000005.json").write_bytes(b"{")
    lines = printed(capsys, "verify", location, status=1).splitlines()
    assert len(lines) == 4
    assert "000000000005.json is damaged" in lines[0]
    assert "000000000004-e0-a.segment is damaged: its checksum is wrong (named by batch 6 of stream ticks)" in lines[1]
    assert "000000000005-e0-a.segment doesn't exist (named by batch 6 of stream ticks)" in lines[2]
    assert lines[3].startswith("3 damaged or missing; ")


def test_a_version_that_is_swept_meanwhile_isnt_a_problem(
    location: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = Writer(location)
    folders = writer.checkpoint.stream("ticks")
    known = manifests.newest(folders.manifests)
    assert known is not None
    reading = manifests.read

    def a_job_goes_on(*arguments: object, **options: object) -> Manifest:
        found = reading(*arguments, **options)  # type: ignore[arg-type]
        if 7 not in manifests.batches(folders.manifests):
            writer.commit(7, {"counts": (counts({"cat": 30}, SLOTS), [SLOTS["cat"]])}, base=True)
            sweep(folders, epoch=1, keep=1)
        return found

    monkeypatch.setattr(inspect, "read", a_job_goes_on)
    assert "all good" in printed(capsys, "verify", location)
    assert manifests.batches(folders.manifests) == [7]


def test_a_key_is_found_though_its_version_is_swept_meanwhile(location: Path) -> None:
    writer = Writer(location)
    folders = writer.checkpoint.stream("ticks")
    looked: list[int] = []

    def look(manifest: Manifest) -> State:
        if not looked:
            writer.commit(7, {"counts": (counts({"cat": 30}, SLOTS), [SLOTS["cat"]])}, base=True)
            sweep(folders, epoch=1, keep=1)
        looked.append(manifest.batch)
        return inspect.find_keys(folders, manifest, "counts", {"name": "cat"})

    manifest, state = inspect.at_version(writer.checkpoint, "ticks", None, look)
    assert looked == [6, 7]
    assert manifest.batch == 7
    assert state["tally"]["count"].to_pylist() == [30]
    os.unlink(folders.segments.path_of("000000000007-e0-a.segment"))
    with pytest.raises(StateError) as caught:  # damage is reported at once
        inspect.at_version(writer.checkpoint, "ticks", None, look)
    assert caught.value.code == "state.missing"


def test_several_streams_have_their_own_versions(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Writer(location)
    writer.commit(0, {"more": (counts({"bee": 1}, SLOTS), [SLOTS["bee"]])}, stream="trades")
    writer.checkpoint.stream("idle").make()
    text = printed(capsys, "ls", location)
    assert [line for line in text.splitlines() if line.startswith("STREAM")] == [
        "STREAM idle",
        "STREAM ticks",
        "STREAM trades",
    ]
    assert "STREAM ticks" not in printed(capsys, "ls", location, "--stream", "trades")
    assert "name=bee" in printed(capsys, "show", location, "--query", "more", "name=bee")


def test_a_folder_that_isnt_a_checkpoint_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in (["ls"], ["show", "--query", "a"], ["verify"]):
        assert printed(capsys, *action, tmp_path / "none", status=1).startswith("error[state.missing]: there is no ")
        assert printed(capsys, *action, tmp_path, status=1).startswith("error[state.foreign]: ")
    assert os.listdir(tmp_path) == []
