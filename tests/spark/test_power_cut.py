"""A power cut leaves files of Spark's log empty or cut off: the next start removes what no batch needs, and goes on."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.spark.bench import COLUMNS, Bench, events
from trimtab.errors import StateError
from trimtab.spark import spark_log
from trimtab.spark.spark_log import SparkLog
from trimtab.state.files import Folder, sync


def emptied(file: pathlib.Path, _: bytes) -> None:
    file.write_bytes(b"")


def zeros(file: pathlib.Path, whole: bytes) -> None:
    file.write_bytes(bytes(len(whole)))


def cut_off(file: pathlib.Path, whole: bytes) -> None:
    file.write_bytes(whole[: len(whole) // 2])


def without_its_last_line(file: pathlib.Path, whole: bytes) -> None:
    file.write_bytes(whole[: whole.rindex(b"\n") + 1])


def logged(bench: Bench, name: str) -> pathlib.Path:
    return bench.checkpoint / "spark" / "t" / name


def damaged(bench: Bench, name: str, damage: Callable[[pathlib.Path, bytes], None]) -> None:
    """Damage a file of Spark's log; one that isn't there yet begins as a copy of the one before."""
    file = logged(bench, name)
    number = file.name
    model = file if file.exists() else file.with_name(str(int(number) - 1))
    damage(file, model.read_bytes())


ALL_LOGS = ["commits/1", "offsets/2", "sources/0/2"]


@pytest.mark.parametrize(
    ("names", "damage"),
    [
        *((ALL_LOGS, damage) for damage in (emptied, zeros, cut_off, without_its_last_line)),
        # One log alone, which is made again from the other: each in two ways, as the ways are told apart before that.
        (["offsets/2"], emptied), (["offsets/2"], cut_off),
        (["commits/1"], zeros), (["commits/1"], without_its_last_line),
    ],
)  # fmt: skip
def test_what_a_power_cut_left_of_a_batch_without_a_plan_is_made_again(
    bench: Bench, caplog: pytest.LogCaptureFixture, names: list[str], damage: Callable[[pathlib.Path, bytes], None]
) -> None:
    bench.run(events((1, 0, 1)), events((1, 1, 2)), columns=COLUMNS)
    assert sorted(path.name for path in logged(bench, "offsets").glob("[0-9]*")) == ["0", "1"]
    for name in names:
        damaged(bench, name, emptied if name.startswith("sources") else damage)
    bench.run(events((1, 2, 3)), columns=COLUMNS)
    assert bench.rows("columns") == [{"k": 1, "x": 1}, {"k": 1, "x": 2}, {"k": 1, "x": 3}]
    for name in names:
        assert f"{logged(bench, name)} was cut off" in caplog.text


def test_an_empty_metadata_file_and_a_first_batch_that_was_lost(bench: Bench) -> None:
    bench.stream.add(events((1, 0, 1)))
    bench.run(columns=COLUMNS)
    for name in ("streams", "spark/t/commits"):  # as if the power had gone before the plan of batch 0
        for path in sorted((bench.checkpoint / name).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    for name in ("metadata", "offsets/0", "sources/0/0"):
        damaged(bench, name, emptied)
    bench.given.clear()
    bench.run(events((1, 1, 2)), columns=COLUMNS)
    assert bench.rows("columns") == [{"k": 1, "x": 1}, {"k": 1, "x": 2}]


def test_checksums_that_were_cut_off_are_no_obstacle(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), events((1, 1, 2)), columns=COLUMNS)
    files = sorted((bench.checkpoint / "spark").rglob("*.crc"))
    assert len(files) >= 4
    for file in files:
        cut_off(file, file.read_bytes())
    bench.run(events((1, 2, 3)), columns=COLUMNS)
    assert bench.rows("columns") == [{"k": 1, "x": 1}, {"k": 1, "x": 2}, {"k": 1, "x": 3}]


def test_what_spark_was_writing_when_it_ended_is_no_obstacle(bench: Bench) -> None:
    bench.run(events((1, 0, 1)), columns=COLUMNS)
    for folder in ("streams", "spark"):  # as if the job had ended when Spark wrote what its first batch has
        shutil.rmtree(bench.checkpoint / folder)
    bench.given.clear()
    logged(bench, "offsets").mkdir(parents=True)
    leftovers = [logged(bench, f"offsets/{name}") for name in (".0.a1b2.tmp", "..0.a1b2.tmp.crc", ".0.crc")]
    for file in leftovers:
        file.write_bytes(b"v")
    bench.run(events((1, 1, 2)), columns=COLUMNS)
    assert bench.rows("columns") == [{"k": 1, "x": 1}, {"k": 1, "x": 2}]
    assert logged(bench, "offsets/.0.crc").read_bytes() != b"v", "the checksum is Spark's"


@pytest.mark.parametrize("damage", [emptied, cut_off])
def test_a_damaged_log_of_a_committed_batch_is_an_error_that_says_what_to_do(
    bench: Bench, damage: Callable[[pathlib.Path, bytes], None]
) -> None:
    bench.run(events((1, 0, 1)), events((1, 1, 2)), columns=COLUMNS)
    damaged(bench, "offsets/1", damage)
    with pytest.raises(StateError) as raised:
        bench.run(events((1, 2, 3)), columns=COLUMNS)
    assert raised.value.code == "state.corrupt"
    assert f"{logged(bench, 'offsets/1')} is empty or cut off" in str(raised.value)
    assert f"restore the folder {logged(bench, '')}" in str(raised.value)
    assert logged(bench, "offsets/1").exists()


def test_what_spark_logged_of_a_batch_is_on_disk_before_the_plan_of_the_batch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut loses what was not synced, so the repair relies on this order."""
    synced: list[str] = []
    write = Folder.write

    def record(path: str) -> None:
        sync(path)
        synced.append(os.path.relpath(path, bench.checkpoint))

    def write_recorded(folder: Folder, name: str, *arguments: Any, **settings: Any) -> None:
        if folder.location.endswith("plans"):
            synced.append(f"plan {int(name.removesuffix('.json'))}")
        write(folder, name, *arguments, **settings)

    monkeypatch.setattr(spark_log, "sync", record)
    monkeypatch.setattr(Folder, "write", write_recorded)
    bench.run(events((1, 0, 1)), events((1, 1, 2)), columns=COLUMNS)
    for batch in range(2):
        before = synced[: synced.index(f"plan {batch}")]
        for path in (f"offsets/{batch}", "offsets", f"sources/0/{batch}", "sources/0", "metadata"):
            assert f"spark/t/{path}" in before
    assert synced.count("spark/t/offsets/0") == 1, "each file is synced once"


def test_a_log_of_another_source_is_removed_only_before_the_first_batch(tmp_path: pathlib.Path) -> None:
    """Kafka's, for example: its file says where the stream began, which all batches depend on."""
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "offsets").mkdir()
    kept = tmp_path / "sources" / "0" / "0"
    kept.touch()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"topic":{"0":17}}')
    SparkLog(Folder(str(tmp_path))).repair(0)
    assert kept.exists()
    (tmp_path / "offsets" / "0").unlink()
    SparkLog(Folder(str(tmp_path))).repair(-1)
    assert not kept.exists()
