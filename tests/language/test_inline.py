"""Computed columns that conditions compute themselves: the same answers and the same state, from fewer columns."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.engine.match.compile.program import compile_pattern
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.ir.state_schema import ROWS
from trimtab.engine.match.kernels.kernel_writer import KernelWriter
from trimtab.engine.operator import Moment, Operator, State
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query, operator_of
from trimtab.language.inline import inlined

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "ts": pa.timestamp("us"),
        "x": pa.float64(),
        "y": pa.float64(),
        "f": pa.float32(),
        "n": pa.int64(),
    }
)
CONDITIONS = (
    "B.x > A.x + 1.5",
    "B.x > PREV(B.x - 1.5) AND B.x <> B.y",
    "B.x + 0.5 < A.x AND B.y > A.y",
    "2 - A.x < B.x",
    "B.x > FIRST(B.x + 1) OR B.x < (A.x - 0.25)",
    "B.x > A.x + 1.5 AND COUNT(B.*) < 3",
    "LAST(B.x + 1, 1) > B.x AND A.y - 1 > B.x AND B.y > A.y",
    "COALESCE(A.x - 1, B.x) < B.x",
)


def query_of(condition: str, measures: str = "A.x AS ax, LAST(B.x) AS bx") -> Query:
    sql = f"""SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES {measures}
        PATTERN (A B+ C?) DEFINE B AS {condition}, C AS C.x < A.x)"""
    return compile_query(sql, {"t": SCHEMA}, event_time="ts")


def run(query: Query, operator: Operator, rows: pa.Table, state: State, start: int) -> tuple[list[str], State]:
    """What comes out of a batch that begins at this row, and the state after it."""
    batch = query.intake.run(rows)
    number = batch.schema.get_field_index("__arrival")
    arrival = pa.array(batch.column("__arrival").to_numpy() + start)
    output, after = operator.advance(batch.set_column(number, "__arrival", arrival), state, Moment(start + len(rows)))
    return list(map(repr, output.to_pylist())), after


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_conditions_compute_sums_of_columns_that_they_read(condition: str) -> None:
    query = query_of(condition)
    found = inlined(query)
    left = {text for _, text in found.intake.columns}
    assert left == {text for _, text in query.intake.columns if not re.search("[-+]", text)}
    assert len(left) < len(query.intake.columns)
    assert len(found.intake.types) in (0, len(found.intake.columns))
    assert found.signature != query.signature, "the signature is that of the query as it was compiled"


@pytest.mark.parametrize(
    ("condition", "measures"),
    [
        ("B.x > A.y + 1.5", "A.x AS ax"),  # y isn't read otherwise
        ("B.x > A.x + 1.5", "A.x + 1.5 AS ax"),  # the measure reads the column
        ("B.x > A.x + 1.5 AND SUM(B.x + 1.5) < 9", "A.x AS ax"),  # and so does an aggregate
        ("B.x > A.x * 1.5", "A.x AS ax"),  # infinity times zero is NaN
        ("B.n > A.n + 1", "A.n AS an"),  # integers wrap around
        ("B.f > A.f + 1", "A.f AS af"),
        ("B.x > A.x + 1e300", "A.x AS ax"),
        ("B.x > A.x + 1.2345678901234567", "A.x AS ax"),
        ("B.x > A.x + B.y", "A.x AS ax"),
        ("B.x > ABS(A.x)", "A.x AS ax"),
    ],
)
def test_other_computed_columns_stay(condition: str, measures: str) -> None:
    query = query_of(condition, measures)
    assert inlined(query) is query


def test_other_operators_stay() -> None:
    query = compile_query("SELECT k, MAX(x + 1) AS m FROM t GROUP BY k, window(ts, '1 hour')", {"t": SCHEMA})
    assert inlined(query) is query


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_a_query_remembers_stays(condition: str) -> None:
    layouts = []
    for query in (query_of(condition), inlined(query_of(condition))):
        assert isinstance(query.operator, MatchQuery)
        program = compile_pattern(query.operator.pattern, query.operator.labels)
        layout = KernelWriter(query.operator, program, frozenset(), False, objects=False).layout
        layouts.append((layout.ints, layout.floats, layout.objects))
    assert layouts[0] == layouts[1]


@given(st.sampled_from(CONDITIONS), st.integers(0, 2**32 - 1), st.lists(st.integers(1, 39), max_size=3))
def test_it_gives_the_same_and_goes_on_from_the_state_of_the_query_as_it_was(
    condition: str, seed: int, cuts: list[int]
) -> None:
    random, count = np.random.default_rng(seed), 40
    values = np.array([-1.0, 0.0, -0.0, 0.5, 1.0, 1.5, 2.0, np.inf, np.nan, -np.inf])

    def column() -> pa.Array:
        return pa.array(
            values[random.integers(0, len(values) - 3 * (seed % 2), count)], mask=random.random(count) < 0.1
        )

    times = pa.array(np.arange(count), pa.timestamp("us"))
    numbers = pa.array(random.integers(0, 3, count))
    rows = pa.table([numbers, times, column(), column(), column().cast(pa.float32()), numbers], schema=SCHEMA)
    query = query_of(condition)
    other = inlined(query)
    edges = sorted({0, count, *cuts})
    expected, found = list[str](), list[str]()
    state: State = {}
    operator, theirs = operator_of(query), operator_of(other)
    for start, end in itertools.pairwise(edges):
        before = state
        lines, state = run(query, operator, rows.slice(start, end - start), before, start)
        expected += lines
        lines, after = run(other, theirs, rows.slice(start, end - start), before, start)
        found += lines
        if ROWS in state:
            assert set(after[ROWS].column_names) < set(state[ROWS].column_names)
    assert found == expected
