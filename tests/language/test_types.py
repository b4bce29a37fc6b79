"""The rules for types and for constants agree with DuckDB."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from sqlglot import parse_one

from trimtab.errors import QueryError
from trimtab.language import oracle
from trimtab.language.fold import fold
from trimtab.rowwise import duck
from trimtab.rowwise.types import infer

ROW = pa.table(
    {
        "i": pa.array([7, None], pa.int32()),
        "l": pa.array([-7, 2], pa.int64()),
        "s": pa.array([3, 4], pa.int16()),
        "f": pa.array([2.5, -2.5]),
        "r": pa.array([2.5, 1], pa.float32()),
        "t": ["a", None],
        "v": pa.array(["a", "b"], pa.string_view()),
        "c": pa.array(["a", "b"]).dictionary_encode(),
        "b": [True, None],
        "d": pa.array([dt.date(2024, 5, 1)] * 2),
        "ts": pa.array([dt.datetime(2024, 5, 1, 12)] * 2, pa.timestamp("us")),
        "ms": pa.array([dt.datetime(2024, 5, 1, 12)] * 2, pa.timestamp("ms")),
        "m": pa.array([Decimal("1.25"), None], pa.decimal128(8, 2)),
        "n": pa.nulls(2),
    }
)
EXPRESSIONS = """
i; l; f; t; b; d; ts; 1; 1.5; 0.05; 10000000000; 1e3; 'x'; true; null
i + 1; i + l; l * 2; i - 10000000000; f + i; f * 0.9; f + m; i % 2; l % i; -i; -f; abs(l)
i / 2; l / l; m / 2; f / 0
i > 1; f >= i; m < 2; t = 'a'; ts < ms; d = d; d < ts; b = true; i = null; t <=> 'a'; v = c
i IN (1, 2); f BETWEEN 1 AND l; t LIKE 'a%'; t IS NULL; b AND i > 1; NOT b; b OR null
ts - ts; ts + INTERVAL '1' HOUR; ts - INTERVAL 90 MINUTES; INTERVAL '1' DAY
CAST(i AS DOUBLE); CAST(f AS BIGINT); CAST(l AS STRING); CAST(t AS DATE); CAST(d AS TIMESTAMP_NTZ)
CASE WHEN b THEN i ELSE 0 END; CASE WHEN b THEN f END; IF(b, 'x', t); coalesce(l, null)
nullif(f, f)
lower(t); upper(v); trim(t); t || 'x'; length(t); sqrt(f); exp(i); pow(f, 2); ln(l)
s + 1; r + r; m * m; m + 1; CASE WHEN b THEN i ELSE 0.5 END; array(i, l); d + INTERVAL '1' DAY
concat(t, 'x'); round(f, 1); floor(f); date_add(d, 1); unix_timestamp(ts); size(array(1))
"""


@pytest.mark.parametrize("text", [e.strip() for e in EXPRESSIONS.replace("\n", ";").split(";") if e.strip()])
def test_where_a_rule_gives_a_type_duckdb_agrees(text: str) -> None:
    (computed,) = duck.compute(ROW, [text])
    schema = ROW.schema
    known = infer(parse_one(text, read="spark"), lambda column: schema.field(column.name).type)
    if known is not None and text not in schema.names:
        assert known == computed.type
    asked = oracle.type_of(text, parse_one(text, read="spark"), schema)
    assert text in schema.names or asked == computed.type


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("l / 0", [None, None]),
        ("l DIV 2", [-3, 1]),
        ("f DIV 2", [1, -1]),
        ("l % 4", [-3, 2]),
        ("CAST(f AS INT)", [2, -2]),
        ("floor(f)", [2, -3]),
        ("ceil(f)", [3, -2]),
        ("sqrt(l) > 100", [True, False]),  # the root of a negative number is NaN, which is the largest
        ("ln(l) IS NULL", [True, False]),
        ("isnull(i)", [False, True]),
        ("unix_timestamp(ts)", [1714564800, 1714564800]),
        ("date_add(d, 1)", [dt.date(2024, 5, 2)] * 2),
        ("dayofweek(d)", [4, 4]),
        ("weekday(d)", [2, 2]),
        ("ts - ms", [dt.timedelta(0)] * 2),
        ("t || 'x'", ["ax", None]),
        ("CAST('2024-05-01' AS TIMESTAMP) = d", [True, True]),
    ],
)
def test_functions_mean_what_they_mean_in_spark(text: str, values: list[object]) -> None:
    (computed,) = duck.compute(ROW, [text])
    assert computed.to_pylist() == values


def test_times_keep_their_zone_where_the_source_has_one() -> None:
    zoned = pa.table({"at": pa.array([dt.datetime(2024, 5, 1)], pa.timestamp("ns", "Europe/Paris"))})
    (later,) = duck.compute(zoned, ["at + INTERVAL '1' HOUR"])
    assert later.type == pa.timestamp("us", "UTC")
    assert later[0].as_py() == dt.datetime(2024, 5, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 = 1", True),
        ("'B' = 'A'", False),
        ("'B' IN ('A', 'B')", True),
        ("'C' IN ('A', NULL)", None),
        ("'start_row' LIKE 'start%'", True),
        ("lower('B') || '_x'", "b_x"),
        ("NOT 1 > 2", True),
        ("-3", -3),
        ("CAST(NULL AS BOOLEAN)", None),
        ("length('abc')", 3),
    ],
)
def test_common_constants_are_folded_by_rule_to_what_duckdb_gives(text: str, value: object) -> None:
    folded = fold(parse_one(text, read="spark"))
    assert folded is not None
    assert folded[0] == value
    (computed,) = duck.compute(ROW, [text])
    assert computed[0].as_py() == value
    assert computed.type in (folded[1], pa.int32())


def test_other_constants_are_folded_by_duckdb() -> None:
    assert oracle.constant("", parse_one("repeat('ab', 2)", read="spark")) == ("abab", pa.string())


def test_an_unknown_function_is_an_error_with_a_suggestion() -> None:
    sql = "uper(t)"
    with pytest.raises(QueryError, match="did you mean upper"):
        oracle.type_of(sql, parse_one(sql, read="spark"), ROW.schema)
