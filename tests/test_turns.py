"""Names in the plan of who runs what have to be those of tests: otherwise it means nothing, and nobody would notice."""

from __future__ import annotations

from pathlib import Path

from tests.turns import FIRST

ROOT = Path(__file__).resolve().parent.parent


def test_the_plan_names_tests_that_are_there() -> None:
    assert [name for name in FIRST if not (ROOT / name).exists()] == []
