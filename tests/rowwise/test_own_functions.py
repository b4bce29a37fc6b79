"""Functions of Spark that DuckDB is given, against what Python's exact arithmetic says."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trimtab.rowwise import duck
from trimtab.rowwise.own_functions import lower, rounded, upper, whole

FINITE = st.floats(allow_nan=False, allow_infinity=False)
PRICES = st.integers(-(10**9), 10**9).map(lambda number: number / 1000)


def as_written(number: float, places: int) -> float:
    """The number rounded half up in the digits in which it is written."""
    return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


@given(PRICES | FINITE.filter(lambda number: abs(number) < 1e17), st.integers(0, 6))
@example(2.675, 2)
@example(1.005, 2)
@example(0.49999999999999994, 0)
@example(4503599627370496.5, 0)
@example(1_234_567_890.1234565, 6)
def test_numbers_are_rounded_as_they_are_written(number: float, places: int) -> None:
    [found] = rounded(pa.array([number]), pa.array([places], pa.int32())).to_pylist()
    expected = as_written(number, places) + 0.0
    assert (found, math.copysign(1, found) if not found else 0) == (expected, 1.0 if not expected else 0)


def test_what_has_no_digits_to_round_stays() -> None:
    odd = pa.array([math.inf, -math.inf, 1e300, None, -0.0])
    assert repr(rounded(odd, pa.array([1] * 5, pa.int32())).to_pylist()) == "[inf, -inf, 1e+300, None, 0.0]"
    assert math.isnan(rounded(pa.array([math.nan]), pa.array([1], pa.int32()))[0].as_py())


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
@given(FINITE)
def test_whole_numbers_are_cut_off_and_stay_within_bounds(kind: pa.DataType, number: float) -> None:
    most = 2 ** (kind.bit_width - 1)
    assert whole(pa.array([number]), kind).to_pylist() == [min(max(int(number), -most), most - 1)]


@given(st.lists(st.text(max_size=6) | st.none(), max_size=5))
def test_texts_change_their_case_as_in_unicode(texts: list[str | None]) -> None:
    array = pa.array(texts, pa.string())
    assert upper(array).to_pylist() == [None if each is None else each.upper() for each in texts]
    assert lower(array).to_pylist() == [None if each is None else each.lower() for each in texts]


def test_duckdb_calls_them_also_where_rows_fail_one_by_one() -> None:
    table = pa.table({"s": pa.array(["Straße", None, "x"] * 2_000), "y": pa.array([2.675, None, math.nan] * 2_000)})
    texts = ["upper(s)", "round(y, 2)", "CAST(y AS INT)", "CAST(NULL AS STRING)"]
    found = [column.to_pylist()[:3] for column in duck.compute(table, texts)]
    assert found[0] == ["STRASSE", None, "X"]
    assert repr(found[1]) == "[2.68, None, nan]"
    assert found[2] == [2, None, 0]
    [tried] = duck.run_translated(table, [f"TRY({duck.translate('upper(s)', table.schema)})"])
    assert tried.to_pylist()[:3] == found[0]
