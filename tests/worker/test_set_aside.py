"""Rows that are set aside when they are read, and above all: which of them are too far ahead."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from trimtab.deciding.placement import Placement
from trimtab.driver.batch_plan import BatchPlan, QuerySetup, Setup
from trimtab.engine.columns.watermark import BatchTime, TimeRule
from trimtab.sources.source import UNDECODED, Clock, Rows
from trimtab.worker.intake import SOURCE_PARTITION, SOURCE_POSITION
from trimtab.worker.set_aside import is_ahead, taken_and_aside

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us", "UTC"), "value": pa.string()})
CLOCK_US, MAX_US = 1_000, 100
TIME = BatchTime(TimeRule(0), latest_us=CLOCK_US + MAX_US, max_ahead_us=MAX_US)


def rows(
    *times_us: int | None,
    appended_us: list[int | None] | None = None,
    clock: Clock = Clock.SOURCE,
    positions: list[int] | None = None,
) -> Rows:
    count = len(times_us)
    table = pa.table([pa.array(range(count)), pa.array(times_us, pa.int64()), pa.array(["v"] * count)], SCHEMA.names)
    appended = None if appended_us is None else pa.array(appended_us, pa.int64())
    places = None if positions is None else pa.array(positions, pa.int64())
    return Rows(table.cast(SCHEMA), appended, clock=clock, positions=places)


def ahead(given: Rows, time: BatchTime = TIME) -> list[int]:
    found = is_ahead(given.table["ts"], given, time)
    return [] if found is None else found.nonzero()[0].tolist()


def test_without_a_time_of_appending_the_clock_decides() -> None:
    given = rows(1_100, 1_101, None, 5)
    assert ahead(given) == [1]
    assert ahead(given, replace(TIME, latest_us=None)) == []


def test_the_time_of_appending_decides_whatever_the_clock_shows() -> None:
    given = rows(600, 601, 2_100, 2_101, None, 1_101, appended_us=[500, 500, 2_000, 2_000, 0, None])
    assert ahead(given) == [1, 3, 5], "where that isn't known, the clock decides"
    for clock_us in (1_000, 5_000, 100_000):
        later = replace(TIME, latest_us=clock_us + MAX_US)
        assert ahead(rows(600, 601, appended_us=[500, 500]), later) == [1]


def test_what_writers_say_is_believed_only_as_far_as_the_clock_has_come() -> None:
    given = rows(600, 601, 1_100, 1_101, appended_us=[500, 500, 2_000, 2_000], clock=Clock.WRITER)
    assert ahead(given) == [1, 3]


def test_when_a_file_was_changed_says_nothing_of_its_rows() -> None:
    assert ahead(rows(600, 1_100, 1_101, appended_us=[0, 0, 5_000], clock=Clock.FILE)) == [2]


def test_a_batch_of_a_build_that_knew_only_the_clock_is_repeated_by_the_clock() -> None:
    setup = Setup("ts", TimeRule(0), {"q": QuerySetup("SELECT 1", "f")}, max_ahead_us=MAX_US)
    plan = BatchPlan("i", 0, None, False, 0.001, TIME, Placement.even(1, 8), setup)
    assert BatchPlan.from_bytes(plan.to_bytes()) == plan
    given = rows(601, 1_100, appended_us=[500, 500])
    assert ahead(given, plan.time) == [0, 1]
    assert ahead(given, replace(plan.time, max_ahead_us=None)) == []


def test_the_others_are_given_with_where_they_are_and_why() -> None:
    bad = pa.table([["t:0"], [7], [b"?"], ["spoilt"]], UNDECODED.names).cast(UNDECODED)
    given = replace(rows(5, 1_101, 6, positions=[4, 5, 6]), undecoded=bad)
    taken, aside = taken_and_aside(given, SCHEMA, "TS", TIME, "t:0", with_places=False)
    assert taken["k"].to_pylist() == [0, 2]
    assert aside is not None
    first, second = zip(*(column.to_pylist() for column in aside.columns), strict=True)
    assert first[:1] + first[2:] == (1, "v", "t:0", 5, None, "ts is too far ahead of the clock")
    assert second == (None, None, None, "t:0", 7, b"?", "spoilt")


@pytest.mark.parametrize("given", [rows(), rows(5, None)])
def test_mostly_there_are_none(given: Rows) -> None:
    taken, aside = taken_and_aside(given, SCHEMA, "ts", TIME, "t:0", with_places=False)
    assert (taken, aside) == (given.table, None)


def test_rows_that_can_be_taken_know_where_they_are_if_an_engine_may_set_them_aside() -> None:
    for positions, left in (([4, 5, 6], [4, 6]), (None, [None, None])):
        given = rows(5, 1_101, 6, positions=positions)
        taken, aside = taken_and_aside(given, SCHEMA, "ts", TIME, "t:0", with_places=True)
        assert taken.select(SCHEMA.names).schema == SCHEMA
        assert taken[SOURCE_PARTITION].to_pylist() == ["t:0", "t:0"]
        assert taken[SOURCE_POSITION].to_pylist() == left
        assert aside is not None
        assert aside.column_names == [*SCHEMA.names, *UNDECODED.names]


def test_what_is_finer_than_a_microsecond_is_cut_off() -> None:
    given = rows(5, 6)
    ns = given.table.set_column(1, "ts", pa.array([5_999, 6_001], pa.timestamp("ns", "UTC")))
    taken, aside = taken_and_aside(replace(given, table=ns), SCHEMA, "ts", TIME, "t:0", with_places=False)
    assert taken == given.table
    assert aside is None


def test_a_row_that_cannot_have_the_types_of_the_queries_is_set_aside_alone() -> None:
    given = rows(2_100, 0, 2_101, appended_us=[2_000, 0, 2_000], positions=[4, 5, 6])
    seconds = pa.schema([SCHEMA.field("k"), ("ts", pa.timestamp("s", "UTC")), SCHEMA.field("value")])
    times = pa.array([0, 10**15, 5], seconds.field("ts").type)
    given = replace(given, table=given.table.set_column(1, seconds.field("ts"), times))
    taken, aside = taken_and_aside(given, SCHEMA, "ts", TIME, "t:0", with_places=True)
    assert taken.select(["k", SOURCE_POSITION]).to_pylist() == [{"k": 0, SOURCE_POSITION: 4}]
    assert aside is not None
    ahead, wrong = zip(*(column.to_pylist() for column in aside.columns), strict=True)
    assert ahead[3:] == ("t:0", 6, None, "ts is too far ahead of when the row was appended")
    assert wrong == (None, None, None, "t:0", 5, None, "ts: 1000000000000000 is no timestamp[us, tz=UTC]")
