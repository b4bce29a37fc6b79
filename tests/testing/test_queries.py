"""The same random queries as Hypothesis strategies."""

from __future__ import annotations

from hypothesis import given, settings

from tests.support.queries import SCHEMA, Case, cases, sql_texts, tables
from trimtab.language.compile import compile_query


@settings(max_examples=30, deadline=None)
@given(cases())
def test_a_case_has_a_query_a_table_and_cuts(case: Case) -> None:
    assert case.sql.startswith("SELECT * FROM t MATCH_RECOGNIZE (")
    assert case.table.schema == SCHEMA


@settings(max_examples=30, deadline=None)
@given(sql_texts())
def test_every_query_compiles(sql: str) -> None:
    compile_query(sql, {"t": SCHEMA})


@settings(max_examples=10, deadline=None)
@given(tables())
def test_a_table_may_be_drawn_alone(table: object) -> None:
    assert table is not None
