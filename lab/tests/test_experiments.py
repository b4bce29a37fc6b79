"""Every experiment that is not live, reduced: its verdict, its results as JSON, its picture, and its seed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

import pytest

from trimtab_lab import drawing
from trimtab_lab.catalogue import experiments
from trimtab_lab.drawing import MOST_PNG_BYTES, picture
from trimtab_lab.experiment import Experiment, Results, Scale, Settings, Table
from trimtab_lab.record import plain

KNOWN_NOT_TO_HOLD: dict[str, str] = {
    "fugu-fig6": "utilisation follows the rate in nearly a straight line here",
    "fugu-fig7": "hosts are filled up to the threshold, so utilisation follows it under a varying rate too",
}
"""Claims that do not hold, with the reason; an experiment that holds must be removed from the list."""

TIMES = ("_s", "_ms", "seconds", "(s)")
EXPERIMENTS = experiments()
SEED = 1


SIMULATED = [id_ for id_, experiment in EXPERIMENTS.items() if not experiment.live]
REPEATED = {EXPERIMENTS[id_].paper: id_ for id_ in SIMULATED if not EXPERIMENTS[id_].alone}.values()
"""The last one of each paper: a second run takes as long as the first."""


@pytest.mark.slow
@pytest.mark.parametrize("id_", SIMULATED)
def test_an_experiment_comes_to_its_verdict_is_drawn_and_finds_the_same_again(id_: str) -> None:
    # One test, as the checks share a run that takes seconds, and tests may run in several processes.
    experiment = EXPERIMENTS[id_]
    results = run_while_watched(experiment)
    assert_verdict(experiment, results)
    assert_plain(results)
    assert_drawn_without_warnings(experiment, results)
    if id_ in REPEATED:
        assert_same(results, experiment.run(Settings(Scale.REDUCED, SEED)))


def run_while_watched(experiment: Experiment) -> Results:
    shares: list[float] = []
    results = experiment.run(Settings(Scale.REDUCED, SEED, lambda done, _note: shares.append(done)))
    assert all(0 <= share <= 1.0000001 for share in shares)
    assert shares == sorted(shares)
    return results


def assert_verdict(experiment: Experiment, results: Results) -> None:
    verdict = experiment.holds(results)
    assert verdict.checks
    wrong = [check for check in verdict.checks if not check.holds]
    if experiment.id in KNOWN_NOT_TO_HOLD:
        assert wrong
        assert verdict.reason
    else:
        assert wrong == []


def assert_plain(results: Results) -> None:
    assert results.tables
    for table in results.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    rows = [list(row) for table in results.tables for row in table.rows]
    json.dumps(plain([rows, results.series, results.notes]), allow_nan=False)


def assert_drawn_without_warnings(experiment: Experiment, results: Results) -> None:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("error")
        patched.setattr(drawing, "RESOLUTIONS", drawing.RESOLUTIONS[-1:])  # the others take as long each
        png, svg = picture(experiment, results)
    assert 5_000 < len(png) <= MOST_PNG_BYTES
    assert len(svg) < 2_000_000


def assert_same(first: Results, again: Results) -> None:
    assert [timeless(table) for table in first.tables] == [timeless(table) for table in again.tables]
    assert without_times(plain(first.series)) == without_times(plain(again.series))


def test_the_list_of_claims_that_do_not_hold_names_experiments() -> None:
    assert set(KNOWN_NOT_TO_HOLD) - set(EXPERIMENTS) == set()


def timeless(table: Table) -> list[Any]:
    """The table without its columns and rows of times."""
    kept = [place for place, name in enumerate(table.columns) if not is_time(name)]
    rows = [row for row in table.rows if not is_time(str(row[0]))]
    return [table.title, *([plain(row[place]) for place in kept] for row in rows)]


def without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_times(each) for key, each in value.items() if not is_time(key)}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def is_time(name: str) -> bool:
    return name.endswith(TIMES)
