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
        "s": pa.string(),
        "b": pa.bool_(),
        "ts": pa.timestamp("us"),
        "l": pa.list_(pa.int64()),
    }
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("upper(s) = 'A'", "upper isn't known to give the same here as in Spark"),
        ("rand() < 0.5", "rand isn't known to give the same here as in Spark"),
        ("ts < current_timestamp()", "current_timestamp isn't known to give the same here as in Spark"),
        ("my_own(j)", "my_own isn't known to give the same here as in Spark"),
        ("d * 2", "* of decimal128(12, 2) and int32 isn't known to give the same here as in Spark"),
        ("d / 2", "/ of decimal128(12, 2) and int32 isn't known to give the same here as in Spark"),
        ("j % i", "% of int64 and int32 isn't known to give the same here as in Spark"),
        ("abs(j)", "abs of int64 isn't known to give the same here as in Spark"),
        ("ts < TIMESTAMP_NTZ'2026-1-1'", "'2026-1-1' isn't a time as YYYY-MM-DD hh:mm:ss, or a date as YYYY-MM-DD"),
        (
            "ts < TIMESTAMP'2026-01-01 00:00:00'",
            "< of timestamp[us] and timestamp[us, tz=UTC] isn't known to give the same here as in Spark",
        ),
        ("ts > '2026-01-01'", "> of timestamp[us] and string isn't known to give the same here as in Spark"),
        ("s IN ('a', 1)", "IN of string and int32 isn't known to give the same here as in Spark"),
        ("CAST(y AS INT)", "CAST of double to int isn't known to give the same here as in Spark"),
        ("CAST(y AS STRING)", "CAST of double to string isn't known to give the same here as in Spark"),
        ("s LIKE concat('a', '%')", "LIKE has a pattern that isn't a plain text, or that has a backslash"),
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
