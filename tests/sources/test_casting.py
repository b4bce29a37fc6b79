"""Casting rows to a schema: what can be cast is, what can't loses its row alone."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trimtab.sources.casting import cast_rows

UTC = pa.timestamp("us", "UTC")


def cast_one(values: Any, type_: pa.DataType) -> tuple[list[Any], list[int]]:
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    rows, wrong = cast_rows(pa.table({"v": array}), pa.schema({"v": type_}))
    assert rows.schema == pa.schema({"v": type_})
    return rows["v"].to_pylist(), list(wrong)


@pytest.mark.parametrize(
    ("values", "type_", "expected", "wrong"),
    [
        (["1", " 2 ", None, "x", "1.5"], pa.int64(), [1, 2, None], [3, 4]),
        (["1e3", "x", "-0.5"], pa.float64(), [1000.0, -0.5], [1]),
        (["true", "0", "maybe"], pa.bool_(), [True, False], [2]),
        (["1.25", "1.255"], pa.decimal128(10, 2), [Decimal("1.25")], [1]),
        (["2024-02-29", "2023-02-29"], pa.date32(), [datetime.date(2024, 2, 29)], [1]),
        ([b"a", b"\xff", b"c"], pa.string(), ["a", "c"], [1]),
        ([1, 2**40], pa.int32(), [1], [1]),
        ([1.0, 1.5, float("nan")], pa.int64(), [1], [1, 2]),
        ([1, 2], pa.string(), ["1", "2"], []),
        (["a"], pa.binary(), [b"a"], []),
        ([{"a": 1}, None], pa.int64(), [None], [0]),
        (pa.array(["3", "x"]).dictionary_encode(), pa.int64(), [3], [1]),
        (pa.chunked_array([["1"], [], ["x", "3"]], pa.string()), pa.int64(), [1, 3], [1]),
        (pa.chunked_array([], pa.string()), pa.int64(), [], []),
    ],
)
def test_values_are_cast_or_lose_their_row(values: Any, type_: pa.DataType, expected: Any, wrong: list[int]) -> None:
    assert cast_one(values, type_) == (expected, wrong)


def test_times_with_and_without_zones_go_together() -> None:
    texts = ["2024-01-02", "2024-01-02 00:00:00.5", "2024-01-02T02:00:00+02:00", "2024-01-02T00:00:00.1234567Z", "soon"]
    day = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    expected = [day, day.replace(microsecond=500_000), day, day.replace(microsecond=123_456)]
    assert cast_one(texts, UTC) == (expected, [4])
    naive = [moment.replace(tzinfo=None) for moment in expected]
    assert cast_one(texts, pa.timestamp("us")) == (naive, [4])


def test_times_without_a_zone_are_in_utc_and_finer_ones_are_cut_off() -> None:
    moment = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=datetime.UTC)
    assert cast_one(pa.array([1], pa.timestamp("us")), UTC) == ([moment], [])
    assert cast_one(pa.array([1999], pa.timestamp("ns")), UTC) == ([moment], [])


def test_reasons_name_the_first_column_and_a_long_value_is_cut() -> None:
    table = pa.table({"a": ["x" * 100, "1"], "b": ["y", "z"]})
    rows, wrong = cast_rows(table, pa.schema({"a": pa.int64(), "b": pa.int64()}))
    assert rows.num_rows == 0
    assert wrong == {0: f"a: '{'x' * 46}... is no int64", 1: "b: 'z' is no int64"}


def test_a_few_bad_values_among_many_are_found() -> None:
    values = np.arange(20_000).astype(str).astype(object)
    values[[0, 777, 778, 19_999]] = "bad"
    found, wrong = cast_one(pa.array(values), pa.int64())
    assert wrong == [0, 777, 778, 19_999]
    assert found == [value for value in range(20_000) if value not in wrong]
