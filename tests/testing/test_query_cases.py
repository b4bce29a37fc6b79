"""The random queries: what they cover, and how a failing one is simplified."""

from __future__ import annotations

import pytest

from tests.support.choices import ScriptedChoices
from tests.support.query_cases import SCHEMA, Case, a_case, random_case, simplest_case

CONSTRUCTS = """
    PARTITION BY k|PARTITION BY k, k2|ORDER BY ts, x|DESC NULLS LAST|MEASURES|SUBSET U|W = (|WITHIN
    ONE ROW PER MATCH|SHOW EMPTY|OMIT EMPTY|WITH UNMATCHED
    SKIP PAST LAST|SKIP TO NEXT|SKIP TO FIRST|SKIP TO LAST|SKIP TO A|SKIP TO U
    PERMUTE|{-|-}|^| $|()|TIMEOUT
    +|*|?|{2}|{2,}|{,2}|{1,2}|+?|*?|??|{2}?|{2,}?|{,2}?|{1,2}?
    FIRST(|LAST(|PREV(|NEXT(|PREV(LAST(|NEXT(FIRST(|PREV(FINAL |FINAL |RUNNING
    CLASSIFIER()|CLASSIFIER(U)|PREV(CLASSIFIER()|MATCH_NUMBER()|count(*)|count(A.*)|count(U.*)
    sum(|avg(|min(|max(|stddev(|stddev_pop(|var_samp(|var_pop(|bool_or(|bool_and(|any_value(
    max_by(|min_by(|array_agg(|collect_list(|count(DISTINCT|approx_count_distinct(
    IS NULL|IS NOT NULL|coalesce(|CASE WHEN|NOT (| AND | OR | IN (|BETWEEN|<=>|INTERVAL|concat(
"""


def test_a_seed_always_gives_the_same_case() -> None:
    one, other = random_case(5), random_case(5)
    assert (one.sql, one.cuts) == (other.sql, other.cuts)
    assert str(one.table.to_pylist()) == str(other.table.to_pylist())  # as text NaN equals NaN


def test_every_construct_is_reached() -> None:
    texts = "\n".join(random_case(seed).sql for seed in range(1000))
    names = [name for line in CONSTRUCTS.strip().split("\n    ") for name in line.split("|")]
    missing = [name for name in names if name not in texts]
    assert missing == []


@pytest.mark.parametrize("seed", range(50))
def test_times_never_go_back_and_cuts_are_inside(seed: int) -> None:
    case = random_case(seed)
    assert case.table.schema == SCHEMA
    times = case.table["ts"].to_pylist()
    assert times == sorted(times)
    assert list(case.cuts) == sorted(case.cuts)
    assert all(0 <= cut <= len(times) for cut in case.cuts)


def test_an_empty_script_writes_the_plainest_case() -> None:
    case = a_case(ScriptedChoices([]))
    assert case.table.num_rows == 0
    assert "PATTERN (A)" in case.sql


def test_a_failing_case_is_simplified() -> None:
    def fails(case: Case) -> bool:
        return "PERMUTE(" in case.sql and case.table.num_rows >= 2

    seed = next(seed for seed in range(100) if fails(random_case(seed)))
    simple = simplest_case(seed, fails)
    assert simple.table.num_rows == 2
    assert "PATTERN (PERMUTE(A, A))" in simple.sql
