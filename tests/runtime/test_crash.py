"""The crash law in short: a few kills on `local[2]`. `python -m trimtab.testing.crash` does it at length."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from trimtab.testing.crash import CrashLaw, Plan, differences, expected, make_input


@pytest.mark.slow  # starts Spark four times
def test_killing_drivers_and_workers_never_changes_the_answer(tmp_path: Path) -> None:
    make_input(tmp_path / "input", seed=3, files=12, rows=60)
    law = CrashLaw(tmp_path, random.Random(3), expected(tmp_path / "input"), tell=print)
    plan = Plan(["python worker", "driver", "driver's jvm", "python worker", "driver's python"])
    while plan and not law.tally.problems:
        law.run_job(plan)
    assert law.tally.problems == []
    assert law.tally.kills == {"driver": 1, "driver's jvm": 1, "driver's python": 1, "python worker": 2}
    assert law.tally.verified > 0


def test_a_row_that_is_lost_or_doubled_is_told(tmp_path: Path) -> None:
    make_input(tmp_path / "input", seed=3, files=12, rows=60)
    right = expected(tmp_path / "input")
    assert all(rows for rows in right.values())
    assert differences(right, right) == []
    for name in right:
        row = next(iter(right[name]))
        lost, doubled = right[name].copy(), right[name].copy()
        lost[row] -= 1
        doubled[row] += 1
        assert differences(right, {**right, name: lost}) == [f"{name}: 1 missing, 0 too many: -{row}"]
        assert differences(right, {**right, name: doubled}) == [f"{name}: 0 missing, 1 too many: +{row}"]
