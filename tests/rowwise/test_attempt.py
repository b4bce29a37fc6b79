"""Expressions that fail for some rows: the others are computed all the same."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from trimtab.errors import InputError
from trimtab.rowwise.attempt import Attempt, attempted

MOST = (1 << 63) - 1
ROWS = pa.table({"x": pa.array([1, MOST, None, -3]), "at": pa.array([dt.datetime(2026, 1, 1)] * 4, pa.timestamp("us"))})


def failed(attempt: Attempt) -> list[bool] | None:
    return None if attempt.failed is None else attempt.failed.tolist()


def test_where_no_row_fails_there_is_no_mask() -> None:
    [twice, late] = attempted(ROWS.slice(2), ["x * 2", "at + INTERVAL 1 DAY"], [pa.int64(), None])
    assert (twice.column.to_pylist(), failed(twice)) == ([None, -6], None)
    assert (late.column.type, failed(late)) == (pa.timestamp("us"), None)


def test_a_row_fails_alone_and_only_in_the_column_that_fails() -> None:
    [twice, less] = attempted(ROWS, ["sign(x) * x * 2", "x - 1"], [pa.int64(), pa.int64()])
    assert (twice.column.to_pylist(), failed(twice)) == ([2, None, None, 6], [False, True, False, False])
    assert (less.column.to_pylist(), failed(less)) == ([0, MOST - 1, None, -4], None)


def test_what_is_written_twice_fails_alone_as_well() -> None:
    [found] = attempted(ROWS, ["CASE WHEN sign(x) * x * 2 > 7 THEN sign(x) * x * 2 END"], [pa.int64()])
    assert (found.column.to_pylist(), failed(found)) == ([None, None, None, None], [False, True, False, False])


def test_lengths_of_time_are_computed_beside_failures() -> None:
    [span, twice] = attempted(
        ROWS, ["at - TIMESTAMP_NTZ'2025-12-31'", "sign(x) * x * 2"], [pa.duration("us"), pa.int64()]
    )
    assert span.column.to_pylist() == [dt.timedelta(days=1)] * 4
    assert failed(twice) == [False, True, False, False]


def test_values_that_do_not_fit_the_type_fail() -> None:
    [few] = attempted(ROWS, ["x + 0"], [pa.int32()])
    assert (few.column.to_pylist(), failed(few)) == ([1, None, None, -3], [False, True, False, False])
    assert few.column.type == pa.int32()


def test_what_duckdb_does_not_understand_is_an_error() -> None:
    with pytest.raises(InputError, match="computing no_such_function"):
        attempted(ROWS, ["no_such_function(x)"], [None])


def test_nothing_to_compute_gives_nothing() -> None:
    assert attempted(ROWS, [], []) == []
