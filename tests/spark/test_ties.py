"""Rows of a key that tie in time have one order, whatever the order of their arrival."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from tests.spark.bench import DAWN, Bench
from trimtab.spark.row_hash import arrival_hash, key_hash

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "debit": pa.int64(), "credit": pa.int64()})
MATCHES = """
    SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.debit AS debit, B.credit AS credit
      PATTERN (A B) DEFINE B AS B.credit = A.debit)"""
SUMS = """
    SELECT debit, credit, COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM t"""
ONE, OTHER = (
    pa.table({"k": [1], "ts": [DAWN], "debit": [debit], "credit": [credit]}, schema=SCHEMA)
    for debit, credit in ((100, None), (None, 100))
)


def test_rows_that_differ_only_in_where_their_nulls_are_have_one_order(spark: Any, tmp_path: Any) -> None:
    found = []
    cuts = ([ONE, OTHER], [OTHER, ONE], [pa.concat_tables([ONE, OTHER])], [pa.concat_tables([OTHER, ONE])])
    for number, files in enumerate(cuts):
        bench = Bench(spark, tmp_path / str(number), SCHEMA)
        bench.run(*files, close=True, matches=MATCHES, sums=SUMS)
        found.append((bench.rows("matches"), bench.rows("sums")))
    assert found == found[:1] * len(cuts)


DIFFERENT = {
    "numbers": ("x INT, y INT", ["(5, NULL)", "(NULL, 5)", "(5, 1)", "(5, 0)", "(NULL, NULL)", "(1, 1)", "(0, 5)"]),
    "strings": ("x STRING, y STRING", ["('a', NULL)", "(NULL, 'a')", "('a', '')", "('', 'a')", "(NULL, NULL)"]),
    "maps": (
        "x MAP<STRING, INT>, y MAP<STRING, INT>",
        [
            "(map('a', 1), NULL)",
            "(NULL, map('a', 1))",
            "(map('a', 2), NULL)",
            "(map('a', NULL), NULL)",
            "(map(), NULL)",
        ],
    ),
    "lists": (
        "x ARRAY<INT>, y ARRAY<INT>",
        ["(array(1, NULL), NULL)", "(array(NULL, 1), NULL)", "(array(1), NULL)", "(array(), NULL)", "(NULL, array(1))"],
    ),
    "structs": (
        "x STRUCT<a: INT, b: MAP<INT, INT>>, y INT",
        [
            "(struct(1, NULL), 0)",
            "(struct(NULL, NULL), 0)",
            "(struct(1, map(1, 2)), 0)",
            "(struct(1, map(1, NULL)), 0)",
            "(NULL, 0)",
        ],
    ),
    "times in lists": (
        "x ARRAY<MAP<STRING, TIMESTAMP>>, y ARRAY<MAP<STRING, TIMESTAMP_NTZ>>",
        [
            "(array(map('a', TIMESTAMP'2026-01-01 00:00:00.000001Z')), NULL)",
            "(array(map('a', TIMESTAMP'2026-01-01 00:00:00.000002Z')), NULL)",
            "(NULL, array(map('a', TIMESTAMP_NTZ'2026-01-01 00:00:00.000001')))",
            "(NULL, array(map('a', TIMESTAMP_NTZ'2026-01-01 00:00:00.000002')))",
        ],
    ),
    "intervals": (
        "x INTERVAL DAY TO SECOND, y INTERVAL",
        [
            "(INTERVAL '1' DAY, NULL)",
            "(INTERVAL '2' DAY, NULL)",
            "(NULL, make_interval(1))",
            "(NULL, make_interval(2))",
        ],
    ),
    "variants": (
        "x VARIANT, y VARIANT",
        ["(parse_json('1'), NULL)", "(NULL, parse_json('1'))", "(parse_json('null'), NULL)", "(parse_json('2'), NULL)"],
    ),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_rows_that_differ_have_different_hashes(kind: str, spark: Any) -> None:
    columns, rows = DIFFERENT[kind]
    fields = spark.createDataFrame([], columns).schema.fields
    frame = spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS t(x, y)")
    typed = [(F.col(field.name).cast(field.dataType), field.dataType) for field in fields]
    hashes = [row[0] for row in frame.select(arrival_hash(typed)).collect()]
    assert len(set(hashes)) == len(rows)


def test_the_hash_of_a_key_is_that_of_earlier_builds(spark: Any) -> None:
    """State is stored by it. Rows without nulls are ordered by it, too."""
    frame = spark.sql("SELECT * FROM VALUES (1L, 'a', 0.5D), (-7L, 'zig', -0.0D), (NULL, 'b', 2.0D) AS t(k, s, y)")
    typed = [(F.col(field.name), field.dataType) for field in frame.schema.fields]
    kept = F.expr("xxhash64(k, s, y + 0.0D)")
    rows = frame.select("k", kept.alias("kept"), key_hash(typed).alias("key"), arrival_hash(typed).alias("arrival"))
    for row in rows.collect():
        assert row.key == row.kept
        assert (row.arrival == row.kept) is (row.k is not None)
