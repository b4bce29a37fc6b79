"""Machine code can be compiled or loaded before the first batch."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from trimtab.engine.made_up import made_up
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.run.matcher import Matcher
from trimtab.engine.operator import Moment
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("x", pa.float64()), ("n", pa.int32())])
FALLS = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(D.x) AS x, sum(D.n) AS n
    PATTERN (S D+ U) DEFINE D AS D.x < PREV(D.x), U AS U.k <> 'b' AND U.x > PREV(U.x))"""
TYPES = [
    pa.bool_(), pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(9, 2), pa.string(), pa.large_string(), pa.binary(),
    pa.date32(), pa.date64(), pa.timestamp("ns", "UTC"), pa.duration("us"), pa.time32("s"),
    pa.dictionary(pa.int8(), pa.string()),
]  # fmt: skip


def ticks(xs: list[float]) -> pa.Table:
    times = [dt.datetime(2026, 1, 1) + dt.timedelta(seconds=n) for n in range(len(xs))]
    return pa.table([["a"] * len(xs), times, xs, [1] * len(xs)], schema=SCHEMA)


@pytest.mark.slow
def test_even_a_few_rows_are_matched_by_machine_code_once_the_query_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_COMPILED", {})
    query = compile_query(FALLS, {"t": SCHEMA}, event_time="ts")
    rows = query.intake.run(ticks([5.0, 4.0, 3.0, 6.0, 2.0]))
    cold, _ = operator_of(query).advance(rows, {}, Moment(closing=True))
    assert kernels._COMPILED == {}
    matcher = operator_of(query)
    assert isinstance(matcher, Matcher)
    assert matcher.warm(rows.schema)
    (kernel,) = kernels._COMPILED.values()
    signatures = list(kernel.machine.signatures)
    assert len(signatures) == 1
    monkeypatch.setattr(kernels, "interpret", lambda source: pytest.fail(f"interpreted: {source[:50]}"))
    assert matcher.advance(rows, {}, Moment(closing=True))[0] == cold
    _, state = matcher.advance(rows, {}, Moment(watermark_us=1_767_225_602_000_000))
    output, _ = matcher.advance(rows.slice(0, 0), state, Moment(watermark_us=1_767_225_700_000_000))
    assert output == cold
    assert list(kernel.machine.signatures) == signatures  # nothing was compiled again


def test_warming_reports_a_query_that_is_always_interpreted() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS x
        PATTERN (A B) DEFINE B AS concat(A.k, B.k) = 'ab')"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    matcher = operator_of(query)
    assert isinstance(matcher, Matcher)
    assert not matcher.warm(query.intake.run(ticks([])).schema)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, sum(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM t",
        "SELECT k, max(n) AS s, collect_list(x) AS c FROM t GROUP BY k, window(ts, '1 second')",
        "SELECT k, avg(n) AS s FROM t GROUP BY k, session_window(ts, '1 second')",
    ],
)
def test_warming_a_window_does_not_change_its_answer(sql: str) -> None:
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    rows = query.intake.run(ticks([1.0, 2.0]))
    before, _ = operator_of(query).advance(rows, {}, Moment(closing=True))
    operator = operator_of(query)
    operator.warm(rows.schema)
    assert operator.advance(rows, {}, Moment(closing=True))[0] == before


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_made_up_rows_have_no_nulls(kind: pa.DataType) -> None:
    column = made_up(pa.schema([("x", kind)]))["x"]
    assert column.type == kind
    assert column.null_count == 0
    assert len(column) > 1


def test_made_up_rows_of_nested_types_are_null() -> None:
    assert made_up(pa.schema([("x", pa.list_(pa.int64()))]))["x"].null_count == 4
