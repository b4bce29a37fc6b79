"""The steps around an operator: bare columns are passed on, DuckDB computes the rest."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from trimtab.errors import InputError
from trimtab.rowwise.local import Finish, IntakeStep

TABLE = pa.table({"a b": ["x", "y", "z"], "n": [1, None, 3], "slot0": [0.5, 1.5, 2.5]})


def test_bare_columns_are_the_same_buffers() -> None:
    out = IntakeStep(columns=(("k", "`a b`"), ("n", "n"))).run(TABLE)
    assert out.column_names == ["k", "n", "__arrival"]
    assert out["n"].chunk(0).buffers()[1].address == TABLE["n"].chunk(0).buffers()[1].address


def test_the_intake_computes_filters_and_numbers_the_rows_of_the_original() -> None:
    intake = IntakeStep(columns=(("k", "`a b`"), ("m", "n * 2")), where="slot0 > 1")
    assert intake.run(TABLE).to_pylist() == [{"k": "y", "m": None, "__arrival": 1}, {"k": "z", "m": 6, "__arrival": 2}]


def test_a_condition_stays_nullable() -> None:
    assert IntakeStep(columns=(("c", "n > 1"),)).run(TABLE)["c"].to_pylist() == [False, None, True]


def test_columns_have_the_types_that_the_query_expects() -> None:
    out = IntakeStep(columns=(("h", "n * 2"),), types=(pa.float64(),)).run(TABLE)
    assert out.schema.field("h").type == pa.float64()


def test_no_rows_give_the_same_schema() -> None:
    finish = Finish(columns=(("twice", "slot0 * 2"), ("one", "1"), ("n", "n")), where="n > 0")
    assert finish.run(TABLE.slice(0, 0)).schema == finish.run(TABLE).schema
    assert finish.run(TABLE).num_rows == 2


def test_constants_alone_come_once_per_row() -> None:
    assert Finish(columns=(("one", "1"),)).run(TABLE)["one"].to_pylist() == [1, 1, 1]


def test_columns_whose_names_differ_in_case_alone_are_different() -> None:
    table = pa.table({"a": [1], "A": [2]})
    assert Finish(columns=(("x", "a + 0"), ("y", "A + 0"))).run(table).to_pylist() == [{"x": 1, "y": 2}]


def test_a_value_that_cannot_be_computed_is_an_input_error() -> None:
    with pytest.raises(InputError) as caught:
        Finish(columns=(("x", "`a b` = 1"),)).run(TABLE)
    assert caught.value.code == "input.value"


def test_a_missing_column_is_an_input_error() -> None:
    with pytest.raises(InputError) as caught:
        IntakeStep(columns=(("x", "x"),)).run(TABLE)
    assert caught.value.code == "input.column"


def test_a_query_of_bare_columns_never_loads_duckdb() -> None:
    program = """
import sys, pyarrow as pa
from trimtab.language.compile import compile_query
ticks = pa.table({"k": ["a"], "ts": [1], "price": [1.5]})
query = compile_query('''
    SELECT k, top, bottom FROM ticks MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts
      MEASURES S.price AS top, LAST(D.price) AS bottom, CLASSIFIER() = 'D' AS down
      PATTERN (S D+ U)
      DEFINE D AS price < PREV(price), U AS U.price > LAST(D.price) AND CLASSIFIER() LIKE 'U%'
    )''', {"ticks": ticks.schema})
query.intake.run(ticks)
assert "duckdb" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
