"""`FIRST` names existing files."""

from __future__ import annotations

from pathlib import Path

from tests.turns import FIRST

ROOT = Path(__file__).resolve().parent.parent


def test_the_first_tests_exist() -> None:
    assert [name for name in FIRST if not (ROOT / name).exists()] == []
