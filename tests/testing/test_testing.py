"""The checks for users' tests find mistakes, and name the smallest cut that shows them."""

from __future__ import annotations

import datetime
import itertools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab
from trimtab.engine.keyed.description import Logic, Snapshot
from trimtab.errors import InputError
from trimtab.testing import BrokenLawError, assert_same_rows, bag, check_cuts, check_operator, difference, rows_at

ROWS = rows_at("ts k n", *((second, "ab"[second % 3 == 0], second % 4) for second in range(12)))
DROPS = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES S.n AS top, LAST(D.n) AS low
    PATTERN (S D+) DEFINE D AS D.n < PREV(D.n))"""


@dataclass
class Sum:
    """A sum, whose snapshot is made by a function of the test."""

    made: Callable[[int], Snapshot | None]
    total: int = 0
    early: bool = False

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        self.total += sum(rows["n"].to_pylist())
        return self.on_close() if self.early else None

    def on_close(self) -> pa.Table:
        return pa.table({"total": [self.total]})

    def snapshot(self) -> Snapshot | None:
        return self.made(self.total)


@dataclass(frozen=True)
class Summing(trimtab.KeyedOperator):
    forgets_above: int = 1_000
    early: bool = False
    columns = ("n",)
    output = pa.schema([("total", pa.int64())])
    state = pa.schema([("total", pa.int64())])

    def open(self, snapshot: Snapshot | None) -> Logic:
        def made(total: int) -> Snapshot:
            return {"total": total if total <= self.forgets_above else 0}

        return Sum(made, **(snapshot or {}), early=self.early)


@dataclass(frozen=True)
class Merging(Summing):
    def merge(self, left: Snapshot, right: Snapshot) -> Snapshot:
        return {"total": left["total"] + right["total"]}


@dataclass(frozen=True)
class MergingWrongly(Summing):
    def merge(self, left: Snapshot, right: Snapshot) -> Snapshot:
        return {"total": max(left["total"], right["total"])}


COUNTER = itertools.count()


@dataclass(frozen=True)
class Moody(Summing):
    def open(self, snapshot: Snapshot | None) -> Logic:  # noqa: ARG002 - it is wrong on purpose
        return Sum(lambda total: {"total": total}, total=next(COUNTER))


def test_an_operator_that_keeps_its_rules_gives_its_answer() -> None:
    for operator in (Summing(), Merging()):
        for time in (None, "ts"):
            found = check_operator(operator, ROWS, partition_by="k", event_time=time)
            assert_same_rows(found, {"k": ["a", "b"], "total": [12, 6]})


def test_without_a_key_all_rows_have_the_same_key() -> None:
    assert check_operator(Summing(), ROWS).to_pylist() == [{"total": 18}]


def test_as_few_cuts_as_possible_are_reported() -> None:
    with pytest.raises(BrokenLawError, match=r"cut at \[4\] .*\nmissing: .*\ntoo many: ") as raised:
        check_operator(Summing(forgets_above=2), ROWS, partition_by="k", event_time="ts", tries=12)
    assert raised.value.cuts == [4]
    with pytest.raises(BrokenLawError) as raised:
        check_operator(Summing(forgets_above=2), ROWS, partition_by="k", tries=3, seed=1)
    assert len(raised.value.cuts) == 1


def test_an_operator_with_another_answer_the_second_time_is_found() -> None:
    with pytest.raises(BrokenLawError, match="another answer the second time"):
        check_operator(Moody(), ROWS, partition_by="k")


def test_a_merge_that_loses_rows_is_found() -> None:
    with pytest.raises(BrokenLawError, match=r"merged .* give another answer than together"):
        check_operator(MergingWrongly(), ROWS, partition_by="k", event_time="ts")


def test_rows_that_parts_return_before_they_are_merged_are_found() -> None:
    one = rows_at("ts n", (0, 1))  # so that there are no cuts to find it
    with pytest.raises(BrokenLawError, match="on_rows returns rows before parts are merged"):
        check_operator(Merging(early=True), one)


def test_the_error_of_an_operator_that_fails_is_raised() -> None:
    with pytest.raises(trimtab.OperatorError, match=r"operator\.failed.*on_close"):
        check_operator(Summing(), rows_at("ts n", (0, 2**62), (1, 2**62), (2, 2**62)))


def test_a_column_that_the_rows_lack_is_named() -> None:
    with pytest.raises(InputError, match="no column key"):
        check_operator(Summing(), ROWS, partition_by="key")


@settings(max_examples=10)
@given(st.permutations(range(12)))
def test_a_query_gives_the_same_however_its_rows_are_cut(order: list[int]) -> None:
    moved = ROWS.take(order)
    answer = check_cuts(DROPS, {"t": moved}, event_time="ts", delay="12 seconds", tries=5)
    assert_same_rows(answer, trimtab.evaluate(DROPS, {"t": ROWS}))


def test_late_rows_are_refused_by_their_number() -> None:
    rows = rows_at("ts k n", (0, "a", 1), (9, "a", 2), (4, "a", 3))
    with pytest.raises(InputError, match="row 2 is 5 seconds older than a row before it, and the delay is 4"):
        check_cuts(DROPS, {"t": rows}, event_time="TS", delay="4 seconds")
    check_cuts(DROPS, {"t": rows}, event_time="ts", delay="5 seconds")


def test_a_query_without_rows_holds() -> None:
    assert check_cuts(DROPS, {"t": ROWS.slice(0, 0)}, event_time="ts").num_rows == 0


def test_a_mistake_in_a_query_is_raised() -> None:
    with pytest.raises(trimtab.TrimtabError, match=r"query\.column"):
        check_cuts("SELECT m FROM t", {"t": ROWS})


def test_a_bag_has_every_copy_of_a_row() -> None:
    assert difference({"n": [1, 1]}, {"n": [1]}) == "missing: {'n': 1}"
    assert difference({"n": [1] * 3}, {"n": list[int]()}) == "missing: {'n': 1} (3 times)"
    assert "missing: 2 other kinds of row" in difference({"n": [*range(7)]}, {"n": [9]})


@pytest.mark.parametrize(
    ("left", "right"), [([0.1 + 0.2], [0.3]), ([float("nan")], [float("nan")]), ([-0.0], [0.0]), ([1e300], [1e300])]
)
def test_floats_are_compared_by_their_digits(left: list[float], right: list[float]) -> None:
    assert bag({"x": left}) == bag({"x": right})
    assert bag({"x": [left]}) == bag({"x": [right]})
    assert bag({"x": [1.0]}) != bag({"x": [1.001]})


def test_times_are_written_in_any_way() -> None:
    day = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
    rows = rows_at("at n", (90, 1), (datetime.timedelta(minutes=1), 2), (day, 3), start=day)
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    assert [time.minute for time in rows["at"].to_pylist()] == [1, 1, 0]
    assert rows_at("at n").num_rows == 0


@pytest.mark.parametrize("row", [("noon", 1), (1,)])
def test_an_invalid_row_is_refused(row: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match=r"input\.value"):
        rows_at("ts n", row)


def test_no_test_framework_is_needed() -> None:
    program = "import sys; sys.modules.update(pytest=None, hypothesis=None); import trimtab.testing"
    subprocess.run([sys.executable, "-c", program], check=True)
