"""Cases that once gave a wrong answer: numbers beyond 64 bits, equal keys with different bits, rows that wait."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trimtab
from trimtab.engine.match.kernels import generated as kernels

BIG = 2**62


def match(clauses: str, table: pa.Table, **options: Any) -> list[tuple[Any, ...]]:
    found = trimtab.evaluate(f"SELECT * FROM t MATCH_RECOGNIZE ({clauses})", {"t": table}, **options)
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture(params=["plain Python", pytest.param("machine code", marks=pytest.mark.slow)])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(kernels, "COMPILE_FROM_ROWS", 0 if request.param == "machine code" else 10**9)
    monkeypatch.setattr(kernels, "LOAD_FROM_ROWS", 0 if request.param == "machine code" else 10**9)
    monkeypatch.setattr(kernels, "_COMPILED", {})
    return str(request.param)


def test_zeros_and_not_a_numbers_are_one_key_each() -> None:
    table = pa.table({"ts": range(6), "k": [0.0, -0.0, math.nan, -math.nan, None, None]})
    clauses = "PARTITION BY k ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+)"
    assert [n for _, n in match(clauses, table)] == [2, 2, 2]
    assert sorted(n for _, n in match(clauses, table, cuts=[1, 3, 5])) == [2, 2, 2]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, 2**63 + 5, 1, 2**64 - 1, 0], pa.uint64()),
        ([-(2**63), 2**63 - 1, 0, 1], pa.int64()),
        ([-128, 127, 0], pa.int8()),
        ([1, 3, 2], pa.time64("us")),
    ],
)
def test_descending_order_holds_for_the_largest_and_smallest_integers(values: list[int], kind: pa.DataType) -> None:
    table = pa.table({"x": pa.array(values, kind), "i": range(len(values))})
    expected = sorted(range(len(values)), key=lambda i: -values[i])
    assert match("ORDER BY x DESC MEASURES ARRAY_AGG(i) AS l PATTERN (A+)", table) == [(expected,)]
    assert match("ORDER BY x MEASURES ARRAY_AGG(i) AS l PATTERN (A+)", table) == [(expected[::-1],)]


def test_conditions_beyond_64_bits_are_exact(mode: str) -> None:
    table = pa.table({"ts": range(5), "x": [BIG, BIG, BIG, 1, -5]})
    count = "ORDER BY ts MEASURES COUNT(*) AS n PATTERN"
    assert match(f"{count} (A+) DEFINE A AS SUM(A.x) > 0", table) == [(5,)], mode
    assert match(f"{count} (A B+) DEFINE B AS B.x * A.x > 0", table) == [(4,)], mode


def test_decimals_beside_large_integers_compare_exactly(mode: str) -> None:
    table = pa.table({"ts": [1, 2], "x": [BIG, 1], "d": pa.array([Decimal(1), Decimal(1)], pa.decimal128(12, 4))})
    assert match("ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A B) DEFINE B AS B.d > A.x", table) == [], mode


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
def test_a_sum_beyond_64_bits_is_an_error(mode: str, rows: str) -> None:
    table = pa.table({"ts": range(3), "x": [BIG, BIG, BIG]})
    with pytest.raises(trimtab.TrimtabError, match=r"input\.value"):
        match(f"ORDER BY ts MEASURES SUM(A.x) AS s {rows} PATTERN (A+)", table)
    assert mode


def test_a_sum_that_was_carried_from_an_earlier_batch_counts(mode: str) -> None:
    table = pa.table({"ts": range(4), "x": [BIG, BIG - 1, 1, 7]})
    clauses = "ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS SUM(A.x) > 0"
    assert match(clauses, table) == [(4,)], mode
    assert match(clauses, table, cuts=[2]) == [(4,)], mode


def test_long_running_sums_beyond_64_bits_are_an_error_too() -> None:
    table = pa.table({"ts": range(6000), "x": np.full(6000, 2**60)})
    with pytest.raises(trimtab.TrimtabError, match=r"input\.value"):
        match("ORDER BY ts MEASURES SUM(x) AS s ALL ROWS PER MATCH PATTERN (A+)", table)
    (first, *_, last) = match("ORDER BY ts MEASURES AVG(x) AS s ALL ROWS PER MATCH PATTERN (A+)", table)
    assert first[1] == last[1] == 2.0**60


@pytest.mark.parametrize(("f", "most"), [(1e200, 2**63 - 1), (-1e200, -(2**63)), (float("nan"), 0)])
def test_whole_parts_that_no_bigint_holds_are_the_nearest_as_in_spark(mode: str, f: float, most: int) -> None:
    table = pa.table({"ts": [1, 2], "f": [f, 1e10]})
    clauses = f"""ORDER BY ts MEASURES FLOOR(A.f * B.f) AS i PATTERN (A B)
        DEFINE B AS FLOOR(A.f * B.f) = {most} AND CAST(A.f * B.f AS BIGINT) = {most}"""
    assert match(clauses, table) == [(most,)], mode


@pytest.mark.parametrize(("f", "most"), [(1e5, 2**31 - 1), (float("inf"), 2**31 - 1), (float("nan"), 0)])
def test_whole_parts_that_no_int_holds_are_the_nearest_as_in_spark(mode: str, f: float, most: int) -> None:
    table = pa.table({"ts": [1, 2], "f": [f, 1e5]})
    clauses = f"""ORDER BY ts MEASURES CAST(A.f * B.f AS INT) AS i PATTERN (A B)
        DEFINE B AS CAST(A.f * B.f AS INT) = {most}"""
    assert match(clauses, table) == [(most,)], mode


def test_the_average_of_intervals_is_an_interval() -> None:
    spans = pa.table({"ts": range(3), "x": pa.array([1, 4, 4], pa.duration("s"))})
    mean = datetime.timedelta(seconds=3)
    assert match("ORDER BY ts MEASURES AVG(A.x) AS a PATTERN (A+)", spans) == [(mean,)]
    assert match("ORDER BY ts MEASURES AVG(A.x) AS a ALL ROWS PER MATCH PATTERN (A+)", spans)[-1][1] == mean
    clauses = "ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS AVG(A.x) < INTERVAL '3' SECONDS"
    assert match(clauses, spans) == [(2,)]


def test_a_timeout_waits_for_rows_that_wait_for_next() -> None:
    at = [datetime.datetime(2026, 1, 1, 0, 0, second) for second in (0, 1, 9, 10)]
    table = pa.table({"ts": at, "k": ["a", "a", "b", "b"], "x": [3, 0, 1, 1]})
    clauses = """PARTITION BY k ORDER BY ts MEASURES ARRAY_AGG(x) AS l
        PATTERN (A B* TIMEOUT) WITHIN 4 SECONDS DEFINE B AS NEXT(B.x) IS NULL"""
    whole = match(clauses, table, event_time="ts")
    assert sorted(whole) == sorted(match(clauses, table, event_time="ts", cuts=[3])) == [("a", [3, 0]), ("b", [1, 1])]
