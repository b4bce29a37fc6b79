"""Records of runs go to JSON and come back, in full or in few bytes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from lab.tests.tiny import fails, run, tiny
from trimtab.errors import InputError
from trimtab_lab.experiment import Settings
from trimtab_lab.files import copy_small, make_folder, read_record, read_records, write_picture, write_record
from trimtab_lab.machine import commit, machine, versions
from trimtab_lab.record import Conditions, Record, from_json, plain, record_of, small, to_json


def a_record(id_: str = "tiny-one") -> Record:
    settings = Settings(seed=3)
    results = run(settings)
    conditions = Conditions("2026-01-01T00:00:00+00:00", None, versions(), machine())
    return record_of(tiny(id_), settings, results, fails(results), conditions, 1.2345)


def test_a_record_survives_json() -> None:
    record = a_record()
    text = json.dumps(to_json(record), allow_nan=False)
    assert from_json(json.loads(text)) == record
    assert record.seconds == 1.23


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    record = a_record()
    path = write_record(record, tmp_path)
    assert path == tmp_path / "tiny-one.json"
    assert read_record(path) == record
    assert [each.name for each in tmp_path.iterdir()] == ["tiny-one.json"]


def test_records_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    for id_ in ("a-b", "c-d"):
        write_record(a_record(id_), tmp_path)
    assert [record.id for record in read_records(tmp_path, ["c-d", "x-y", "a-b"])] == ["c-d", "a-b"]


def test_the_copy_for_the_page_is_small_and_says_the_same(tmp_path: Path) -> None:
    record = a_record()
    write_record(record, tmp_path)
    write_picture(record.id, b"png", b"svg", tmp_path)
    copies = tmp_path / "copies"
    make_folder(copies)
    copy_small(record, tmp_path, copies)
    copied = read_record(copies / "tiny-one.json")
    assert sorted(path.name for path in copies.iterdir()) == ["tiny-one.json", "tiny-one.png"]
    assert copied.verdict == record.verdict
    assert len(copied.results.series["x"]) == len(copied.results.series["y"]) <= 150
    assert copied.results.series["y"][1] == pytest.approx(record.results.series["y"][7], rel=1e-4)
    assert dataclasses.replace(copied, results=record.results) == record
    assert (copies / "tiny-one.json").stat().st_size < (tmp_path / "tiny-one.json").stat().st_size / 5


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        plain({"a": {1, 2}})
    assert plain([np.float64("nan"), np.float64("-inf"), np.bool_(True), np.zeros((1, 2))]) == [
        *(None, "-inf", True),
        [[0.0, 0.0]],
    ]


def test_short_lists_keep_all_their_elements() -> None:
    assert small([[1] * 150, list(range(151))]) == [[1] * 150, list(range(0, 151, 2))]


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"id": 1'])
def test_a_file_that_is_no_record_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"x\.json holds no result"):
        read_record(path)


def test_a_folder_that_cannot_be_made_is_reported_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written to"):
        make_folder(tmp_path / "file" / "below")


def test_the_machine_is_described_without_names() -> None:
    assert machine()["cores"]
    assert float(machine()["memory_gib"]) >= 0
    assert versions()["numpy"] == np.__version__
    assert not any("/" in str(value) and "@" in str(value) for value in machine().values())
    found = commit()
    assert found is None or len(found.removesuffix("+changes")) >= 7
