"""Expressions without an obstacle give the same over columns as in Spark, on values of all types and their edges."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from tests.support.typed_values import column_of
from trimtab.rowwise.attempt import attempted
from trimtab.rowwise.columnar import obstacle
from trimtab.spark.settings import copy_for_jobs, on_session

KINDS = {
    "n": pa.int8(),
    "h": pa.int16(),
    "i": pa.int32(),
    "j": pa.int64(),
    "f": pa.float32(),
    "y": pa.float64(),
    "d": pa.decimal128(12, 2),
    "e": pa.decimal128(18, 6),
    "s": pa.string(),
    "b": pa.bool_(),
    "day": pa.date32(),
    "ts": pa.timestamp("us"),
    "at": pa.timestamp("us", "UTC"),
}
NUMBERS = ("n", "h", "i", "j", "f", "y", "d", "e", "7", "-1", "0.5", "3000000000", "1e3")
TEXTS = ("s", "'a'", "''", "'é漢'")
COMPARED = (NUMBERS, TEXTS, ("b", "true"), ("day", "day2"), ("ts", "ts2"), ("at", "at2"))
ROWS = 150
NUMBER = "__number"


def table() -> pa.Table:
    """Two columns of each type: values meet others of their own type."""
    dice = random.Random(11)
    columns = {f"{name}{again}": column_of(kind, ROWS, dice) for name, kind in KINDS.items() for again in ("", "2")}
    return pa.table(columns)


def comparisons() -> Iterator[str]:
    for operands in COMPARED:
        for left, right in itertools.product(operands, repeat=2):
            other = f"{right}2" if left == right and right in KINDS else right
            yield from (f"{left} {operator} {other}" for operator in ("=", "<>", "<", "<=", "<=>"))


def arithmetic() -> Iterator[str]:
    for left, right in itertools.product(NUMBERS, repeat=2):
        other = f"{right}2" if left == right and right in KINDS else right
        yield from (f"{left} {operator} {other}" for operator in ("+", "-", "*"))
    yield from (f"-{name}" for name in NUMBERS[:8])
    yield from (f"{left} / {right}" for left, right in itertools.product(("n", "i", "j", "y", "0", "7"), repeat=2))
    yield from ("j % 7", "i % 1", "n % 5", "i % 0", "j % 3000000000", "y % y2", "h % 100000", "j / 0", "y / (y2 - y2)")
    yield from ("(i + 1) * i - n", "j * j * j + 1 > 0", "y * 2 + j - 0.25", "-(-j - 1)", "h * h + h")


OTHERS = (
    "b AND b2", "b OR b2", "NOT b", "b AND NULL", "b OR NULL", "i > 0 AND y < 0 OR NOT b",
    "s IS NULL", "y IS NOT NULL", "i IN (1, 0, -1)", "i IN (0, NULL)", "i NOT IN (0, 3)", "s IN ('', 'a', s2)",
    "y IN (0, 0.5)", "d IN (0, 1, 0.01)", "j BETWEEN -5 AND i", "y NOT BETWEEN y2 AND 100", "s BETWEEN 'a' AND s2",
    "day BETWEEN day2 AND day",
    "CASE WHEN i > 0 THEN j WHEN b THEN 0 END",
    "CASE WHEN b THEN s ELSE s2 END", "CASE WHEN y > 0 THEN y ELSE NULL END",
    "if(b, d, d2)", "if(i > j, n, j)", "coalesce(s, s2, 'none')", "coalesce(n, i, 1)", "coalesce(y, y2)",
    "coalesce(NULL, ts, ts2)",
    "s LIKE 'a%'", "s LIKE '%é%'", "s LIKE '_'", "s LIKE '%_\"%'", "s LIKE ''", "s NOT LIKE '%Z%0%'",
    "length(s)", "length(s) > 10", "char_length(s) = i", "substring(s, 1, 3)", "substr(s, 2)", "substring(s, 5, 0)",
    "substring(s, 40, 100)", "s || s2", "s || '-' || s2",
    *(f"CAST({a} AS {b})" for a, b in itertools.product(("n", "h", "i", "j", "f", "y"), ("BIGINT", "DOUBLE", "INT"))),
    "CAST(n AS SMALLINT)", "bigint(i)", "double(j)", "CAST(d AS DOUBLE)", "CAST(b AS INT)", "CAST(b AS STRING)",
    *(f"CAST({name} AS {kind})" for name, kind in itertools.product(("n", "h", "i", "j"), ("FLOAT", "STRING"))),
    "coalesce(y, 0)", "coalesce(y, 0.5)", "if(b, y, 1)", "CASE WHEN b THEN y ELSE j END", "greatest(y, i)",
    "coalesce(f, y)", "CASE WHEN b THEN d ELSE y END", "nullif(y, 0)", "least(j, y, 0.25)",
    "nullif(i, 0)", "nullif(s, '')", "nullif(y, y2)", "isnan(y)", "abs(y)", "sqrt(y)", "concat(s, s2, '!')",
    "startswith(s, 'a')", "endswith(s, '0')", "contains(s, 'Z')", "contains(s, s2)", "greatest(i, j)",
    "least(y, y2, 0e0)", "greatest(y, y2)", "least(s, s2)", "greatest(day, day2)", "ifnull(s, 'x')",
    "CASE i WHEN 0 THEN 1 WHEN n THEN 2 END",
    *(f"{field}({at})" for field, at in itertools.product(("year", "month", "day"), ("day", "ts", "at"))),
    "hour(ts)", "minute(at)", "hour(at) BETWEEN 9 AND 17", "year(day) > i",
    "day < DATE'2026-01-01'", "ts >= TIMESTAMP_NTZ'1970-01-01 00:00:00.5'", "at > TIMESTAMP'2026-01-01 00:00:00'",
    "ts BETWEEN TIMESTAMP_NTZ'1970-01-01 00:00:00' AND ts2",
)  # fmt: skip


def by_spark(spark: Any, rows: pa.Table, texts: list[str], kinds: list[pa.DataType]) -> pa.Table:
    """The expressions as tier 1 computes them in the JVM: each is cast to the type that the query expects."""
    numbered = rows.append_column(NUMBER, pa.array(range(rows.num_rows)))
    session = copy_for_jobs(spark)
    frame = on_session(spark.createDataFrame(numbered, schema=from_arrow_schema(numbered.schema)), session)
    columns = [
        F.expr(text).cast(from_arrow_type(kind)).alias(f"r{at}")
        for at, (text, kind) in enumerate(zip(texts, kinds, strict=True))
    ]
    return frame.select(NUMBER, *columns).toArrow().sort_by(NUMBER).drop_columns([NUMBER])


@pytest.mark.parametrize(
    "group", [comparisons, arithmetic, lambda: iter(OTHERS)], ids=["compared", "computed", "others"]
)
def test_what_has_no_obstacle_is_the_same(group: Any, spark: Any) -> None:
    rows = table()
    texts = [text for text in dict.fromkeys(group()) if obstacle(text, rows.schema) is None]
    attempts = [attempted(rows, [text], [None])[0] for text in texts]
    right = by_spark(spark, rows, texts, [each.column.type for each in attempts])
    wrong = [
        text
        for text, attempt, column in zip(texts, attempts, right.columns, strict=True)
        if attempt.failed is not None
        or list(map(repr, attempt.column.to_pylist())) != list(map(repr, column.to_pylist()))
    ]
    assert not wrong
    assert len(texts) > 30
