"""Hashes over Arrow columns are those of Spark, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.pandas.types import from_arrow_schema

from tests.support.typed_values import FLAT, NESTED, column_of
from trimtab.spark import row_hash as in_spark
from trimtab.worker.row_hash import arrival_hash, has_columnar_hash, key_hash

ROWS = 120
NUMBER = "__number"


def by_spark(spark: Any, rows: pa.Table) -> tuple[list[int], list[int]]:
    """The hashes of the rows as Spark has them: of keys, and of arrivals."""
    numbered = rows.append_column(NUMBER, pa.array(range(rows.num_rows)))
    frame = spark.createDataFrame(numbered, schema=from_arrow_schema(numbered.schema))
    columns = [(F.col(f"`{field.name}`"), field.dataType) for field in frame.schema.fields if field.name != NUMBER]
    hashes = frame.select(NUMBER, in_spark.key_hash(columns), in_spark.arrival_hash(columns)).collect()
    ordered = sorted(tuple(row) for row in hashes)
    return [key for _, key, _ in ordered], [arrival for _, _, arrival in ordered]


def by_columns(rows: pa.Table) -> tuple[list[int], list[int]]:
    keys = key_hash(rows.columns, rows.num_rows)
    return keys.tolist(), arrival_hash(dict(zip(rows.column_names, rows.columns, strict=True)), rows.num_rows).tolist()


def test_values_of_every_type_have_the_same_hash(spark: Any) -> None:
    for name, kind in (FLAT | NESTED).items():
        assert has_columnar_hash(kind)
        rows = pa.table({"v": column_of(kind, ROWS, random.Random(name))})
        assert by_columns(rows) == by_spark(spark, rows), name


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_several_columns_have_the_same_hash(seed: int, spark: Any) -> None:
    dice = random.Random(seed)
    kinds = dice.sample(sorted(FLAT), 4) + dice.sample(sorted(NESTED), seed % 3)
    rows = pa.table({f"c {n}": column_of((FLAT | NESTED)[kind], ROWS, dice) for n, kind in enumerate(kinds)})
    assert by_columns(rows) == by_spark(spark, rows)


def test_lists_of_floats_are_hashed_as_keys(spark: Any) -> None:
    """Only their text is up to the JVM, which is a part of the arrival's hash."""
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float64()), pa.list_(pa.timestamp("us", "UTC"))):
        rows = pa.table({"v": column_of(kind, ROWS, random.Random(3))})
        assert key_hash(rows.columns, ROWS).tolist() == by_spark(spark, rows)[0]
        assert not has_columnar_hash(kind)
