"""Queries with functions that only a Spark session has; the session is a stand-in that has one of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from trimtab.errors import QueryError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query
from trimtab.spark import spark_functions

TABLES = {"t": pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "x": pa.int64()})}
MATCH = """SELECT k, {} AS y FROM t MATCH_RECOGNIZE (
    PARTITION BY k ORDER BY ts MEASURES A.x AS a PATTERN (A) DEFINE A AS {} > LAST(A.x, 1))"""


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are compiled; the session has the function `riskiness`, which returns a double, and no other."""
    compiled: list[str] = []

    def spark_type(_: Any, text: str, __: pa.Schema) -> pa.DataType | None:
        return pa.float64() if "riskiness" in text.lower() else None

    def compiling(sql: str, *args: Any, **options: Any) -> Query:
        compiled.append(sql)
        return compile_query(sql, *args, **options)

    monkeypatch.setattr(spark_functions, "spark_type", spark_type)
    monkeypatch.setattr(spark_functions, "is_deterministic", lambda _, text, __: "riskiest" not in text.lower())
    monkeypatch.setattr(spark_functions, "compile_query", compiling)
    return compiled


def compile_for(sql: str) -> Query:
    session: Any = None  # the stand-in doesn't use it
    return spark_functions.compile_for(session, sql, TABLES, "ts")


def mistake(sql: str) -> str:
    with pytest.raises(QueryError) as raised:
        compile_for(sql)
    return str(raised.value)


def without_spark(sql: str) -> str:
    with pytest.raises(QueryError) as raised:
        compile_query(sql, TABLES, event_time="ts")
    return str(raised.value)


@pytest.mark.parametrize("sql", ["SELECT riskiness(x) AS y FROM t", MATCH.format("a", "riskiness(A.x)")])
def test_what_looks_at_one_row_may_use_a_function_of_the_session(sql: str, compilations: list[str]) -> None:
    query = compile_for(sql)
    assert (pa.float64(), "riskiness(x)") in [
        (type_, text.lower()) for (_, text), type_ in zip(query.intake.columns, query.intake.types, strict=True)
    ]
    assert compilations == [sql]


def test_a_function_that_is_not_deterministic_is_refused(compilations: list[str]) -> None:
    with pytest.raises(QueryError, match=r"Spark says that RISKIEST_RISKINESS\(x\) isn't deterministic") as raised:
        compile_for("SELECT riskiest_riskiness(x) AS y FROM t")
    assert (raised.value.code, compilations) == ("query.changing", ["SELECT riskiest_riskiness(x) AS y FROM t"])


def test_after_the_operator_only_functions_of_duckdb_work(compilations: list[str]) -> None:
    sql = MATCH.format("riskiness(a)", "A.x")
    assert mistake(sql) == without_spark(sql)
    assert "there is no function riskiness" in mistake(sql).lower()
    assert compilations == [sql, sql]


@pytest.mark.parametrize("sql", ["SELECT nowhere(x) AS y FROM t", "SELECT z FROM t", "SELECT riskiness(x) AS y FROM u"])
def test_what_the_session_does_not_have_either_is_the_same_mistake(sql: str, compilations: list[str]) -> None:
    assert mistake(sql) == without_spark(sql)
    assert compilations == [sql]


@pytest.mark.parametrize(
    "call", ["reflect('a.B', 'c', x)", "CAST(`Java_Method`('a.B', 'c') AS STRING)", "try_reflect('a')"]
)
def test_a_query_cannot_call_methods_of_java(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query of a batch that was begun comes from the checkpoint, which may be somebody else's."""
    monkeypatch.setattr(spark_functions, "spark_type", lambda *_: pa.string())
    monkeypatch.setattr(spark_functions, "is_deterministic", lambda *_: True)
    for sql in (f"SELECT {call} AS y FROM t", f"SELECT x FROM t WHERE {call} = 'q'"):
        assert "error[query.function]: there is no function" in mistake(sql)
    assert compile_for("SELECT own('reflect') AS y FROM t").intake.columns
