"""The three laws on real Spark: random jobs, moved, resized, failed and started again; `spark_laws` tries more."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import pytest

from trimtab.testing.choices import SeededChoices
from trimtab.testing.spark_laws import differs

SEEDS = range(6)


@pytest.fixture(scope="module")
def done() -> Iterator[collections.Counter[str]]:
    """What coordinators did in all runs together: a law under which nothing moves says nothing."""
    found: collections.Counter[str] = collections.Counter()
    yield found
    if found["tried"] == len(SEEDS):
        assert found["moved"] > 30
        assert min(found["added"], found["dropped"], found["failures"]) > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_however_a_job_is_cut_placed_and_restarted_it_gives_what_evaluate_gives(
    seed: int, spark: Any, done: collections.Counter[str]
) -> None:
    done["tried"] += 1
    assert differs(SeededChoices(seed), spark, done) in ("", "error")
