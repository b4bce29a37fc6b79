"""Experiments run in this process or in other ones, and report their progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.tests import tiny
from trimtab_lab import drawing
from trimtab_lab.drawing import MOST_PNG_BYTES, picture
from trimtab_lab.experiment import Scale, Settings
from trimtab_lab.files import read_record
from trimtab_lab.running import Failed, Found, Happening, Moved, Order, Started, run_apart, run_here

pytestmark = pytest.mark.slow  # starts processes

Runner = Callable[[list[Order], Callable[[Happening], None]], None]


def apart(orders: list[Order], report: Callable[[Happening], None]) -> None:
    run_apart(orders, 2, ["tiny-alone"], report)


def orders_of(folder: Path, *ids: str, module: str = "lab.tests.tiny") -> list[Order]:
    return [Order(id_, (module,), Scale.REDUCED, 5, folder) for id_ in ids]


@pytest.mark.parametrize("runner", [run_here, apart])
def test_an_experiment_starts_moves_and_is_found(tmp_path: Path, runner: Runner) -> None:
    reported: list[Happening] = []
    runner(orders_of(tmp_path, "tiny-one"), reported.append)
    assert isinstance(reported[0], Started)
    assert any(isinstance(each, Moved) for each in reported[1:-1])
    end = reported[-1]
    assert isinstance(end, Found)
    assert end.record.seed == 5
    assert end.record.scale is Scale.REDUCED
    assert end.record.verdict.holds
    expected = tiny.run(Settings(Scale.REDUCED, 5))
    assert end.record.results.tables == expected.tables
    assert end.record.results.series["y"] == expected.series["y"].tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny-one.json", "tiny-one.png", "tiny-one.svg"]
    assert sorted(end.files) == sorted(tmp_path.iterdir())
    assert read_record(tmp_path / "tiny-one.json") == end.record


@pytest.mark.slow
def test_those_that_run_alone_start_when_all_others_have_ended(tmp_path: Path) -> None:
    reported: list[Happening] = []
    apart(orders_of(tmp_path, "tiny-alone", "tiny-one", "tiny-two"), reported.append)
    starts = [place for place, each in enumerate(reported) if each == Started("tiny-alone")]
    ends = [place for place, each in enumerate(reported) if isinstance(each, Found) and each.id != "tiny-alone"]
    assert len(ends) == 2
    assert max(ends) < starts[0]


def test_one_that_fails_does_not_stop_the_next(tmp_path: Path) -> None:
    reported: list[Happening] = []
    run_here(orders_of(tmp_path, "broken-divides", "broken-asks", module="lab.tests.broken"), reported.append)
    failed = {each.id: each.message for each in reported if isinstance(each, Failed)}
    assert "ZeroDivisionError: nothing to share" in failed["broken-divides"]
    assert failed["broken-asks"] == "error[plan.budget]: too much was asked\n  hint: ask less"
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_dies_is_reported_and_does_not_stop_the_next(tmp_path: Path) -> None:
    reported: list[Happening] = []
    run_apart(orders_of(tmp_path, "broken-dies", "broken-asks", module="lab.tests.broken"), 1, [], reported.append)
    failed = {each.id: each.message for each in reported if isinstance(each, Failed)}
    assert "status 7" in failed["broken-dies"]
    assert "too much was asked" in failed["broken-asks"]


def test_pictures_are_the_same_bytes_each_time_and_small() -> None:
    experiment = tiny.EXPERIMENTS[0]
    results = experiment.run(Settings())
    png, svg = picture(experiment, results)
    assert (png, svg) == picture(experiment, results)
    assert png.startswith(b"\x89PNG")
    assert len(png) <= MOST_PNG_BYTES
    assert b"<svg" in svg


def test_a_picture_that_is_too_big_gets_fewer_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = tiny.EXPERIMENTS[0]
    results = experiment.run(Settings())
    png, _ = picture(experiment, results)
    monkeypatch.setattr(drawing, "MOST_PNG_BYTES", len(png) - 1)
    smaller, _ = picture(experiment, results)
    assert len(smaller) < len(png)


def test_without_matplotlib_the_results_are_still_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    reported: list[Happening] = []
    run_here(orders_of(tmp_path, "tiny-one"), reported.append)
    end = reported[-1]
    assert isinstance(end, Found)
    assert "pip install matplotlib" in end.note
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-one.json"]
