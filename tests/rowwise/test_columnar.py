"""Which expressions are computed over columns, and integers that wrap around there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from trimtab.rowwise.attempt import attempted
from trimtab.rowwise.columnar import obstacle

SCHEMA = pa.schema(
    {
        "n": pa.int8(),
        "i": pa.int32(),
        "j": pa.int64(),
        "f": pa.float32(),
        "y": pa.float64(),
        "d": pa.decimal128(12, 2),
        "w": pa.decimal128(38, 10),
        "s": pa.string(),
        "b": pa.bool_(),
        "ts": pa.timestamp("us"),
        "l": pa.list_(pa.int64()),
        "st": pa.struct({"a": pa.int64(), "in": pa.struct({"x": pa.float64()})}),
    }
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("reverse(s) = 'A'", "reverse isn't known to give the same here as in Spark"),
        ("rand() < 0.5", "rand isn't known to give the same here as in Spark"),
        ("ts < current_timestamp()", "current_timestamp isn't known to give the same here as in Spark"),
        ("my_own(j)", "my_own isn't known to give the same here as in Spark"),
        ("d * i", "* of decimal128(12, 2) and int32 isn't known to give the same here as in Spark"),
        ("d * d", "* of decimal128(12, 2) and decimal128(12, 2) isn't known to give the same here as in Spark"),
        # Spark has 34 digits for the result: of 12345678901234567890123456789.0123456789 it takes the last ones off.
        ("-w < 0", "- of decimal128(38, 10) isn't known to give the same here as in Spark"),
        ("abs(w)", "abs of decimal128(38, 10) isn't known to give the same here as in Spark"),
        ("d / 2", "/ of decimal128(12, 2) and int32 isn't known to give the same here as in Spark"),
        ("j % y", "% of int64 and double isn't known to give the same here as in Spark"),
        ("abs(s)", "abs of string isn't known to give the same here as in Spark"),
        ("round(y, -1)", "round keeps digits whose number isn't written out from 0 to 9"),
        ("round(d, 1)", "round of decimal128(12, 2) isn't known to give the same here as in Spark"),
        ("left(s, n) = ''", "left of int8 isn't known to give the same here as in Spark"),
        ("left(s, 0) = ''", "left has a number that isn't written out, or that is below 1"),
        ("locate('a', s, 2) > 1", "str_position is written in a way that isn't known to give the same as in Spark"),
        ("s RLIKE '(?s)a'", "regexp_like has a pattern that isn't known to mean the same here as in Java"),
        ("s RLIKE s", "regexp_like has a pattern that isn't written out"),
        (
            "regexp_replace(s, 'a*', '')",
            "regexp_replace is written in a way that isn't known to give the same as in Spark",
        ),
        (
            "regexp_extract(s, '(a)$', 1)",
            "regexp_extract is written in a way that isn't known to give the same as in Spark",
        ),
        ("st['z'] = 1", "struct<a: int64, in: struct<x: double>> has not exactly one field 'z'"),
        ("st['in'] = 1", "st['in'] is struct<x: double>, with which only Spark computes"),
        ("l[n]", "a list is asked for a place that isn't a number that is written out"),
        ("array_contains(l, n)", "array_contains of int64 and n isn't known to give the same here as in Spark"),
        (
            "ts + INTERVAL '1.5' SECOND",
            "add of timestamp[us] and INTERVAL '1.5' SECOND isn't known to give the same here as in Spark",
        ),
        ("date_trunc('WEEK', s)", "week of string isn't known to give the same here as in Spark"),
        ("TRY_CAST(s AS INT)", "CAST of string to int32 isn't known to give the same here as in Spark"),
        ("ts < TIMESTAMP_NTZ'2026-1-1'", "'2026-1-1' isn't a time as YYYY-MM-DD hh:mm:ss, or a date as YYYY-MM-DD"),
        (
            "ts < TIMESTAMP'2026-01-01 00:00:00'",
            "< of timestamp[us] and timestamp[us, tz=UTC] isn't known to give the same here as in Spark",
        ),
        ("ts > '2026-01-01'", "> of timestamp[us] and string isn't known to give the same here as in Spark"),
        ("s IN ('a', 1)", "IN of string and int32 isn't known to give the same here as in Spark"),
        ("CAST(y AS SMALLINT)", "CAST of double to int16 isn't known to give the same here as in Spark"),
        ("CAST(y AS STRING)", "CAST of double to string isn't known to give the same here as in Spark"),
        ("s LIKE concat('a', '%')", "LIKE has a pattern that isn't written out"),
        ("s LIKE 'a\\\\b'", "LIKE has an escape character before something else than % or _"),
        ("substring(s, -2)", "substring has a place or a length that isn't a plain number from 1 on"),
        ("coalesce(j, 'x')", "coalesce has results of several types, or of none that is known to be the same in Spark"),
        ("length(s) * 2", "* of uint32 and int32 isn't known to give the same here as in Spark"),
        ("j AND b", "j is int64, and only Spark takes it for a condition"),
        ("l = l", "l is list<item: int64>, with which only Spark computes"),
        ("z + 1", "there is no column z"),
        ("-2147483648 < i", "-2147483648 has another type in Spark"),
        ("y > 1.0000000000000001", "1.0000000000000001 has more digits than are known to be read the same"),
    ],
)
def test_an_obstacle_is_named(text: str, reason: str) -> None:
    assert obstacle(text, SCHEMA) == reason


def test_integers_wrap_around_as_in_spark() -> None:
    rows = pa.table(
        {
            "n": pa.array([127, -128, 3], pa.int8()),
            "i": pa.array([2**31 - 1, -(2**31), 3], pa.int32()),
            "j": pa.array([2**63 - 1, -(2**63), 3], pa.int64()),
        }
    )
    expected = {
        "n + n": [-2, 0, 6],
        "-n": [-127, -128, -3],
        "i + 1": [-(2**31), -(2**31) + 1, 4],
        "i * i - 1": [0, -1, 8],
        "j + 1": [-(2**63), -(2**63) + 1, 4],
        "j * j": [1, 0, 9],
        "j - i": [2**63 - 2**31, -(2**63) + 2**31, 0],
        "CASE WHEN j + 1 > 0 THEN -j ELSE j * 2 END": [-2, 0, -3],
    }
    for text, values in expected.items():
        [found] = attempted(rows, [text], [None])
        assert (found.column.to_pylist(), found.failed) == (values, None), text
