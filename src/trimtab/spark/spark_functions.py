"""Compiles a query with a Spark session: tier 1 may then use any function of the session, including users' own.

What is computed after the operator (measures of several rows) runs in the engines, in DuckDB, so functions there must
be ones that DuckDB has, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from trimtab.errors import QueryError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query
from trimtab.language.oracle import CHANGING_HINT, also_asking

_CALLS_JAVA = re.compile(r"\b(reflect|try_reflect|java_method)`?\s*\(", re.IGNORECASE)
"""Functions of Spark that call any method of Java. Queries don't have them: a checkpoint may be somebody else's, and a
batch that was begun there is finished with the queries that it names."""


def compile_for(spark: SparkSession, sql: str, tables: Mapping[str, pa.Schema], event_time: str | None) -> Query:
    """The query, compiled with the session's functions.

    Raises QueryError.
    """
    answered: list[tuple[str, QueryError]] = []

    def ask(text: str, schema: pa.Schema, mistake: QueryError) -> pa.DataType | None:
        if _CALLS_JAVA.search(text):
            return None
        found = spark_type(spark, text, schema)
        if found is not None and not is_deterministic(spark, text, schema):
            message = f"Spark says that {text} isn't deterministic, so a batch that is repeated would differ"
            raise QueryError("query.changing", message, mistake.sql, mistake.start, mistake.stop, CHANGING_HINT)
        if found is not None:
            answered.append((text, mistake))
        return found

    with also_asking(ask):
        query = compile_query(sql, tables, event_time=event_time)
    after_operator = " ".join([*(text for _, text in query.finish.columns), query.finish.where or ""])
    if query.operator.is_keyed and any(text in after_operator for text, _ in answered):
        raise answered[0][1]
    return query


def is_deterministic(spark: SparkSession, text: str, schema: pa.Schema) -> bool:
    """Whether Spark computes the same of the same row, each time."""
    rows = spark.createDataFrame([], from_arrow_schema(schema, prefer_timestamp_ntz=True))
    computed: Any = rows.selectExpr(f"{text} AS v")
    return bool(computed._jdf.queryExecution().analyzed().deterministic())


def spark_type(spark: SparkSession, text: str, schema: pa.Schema) -> pa.DataType | None:
    """The type that Spark gives an expression over these columns; None: Spark refuses it."""
    try:
        rows = spark.createDataFrame([], from_arrow_schema(schema, prefer_timestamp_ntz=True))
        return to_arrow_schema(rows.selectExpr(f"{text} AS v").schema, timezone="UTC").field("v").type
    except PySparkException:
        return None
