"""The aggregates as folds in row order, over all rows and over each prefix."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import plain_aggregates
from trimtab.engine.match import scalars
from trimtab.engine.match.aggregates import FOLDS, aggregate, prefixes

INT, FLOAT, STRING, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()
NAN = math.nan
VALUES = st.none() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5, NAN])
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=12)
BOOLS = st.lists(st.tuples(st.none() | st.booleans(), st.none()), max_size=8)


@given(st.sampled_from(sorted(FOLDS)), ROWS, BOOLS, st.integers(0, 12))
def test_aggregates_over_all_rows_and_over_each_prefix_agree_with_the_plain_twin(
    function: str, rows: list[tuple[object, object]], bools: list[tuple[object, object]], cut: int
) -> None:
    wide = function in ("max_by", "min_by")
    table = bools if function.startswith("bool") else rows
    given_rows = [row if wide else row[:1] for row in table]
    owners = [0] * min(cut, len(table)) + [1] * max(0, len(table) - cut)
    found = prefixes(function, given_rows, owners, FLOAT)
    for i in range(len(given_rows)):
        prefix = given_rows[owners.index(owners[i]) : i + 1]
        expected = repr(plain_aggregates.aggregate(function, prefix, FLOAT))
        assert repr(found[i]) == expected
        assert repr(aggregate(function, prefix, FLOAT)) == expected


@pytest.mark.parametrize("function", sorted(FOLDS))
def test_over_no_rows_counts_are_zero_and_the_rest_is_null(function: str) -> None:
    expected = 0 if "count" in function else None
    assert aggregate(function, [], INT) == expected


@pytest.mark.parametrize(
    ("function", "values", "type_", "expected"),
    [
        ("count", [1, None, 2], INT, 2),
        ("count_distinct", [1, None, 2, 1], INT, 2),
        ("approx_count_distinct", [NAN, NAN, 1.0], INT, 2),
        ("sum", [1, None, 2], INT, 3),
        ("sum", [None], INT, None),
        ("sum", [0.1] * 10, FLOAT, 0.9999999999999999),  # left to right, not compensated
        ("sum", [Decimal("0.10"), Decimal("0.25")], pa.decimal128(19, 2), Decimal("0.35")),
        ("avg", [1, 2], FLOAT, 1.5),
        ("avg", [1.0, NAN], FLOAT, NAN),
        ("avg", [Decimal(1), Decimal(0), Decimal(1)], pa.decimal128(9, 4), Decimal("0.6667")),
        ("min", ["b", None, "a"], STRING, "a"),
        ("max", [1.0, NAN], FLOAT, NAN),
        ("min", [1.0, NAN], FLOAT, 1.0),
        ("var_pop", [1, 3], FLOAT, 1.0),
        ("var_samp", [1, 3], FLOAT, 2.0),
        ("stddev_pop", [1, None, 3], FLOAT, 1.0),
        ("stddev_samp", [1, 3], FLOAT, math.sqrt(2)),
        ("stddev_samp", [1], FLOAT, None),
        ("var_samp", [1], FLOAT, None),
        ("var_pop", [1], FLOAT, 0.0),
        ("bool_and", [True, None], BOOL, True),
        ("bool_and", [True, False], BOOL, False),
        ("bool_or", [None], BOOL, None),
        ("bool_or", [False, True], BOOL, True),
        ("any_value", [None, 2, 3], INT, 2),
        ("first_value", [None, 2], INT, None),
        ("last_value", [1, None], INT, None),
        ("array_agg", [1, None], pa.list_(INT), [1, None]),
        ("collect_list", [1, None], pa.list_(INT), [1]),
        ("collect_list", [None], pa.list_(INT), None),
    ],
)
def test_one_argument(function: str, values: list[Any], type_: pa.DataType, expected: Any) -> None:
    value = aggregate(function, [(value,) for value in values], type_)
    assert scalars.identity(value) == scalars.identity(expected)


def test_count_without_arguments_counts_rows() -> None:
    assert aggregate("count", [(), ()], INT) == 2


@pytest.mark.parametrize(("function", "expected"), [("max_by", "b"), ("min_by", None)])
def test_by_takes_the_first_of_equals_and_ignores_rows_without_a_rank(function: str, expected: str | None) -> None:
    rows = [("x", None), ("b", 2), (None, 1), ("c", 2), ("d", 1)]
    assert aggregate(function, rows, STRING) == expected


def test_max_by_of_ranks_that_are_all_null_is_null() -> None:
    assert aggregate("max_by", [("x", None)], STRING) is None
