"""The plan of tier 1: what queries over one stream share."""

from __future__ import annotations

import pyarrow as pa

from trimtab.language.compile import compile_query
from trimtab.worker.intake import Intake, Route, intake_of

SCHEMA = pa.schema({"k": pa.int64(), "site": pa.string(), "ts": pa.timestamp("us"), "x": pa.int64()})


def plan(**queries: str) -> Intake:
    compiled = {name: compile_query(sql, {"t": SCHEMA}, event_time="ts") for name, sql in queries.items()}
    return intake_of(compiled, SCHEMA, "ts")


def counts(keys: str, more: str = "") -> str:
    return f"SELECT {keys}, COUNT(*) AS n{more} FROM t GROUP BY {keys}, window(ts, '1 minute')"


def test_queries_with_the_same_key_share_a_route() -> None:
    found = plan(a=counts("k"), b=counts("k", ", MAX(x) AS x"))
    assert len(found.routes) == 1
    assert [reading.route for reading in found.readings] == [0, 0]


def test_queries_with_other_keys_have_routes_of_their_own() -> None:
    found = plan(a=counts("k"), b=counts("site"), c=counts("k, site"), d=counts("site, k"))
    sources = {column.name: column.source for column in found.columns}
    assert [[sources[key] for key in route.keys] for route in found.routes] == [
        ["k"],
        ["site"],
        ["k", "site"],
        ["site", "k"],
    ]


def test_a_query_without_keys_has_one_key_and_a_row_wise_one_none() -> None:
    found = plan(a="SELECT COUNT(*) AS n FROM t GROUP BY window(ts, '1 minute')", b="SELECT x FROM t")
    assert found.routes == (Route((), is_keyed=True), Route((), is_keyed=False))


def test_a_column_is_sent_once_however_many_queries_read_it() -> None:
    found = plan(a=counts("k", ", SUM(x) AS x"), b=counts("K", ", MAX(X) AS x"))
    sources = [column.source for column in found.columns]
    assert sorted(map(str, sources)) == ["k", "ts", "x"]


def test_an_expression_is_computed_once_however_many_queries_need_it() -> None:
    found = plan(a=counts("k", ", SUM(x * 2 + 1) AS a"), b=counts("k", ", MAX(x * 2 + 1) AS b"))
    computed = [column.name for column in found.columns if column.source is None]
    assert len(computed) == 1
    assert all(reading.computed == tuple(computed) for reading in found.readings)


def test_rows_may_only_be_left_out_if_every_query_has_a_filter() -> None:
    filtered = "SELECT x FROM t WHERE x > 1"
    assert plan(a=filtered).is_filtered
    assert plan(a=filtered, b="SELECT k FROM t WHERE k = 2").is_filtered
    assert not plan(a=filtered, b="SELECT k FROM t").is_filtered


def test_a_query_of_bare_columns_cannot_fail() -> None:
    (bare,) = plan(a="SELECT k, x FROM t").readings
    (computed,) = plan(a="SELECT k, x + 1 AS y FROM t").readings
    (filtered,) = plan(a="SELECT k FROM t WHERE x > 1").readings
    assert bare.failed is None
    assert computed.failed is not None
    assert filtered.wanted in filtered.computed


def test_queries_that_read_the_same_columns_break_ties_alike() -> None:
    found = plan(a=counts("k", ", SUM(x) AS x"), b=counts("k", ", MIN(x) AS x"), c=counts("k"))
    first, second, third = (reading.arrival for reading in found.readings)
    assert first == second != third


def test_queries_that_compare_the_same_columns_with_different_numbers_break_ties_alike() -> None:
    def low(limit: int) -> str:
        return (
            "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.ts AS began PATTERN (A B) "
            f"DEFINE A AS A.x < {limit}, B AS B.x > {limit})"
        )

    found = plan(a=low(1), b=low(2), c=low(3).replace("A.x < 3", "hex(A.x) < '3'"))
    first, second, third = found.readings
    assert first.arrival == second.arrival != third.arrival
    by_name = {column.name: column.source or column.text for column in found.columns}
    assert [by_name[name] for name in first.ties] == ["k", "ts", "x"]
    assert [by_name[name] for name in third.ties if by_name[name] not in ("k", "ts", "x")] == ["HEX(x) < '3'"]


def test_the_time_is_always_sent() -> None:
    found = plan(a="SELECT x FROM t")
    assert next(column.source for column in found.columns if column.name == found.time) == "ts"
