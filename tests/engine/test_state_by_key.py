"""State is kept by key: cutting, shuffling and joining it, and loading only what is needed, don't change the answer."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.support.choices import SeededChoices
from tests.support.query_cases import SCHEMA, Case, a_table, random_case
from tests.support.state_by_key import SECOND, WINDOWS, Stream, stream, whole
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.run.matcher import Matcher
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment
from trimtab.errors import ThreadLimitError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of

EXAMPLES = max(1, settings().max_examples // 3)  # each is run three ways


def assert_same_answers(found: Stream, seed: int) -> None:
    note(found.query.sql)
    note(f"{found.rows.to_pylist()} cut at {found.cuts}, {found.delay_us} us late")
    answers = found.answers(random.Random(seed))
    assert answers["shuffled"] == answers["whole"]
    assert answers["stored"] == answers["whole"]


# Cases come from seeds: those that Hypothesis would draw are simple, and mostly have a row or two.
seeds = st.integers(0, 2**32)
random_cases = seeds.map(random_case)
random_tables = seeds.map(lambda seed: a_table(SeededChoices(seed)))
cuts_strategy = st.lists(st.integers(0, 14), min_size=1, max_size=5)
delays_us = st.builds(lambda seconds, less: max(0, seconds * SECOND - less), st.integers(0, 6), st.integers(0, 2))
"""Watermarks near the times of rows, and equal to them."""


@settings(max_examples=EXAMPLES)
@given(random_cases, cuts_strategy, delays_us, seeds)
def test_a_pattern_answers_the_same_however_its_state_is_kept(
    case: Case, cuts: list[int], delay_us: int, seed: int
) -> None:
    assert_same_answers(stream(case.sql, case.table, cuts, delay_us), seed)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(WINDOWS), random_tables, cuts_strategy, delays_us, seeds)
def test_a_window_or_operator_answers_the_same_however_its_state_is_kept(
    sql: str, table: pa.Table, cuts: list[int], delay_us: int, seed: int
) -> None:
    assert_same_answers(stream(sql, table, cuts, delay_us), seed)


TIMED = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {} AFTER MATCH SKIP {}
    PATTERN ({}) WITHIN INTERVAL '3' SECOND
    DEFINE A AS A.x > 1, B AS {})"""


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(["MEASURES count(*) AS n", "MEASURES CLASSIFIER() AS c, RUNNING sum(x) AS a ALL ROWS PER MATCH"]),
    st.sampled_from(["PAST LAST ROW", "TO NEXT ROW"]),
    st.sampled_from(["A B* TIMEOUT", "A B+", "A B* $", "A (B | C)*", "(A | B)+? C", "A B* (C | TIMEOUT)"]),
    st.sampled_from(["B.x > PREV(B.x)", "NEXT(B.x) > B.x", "B.x <> MATCH_NUMBER()", "NEXT(B.x, 2) <> MATCH_NUMBER()"]),
    random_tables,
    cuts_strategy,
    delays_us,
    seeds,
)
def test_a_key_of_a_pattern_with_within_is_visited_when_its_time_is_over(
    measures: str, skip: str, pattern: str, condition: str, table: pa.Table, cuts: list[int], delay_us: int, seed: int
) -> None:
    sql = TIMED.format(measures, skip, pattern, condition)
    if "C" in pattern:
        sql = sql[:-1] + ", C AS C.s = 'a')"
    assert_same_answers(stream(sql, table, cuts, delay_us), seed)


def test_an_attempt_that_is_repeated_is_visited_when_its_time_is_over() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(*) AS n
        PATTERN (A B* TIMEOUT) WITHIN INTERVAL '3' SECOND DEFINE A AS A.x > MATCH_NUMBER(), B AS B.x = 0)"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    table = pa.table({"k": [1, 1], "ts": pa.array([0, SECOND], pa.timestamp("us")), "x": [9, 0]})
    rows = query.intake.run(table)
    _, state = operator_of(query).advance(rows, {}, Moment(2 * SECOND))
    assert state["keys"]["deadline_us"].to_pylist() == [3 * SECOND]
    output, state = operator_of(query).advance(rows.slice(0, 0), state, Moment(3 * SECOND))
    assert output.num_rows == 1
    assert state["keys"]["deadline_us"].to_pylist() == [None]  # only the number of its matches is kept


# Ties ----------------------------------------------------------------------------------------------------------------


@st.composite
def arrivals_of(draw: st.DrawFn, table: pa.Table) -> list[int]:
    """Numbers for the rows: all different, or a hash, which equal rows have in common."""
    numbers = st.integers(-(2**63), 2**63 - 1)
    count = table.num_rows
    if draw(st.booleans()):
        return draw(st.lists(numbers, min_size=count, max_size=count, unique=True))
    contents = [repr(row) for row in table.to_pylist()]
    distinct = sorted(set(contents))
    hashes = draw(st.lists(numbers, min_size=len(distinct), max_size=len(distinct), unique=True))
    return [dict(zip(distinct, hashes, strict=True))[content] for content in contents]


def together(batches: list[list[str]] | str) -> list[str] | str:
    """The rows of all batches: in which batch each is output depends on the cuts."""
    return batches if isinstance(batches, str) else sorted(row for batch in batches for row in batch)


@settings(max_examples=EXAMPLES)
@given(random_cases, cuts_strategy, st.integers(0, 6), st.data(), seeds)
def test_rows_of_a_pattern_that_tie_are_in_order_of_arrival_wherever_they_arrive(
    case: Case, cuts: list[int], delay_s: int, data: st.DataObject, seed: int
) -> None:
    assert_ties_are_settled(case.sql, case.table, cuts, delay_s, data, seed)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(WINDOWS), random_tables, cuts_strategy, st.integers(0, 6), st.data(), seeds)
def test_rows_of_a_window_that_tie_are_in_order_of_arrival_wherever_they_arrive(
    sql: str, table: pa.Table, cuts: list[int], delay_s: int, data: st.DataObject, seed: int
) -> None:
    assert_ties_are_settled(sql, table, cuts, delay_s, data, seed)


def assert_ties_are_settled(
    sql: str, table: pa.Table, cuts: Sequence[int], delay_s: int, data: st.DataObject, seed: int
) -> None:
    arrivals = data.draw(arrivals_of(table))
    moments = table["ts"].to_pylist()
    # Sorted by time and number, and in one batch: nothing has to be reordered.
    in_order = sorted(range(table.num_rows), key=lambda row: (moments[row], arrivals[row]))
    # As they arrive: no row later than the delay, otherwise in any order.
    waits = data.draw(st.lists(st.integers(0, delay_s), min_size=table.num_rows, max_size=table.num_rows))
    chance = random.Random(seed)
    comes = [moments[row] + dt.timedelta(seconds=waits[row]) for row in range(table.num_rows)]
    mixed = sorted(range(table.num_rows), key=lambda row: (comes[row], chance.random()))

    def as_it_comes(order: Sequence[int], cuts: Sequence[int]) -> Stream:
        chosen = table.take(pa.array(order, pa.int64()))
        return stream(sql, chosen, cuts, delay_s * SECOND, [arrivals[row] for row in order])

    note(sql)
    note(f"{table.take(pa.array(mixed, pa.int64())).to_pylist()} as {[arrivals[row] for row in mixed]}, cut at {cuts}")
    expected = as_it_comes(in_order, [])
    answer = together(expected.outcome(lambda: whole(expected.make, expected.batches)))
    for name, found in as_it_comes(mixed, cuts).answers(chance).items():
        assert together(found) == answer, name


def test_a_waiting_row_comes_after_an_equal_one_that_arrives_later_with_a_smaller_number() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS a, B.x AS b
        PATTERN (A B) DEFINE B AS TRUE)"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    columns = {"k": [1, 1], "ts": [5, 5], "x": [10, 20], ARRIVAL: [7, -7]}
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    rows = rows.set_column(1, "ts", rows["ts"].cast(pa.timestamp("us")))
    operator = operator_of(query)
    _, state = operator.advance(rows.slice(0, 1), {}, Moment(5))
    output, _ = operator.advance(rows.slice(1, 1), state, Moment(6))
    (found,) = output.to_pylist()
    assert [found[f"slot{n}"] for n in range(2)] == [20, 10]
    assert found[TIME_US] == 5


def test_errors_name_a_key_by_the_users_columns() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS a
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) DEFINE C AS C.x > A.x)"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    assert isinstance(query.operator, MatchQuery)
    matcher = Matcher(replace(query.operator, partition=("__slot", "k")), max_threads=2)
    rows = pa.table({"__slot": np.full(9, 3), "k": np.full(9, 4), "ts": pa.array(range(9), pa.timestamp("us"))})
    rows = rows.append_column("x", pa.array([0] * 9)).append_column(ARRIVAL, pa.array(range(9), pa.int64()))
    with pytest.raises(ThreadLimitError) as caught:
        matcher.advance(rows, {}, Moment(100))
    assert "k=4" in str(caught.value)
    assert "__slot" not in str(caught.value)
