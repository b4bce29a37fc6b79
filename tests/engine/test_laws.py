"""The laws of the columnar matcher: it agrees with the reference, and how its input is cut or delayed never shows."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, reject
from hypothesis import strategies as st

from trimtab import evaluate
from trimtab.engine import kernels
from trimtab.engine.columnar import Matcher
from trimtab.engine.grouping import in_order
from trimtab.engine.operator import ARRIVAL, Moment, State
from trimtab.engine.query import MatchQuery
from trimtab.engine.reference import match_rows
from trimtab.errors import MatchError, QueryError
from trimtab.language.compile import compile_query
from trimtab.language.running import scalar
from trimtab.testing.queries import SCHEMA, Case, cases

PATIENCE = 20_000  # ways the reference may try from one row; it takes exponential time in the worst case


def plain(value: object) -> object:
    """A value that compares: NaN is itself, and a float is as good as its first ten digits."""
    if isinstance(value, float):
        return f"{value:.10g}" if value else "0"
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def bag(table: pa.Table) -> list[str]:
    """The rows in an order of their own, without their numbers."""
    names = [name for name in table.column_names if name != ARRIVAL]
    return sorted(repr([plain(row[name]) for name in names]) for row in table.to_pylist())


def answer(run: Callable[[], pa.Table]) -> list[str] | str:
    """The bag of rows, or that the standard wants an error; where keys have different ones either may come first."""
    try:
        return bag(run())
    except MatchError:
        return "an error"
    except QueryError as error:
        if error.code != "query.unsupported":
            raise
        reject()  # the columnar matcher refuses what it can't know in time


def matched(matcher: Matcher, rows: pa.Table, cuts: Sequence[int] = ()) -> pa.Table:
    """The matcher's whole output over the rows, cut into batches."""
    state: State = {}
    outputs: list[pa.Table] = []
    edges = [0, *cuts, rows.num_rows]
    for start, end in itertools.pairwise(edges):
        closing = len(outputs) == len(cuts)
        output, state = matcher.advance(rows.slice(start, end - start), state, Moment(None, closing))
        outputs.append(output)
    return pa.concat_tables(outputs)


def compiled(case: Case) -> tuple[MatchQuery, pa.Table]:
    """The engine's query and its input, in the order that the query wants: a cut is fair then."""
    note(case.sql)
    note(f"{case.table.to_pylist()} cut at {case.cuts}")
    query = compile_query(case.sql, {"t": SCHEMA})
    assert isinstance(query.operator, MatchQuery)
    rows = query.intake.run(case.table)
    order = in_order([rows.column(key.column) for key in query.operator.order], query.operator.order)
    if order is not None:
        rows = rows.take(pa.array(order)).drop([ARRIVAL])
        rows = rows.append_column(ARRIVAL, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    return query.operator, rows


@given(cases())
def test_the_matcher_agrees_with_the_reference_however_its_input_is_cut(case: Case) -> None:
    query, rows = compiled(case)
    try:
        expected = answer(lambda: match_rows(query, rows, scalar=scalar, patience=PATIENCE))
    except TimeoutError:
        reject()
    matcher = Matcher(query, scalar=scalar)
    assert answer(lambda: matched(matcher, rows)) == expected
    assert answer(lambda: matched(matcher, rows, case.cuts)) == expected


@given(cases())
def test_one_row_per_batch_changes_nothing(case: Case) -> None:
    query, rows = compiled(case)
    matcher = Matcher(query, scalar=scalar)
    every_row = range(1, rows.num_rows)
    assert answer(lambda: matched(matcher, rows, every_row)) == answer(lambda: matched(matcher, rows))


@given(cases())
def test_the_deterministic_kernel_agrees_with_the_general_one(case: Case) -> None:
    query, rows = compiled(case)
    fast = Matcher(query, scalar=scalar)
    general = Matcher(query, scalar=scalar, deterministic=False)
    expected = answer(lambda: matched(general, rows))
    assert answer(lambda: matched(fast, rows)) == expected
    assert answer(lambda: matched(fast, rows, case.cuts)) == expected
    assert answer(lambda: matched(general, rows, case.cuts)) == expected


@given(cases(), st.integers(0, 8), st.data())
def test_rows_out_of_order_within_the_delay_are_as_good_as_sorted(
    case: Case, delay_s: int, data: st.DataObject
) -> None:
    count = case.table.num_rows
    moments = case.table["ts"].to_pylist()
    waits = data.draw(st.lists(st.integers(0, delay_s), min_size=count, max_size=count))
    # A row that comes at most `delay_s` after its time is never overtaken by one more than that ahead of it.
    arrives = [moment + datetime.timedelta(seconds=wait) for moment, wait in zip(moments, waits, strict=True)]
    arriving = case.table.take(pa.array(sorted(range(count), key=arrives.__getitem__), pa.int64()))
    times = arriving["ts"].to_pylist()
    in_time = arriving.take(pa.array(sorted(range(count), key=times.__getitem__), pa.int64()))
    note(case.sql)
    note(f"{arriving.to_pylist()} cut at {case.cuts}, {delay_s} s late")
    expected = answer(lambda: evaluate(case.sql, {"t": in_time}))
    options: dict[str, Any] = {"event_time": "ts", "delay": f"{delay_s} seconds"}
    assert answer(lambda: evaluate(case.sql, {"t": arriving}, **options, cuts=case.cuts)) == expected
    assert answer(lambda: evaluate(case.sql, {"t": arriving}, **options)) == expected


MACHINE = pa.table(
    {
        "k": pa.array([n % 3 for n in range(60)], pa.int64()),
        "ts": pa.array([datetime.datetime(2026, 3, 1) + datetime.timedelta(seconds=n // 2) for n in range(60)]),
        "x": pa.array([None if n % 17 == 5 else n * 7 % 11 for n in range(60)], pa.int64()),
        "y": pa.array([float("nan") if n % 23 == 4 else n * 5 % 13 / 2 for n in range(60)], pa.float64()),
        "s": pa.array([None if n % 19 == 3 else "abcd"[n * 3 % 4] for n in range(60)], pa.string()),
    }
)
FIXED_QUERIES = {
    "a run with aggregates": """
        PARTITION BY k ORDER BY ts MEASURES FIRST(A.x) AS a, sum(B.x) AS b, count(*) AS n, avg(y) AS v
        PATTERN (A B+ C) DEFINE B AS B.x >= PREV(B.x), C AS C.x < PREV(C.x)""",
    "all rows, reluctant, overlapping": """
        ORDER BY ts MEASURES CLASSIFIER() AS c, RUNNING sum(x) AS total, MATCH_NUMBER() AS m ALL ROWS PER MATCH
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*? (C | D))
        DEFINE B AS x > 2, C AS s = 'c', D AS D.y > avg(A.y) + 3""",
    "an alternation without memory": """
        PARTITION BY k ORDER BY ts MEASURES last(x) AS x, count(B.*) AS b
        PATTERN ((A | B)+ C) DEFINE A AS x > 4, B AS x > 1, C AS s <> 'a'""",
    "a bound in time": """
        PARTITION BY k ORDER BY ts MEASURES min(y) AS low, max(s) AS s, last(ts) AS ts
        PATTERN (A B* TIMEOUT) WITHIN INTERVAL '4' SECOND DEFINE A AS x > 5, B AS x < 5""",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", FIXED_QUERIES.values(), ids=FIXED_QUERIES.keys())
def test_machine_code_answers_as_the_interpreter_does(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({body})"
    cuts = [7, 7, 20, 41]
    expected = bag(evaluate(sql, {"t": MACHINE}))
    assert expected
    monkeypatch.setattr(kernels, "COMPILE_FROM_ROWS", 0)
    monkeypatch.setattr(kernels, "_COMPILED", {})
    assert bag(evaluate(sql, {"t": MACHINE})) == expected
    assert bag(evaluate(sql, {"t": MACHINE}, cuts=cuts)) == expected
