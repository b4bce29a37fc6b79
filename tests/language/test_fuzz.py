"""For every text the compiler returns a query or raises one of our own errors."""

from __future__ import annotations

import pathlib

import pytest

from tests.support.fuzz import fuzz, in_files, main, statements

CASES = pathlib.Path(__file__).parent.parent / "cases"


def test_no_statement_raises_anything_but_our_own_errors() -> None:
    corpus, tables = in_files(sorted(CASES.glob("*.case")))
    assert len(corpus) > 200
    tally = fuzz(3000, seed=7, corpus=corpus, tables=tables)
    assert tally.escaped == []
    assert tally.statements == 3000
    assert tally.compiled > 100
    assert len(tally.refused) > 10


def test_a_seed_always_gives_the_same_statements() -> None:
    assert list(statements(50, seed=3)) == list(statements(50, seed=3))


def test_the_command_prints_how_many_statements_had_which_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "20", "--seed", "2"]) == 0
    assert "20 statements" in capsys.readouterr().out
