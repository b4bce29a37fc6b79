"""`evaluate` as a user meets it: what may be handed over, batches, late rows, and mistakes."""

import datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import trimtab
from trimtab.errors import InputError

DROPS = """
    SELECT * FROM ticks MATCH_RECOGNIZE (
      ORDER BY ts
      MEASURES FIRST(D.price) AS first_drop, COUNT(D.*) AS drops
      PATTERN (D+) DEFINE D AS D.price < PREV(D.price)
    )"""
TICKS = {"ts": [1, 2, 3, 4, 5], "price": [10, 8, 7, 9, 6]}
FOUND = [{"first_drop": 8, "drops": 2}, {"first_drop": 6, "drops": 1}]


@pytest.mark.parametrize(
    "table",
    [
        pa.table(TICKS),
        pa.record_batch(TICKS),
        pd.DataFrame(TICKS),
        pl.DataFrame(TICKS),
        TICKS,
        pa.RecordBatchReader.from_batches(pa.table(TICKS).schema, pa.table(TICKS).to_batches()),
    ],
    ids=["table", "record batch", "pandas", "polars", "columns", "a stream with the Arrow interface"],
)
def test_any_kind_of_table_will_do(table: Any) -> None:
    assert trimtab.evaluate(DROPS, {"ticks": table}).to_pylist() == FOUND


def test_something_that_is_no_table_is_named() -> None:
    with pytest.raises(InputError, match="table ticks is a int") as caught:
        trimtab.evaluate(DROPS, {"ticks": 3})
    assert caught.value.code == "input.table"


@pytest.mark.parametrize("cuts", [[], [0], [1, 2, 3, 4], [2, 2], [5]])
def test_cuts_do_not_change_the_answer(cuts: list[int]) -> None:
    assert trimtab.evaluate(DROPS, {"ticks": pa.table(TICKS)}, cuts=cuts).to_pylist() == FOUND


@pytest.mark.parametrize("cuts", [[6], [-1], [3, 2], ["a"]])
def test_cuts_that_are_no_row_numbers_are_refused(cuts: list[Any]) -> None:
    with pytest.raises(InputError) as caught:
        trimtab.evaluate(DROPS, {"ticks": pa.table(TICKS)}, cuts=cuts)
    assert caught.value.code == "input.cuts"


def test_rows_that_come_too_late_for_their_batch_are_an_error_without_event_time() -> None:
    shuffled = pa.table({"ts": [1, 3, 2], "price": [3, 2, 1]})
    assert trimtab.evaluate(DROPS, {"ticks": shuffled}).num_rows == 1  # one batch: put in order
    with pytest.raises(InputError, match="later batch") as caught:
        trimtab.evaluate(DROPS, {"ticks": shuffled}, cuts=[2])
    assert caught.value.code == "input.out-of-order"


def seconds(*values: int) -> pa.Array:
    return pa.array([datetime.datetime(2026, 1, 1, 0, 0, s) for s in values], pa.timestamp("us"))


def test_rows_within_the_delay_are_put_in_order_and_later_ones_dropped() -> None:
    ticks = pa.table({"ts": seconds(1, 4, 3, 9, 2), "price": [10, 6, 8, 9, 1]})
    options: dict[str, Any] = {"cuts": [1, 2, 3, 4], "event_time": "ts"}
    on_time = trimtab.evaluate(DROPS, {"ticks": ticks}, delay="2 seconds", **options)
    assert on_time.to_pylist() == [{"first_drop": 8, "drops": 2}]  # 10, 8, 6, 9; the row of second 2 is late
    all_in = trimtab.evaluate(DROPS, {"ticks": ticks}, delay=datetime.timedelta(minutes=1), **options)
    assert all_in.to_pylist() == [{"first_drop": 1, "drops": 1}, {"first_drop": 6, "drops": 1}]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"delay": "2 seconds"}, "input.delay"),
        ({"event_time": "ts", "delay": "soon"}, "input.delay"),
        ({"event_time": "ts", "delay": "-1 second"}, "input.delay"),
        ({"event_time": "when"}, "input.event-time"),
        ({"event_time": "price"}, "query.order-time"),
    ],
)
def test_mistakes_about_time_are_explained(options: dict[str, Any], code: str) -> None:
    ticks = pa.table({"ts": seconds(1, 2), "price": [2, 1]})
    with pytest.raises(trimtab.TrimtabError) as caught:
        trimtab.evaluate(DROPS, {"ticks": ticks}, **options)
    assert caught.value.code == code


def test_a_null_event_time_is_refused() -> None:
    ticks = pa.table({"ts": pa.array([None], pa.timestamp("us")), "price": [1]})
    with pytest.raises(InputError) as caught:
        trimtab.evaluate(DROPS, {"ticks": ticks}, event_time="ts")
    assert caught.value.code == "input.null-time"


def test_no_rows_give_the_right_columns() -> None:
    found = trimtab.evaluate(DROPS, {"ticks": pa.table(TICKS).slice(0, 0)})
    assert found.schema == pa.schema([("first_drop", pa.int64()), ("drops", pa.int64())])


def test_absence_is_found_by_time_alone() -> None:
    sql = """SELECT * FROM orders MATCH_RECOGNIZE (
        PARTITION BY id ORDER BY ts MEASURES PLACED.ts AS placed
        PATTERN (PLACED OTHER* TIMEOUT) WITHIN INTERVAL '10' SECONDS
        DEFINE PLACED AS PLACED.state = 'placed', OTHER AS OTHER.state <> 'paid')"""
    orders = pa.table({"id": [1, 2, 1, 3], "ts": seconds(0, 1, 5, 30), "state": ["placed", "placed", "paid", "placed"]})
    found = trimtab.evaluate(sql, {"orders": orders}, cuts=[1, 2, 3], event_time="ts")
    assert found.column("id").to_pylist() == [2, 3]


def test_a_row_held_back_for_next_still_counts_against_a_time_out() -> None:
    sql = """SELECT * FROM orders MATCH_RECOGNIZE (
        PARTITION BY id ORDER BY ts MEASURES NEXT(PLACED.state) AS then
        PATTERN (PLACED OTHER* TIMEOUT) WITHIN INTERVAL '10' SECONDS
        DEFINE PLACED AS PLACED.state = 'placed', OTHER AS OTHER.state <> 'paid')"""
    orders = pa.table({"id": [1, 1, 2], "ts": seconds(0, 5, 30), "state": ["placed", "paid", "placed"]})
    found = trimtab.evaluate(sql, {"orders": orders}, cuts=[2], event_time="ts")
    assert found.to_pylist() == [{"id": 2, "then": None}]


def test_an_arrow_table_comes_out_of_pandas_and_polars_too() -> None:
    for table in (pd.DataFrame(TICKS), pl.DataFrame(TICKS)):
        found = trimtab.evaluate(DROPS, {"ticks": table})
        assert isinstance(found, pa.Table)
        assert found.to_pandas().to_dict("records") == FOUND
