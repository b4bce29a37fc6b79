"""Windows in SQL: the same answers as DuckDB over the whole table, and errors that say where and why."""

import datetime as dt
import math
import pickle
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from trimtab.api.evaluate import evaluate
from trimtab.errors import InputError, QueryError
from trimtab.language.compile import compile_query

START = dt.datetime(2024, 5, 1)
OVER = "PARTITION BY key ORDER BY ts"


def trades(count: int = 400, seed: int = 1) -> pa.Table:
    """Rows in order of time, with ties, nulls and a few keys."""
    chance = random.Random(seed)
    seconds = sorted(chance.randrange(0, 1_000) for _ in range(count))
    return pa.table(
        {
            "key": [chance.choice(["a", "b", "c", None]) for _ in range(count)],
            "ts": pa.array([START + dt.timedelta(seconds=s) for s in seconds], pa.timestamp("us")),
            "price": [chance.choice([None, chance.uniform(-100, 100)]) for _ in range(count)],
            "size": pa.array([chance.randrange(-50, 50) for _ in range(count)], pa.int32()),
            "side": [chance.choice(["buy", "sell"]) for _ in range(count)],
            "open": [chance.choice([True, False, None]) for _ in range(count)],
            "id": range(count),
        }
    )


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    return bool(a == b)


def assert_same(left: pa.Table, right: pa.Table) -> None:
    assert left.column_names == right.column_names
    ours, theirs = (sorted(table.to_pylist(), key=repr_key) for table in (left, right))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert all(close(x, y) for x, y in zip(a.values(), b.values(), strict=True)), (a, b)


def repr_key(row: dict[str, Any]) -> str:
    """Floats may differ in the last place, so rows are sorted by the rest."""
    return repr([value for value in row.values() if not isinstance(value, float)])


def on_duckdb(sql: str, table: pa.Table) -> pa.Table:
    connection = duckdb.connect()
    connection.register("t", table)
    return connection.sql(sql).to_arrow_table()


@pytest.mark.parametrize(
    "expressions",
    [
        f"avg(price) OVER ({OVER}, id ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS a",
        f"sum(size) OVER ({OVER} RANGE BETWEEN INTERVAL 30 SECONDS PRECEDING AND CURRENT ROW) AS a, "
        f"max(price) OVER ({OVER} RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW) AS b",
        f"sum(price) OVER ({OVER}) AS a, count(price) OVER ({OVER}) AS b, count(*) OVER ({OVER}) AS c",
        f"price - lag(price, 2) OVER ({OVER}, id) AS a, row_number() OVER ({OVER}, id) AS b",
        f"rank() OVER ({OVER}) AS a, dense_rank() OVER ({OVER}) AS b",
        f"first_value(price) OVER ({OVER}, id ROWS 3 PRECEDING) AS a, "
        f"last_value(side) OVER ({OVER}, id ROWS 3 PRECEDING) AS b",
        f"stddev(price) OVER ({OVER}) AS a, var_pop(size) OVER ({OVER} ROWS CURRENT ROW) AS b",
        f"min(side) OVER ({OVER}) AS a, bool_and(open) OVER ({OVER}) AS b, bool_or(open) OVER ({OVER}) AS c",
        f"sum(size) FILTER (WHERE side = 'buy') OVER ({OVER}) AS a, count(*) FILTER (WHERE open) OVER ({OVER}) AS b",
        "sum(size) OVER w AS a, lag(size, 1, 0) OVER w AS b",
        "avg(size) OVER (ORDER BY id RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) AS a",
        "sum(size * 2 + 1) OVER (PARTITION BY upper(key), side ORDER BY id) AS a",
    ],
)
def test_over_gives_the_same_as_duckdb(expressions: str) -> None:
    table = trades()
    named = f" WINDOW w AS ({OVER}, id)" if "OVER w" in expressions else ""
    sql = f"SELECT id, key, size * 2 AS twice, {expressions} FROM t WHERE size > -40{named}"
    expected = on_duckdb(sql, table)
    assert_same(evaluate(sql, {"t": table}), expected)
    if "ORDER BY id" in expressions:
        return
    assert_same(evaluate(sql, {"t": table}, cuts=[1, 50, 51, 300]), expected)
    late = table.take(pa.array(sorted(range(400), key=lambda n: n + (n * 7919) % 20)))
    assert_same(evaluate(sql, {"t": late}, cuts=[40, 41, 200], event_time="ts", delay="10 minutes"), expected)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("window(ts, '1 minute')", "time_bucket(INTERVAL '1 minute', ts, TIMESTAMP '1970-01-01')"),
        (
            "window(ts, INTERVAL '90' SECOND, INTERVAL '90' SECOND, '10 seconds')",
            "time_bucket(INTERVAL '90 seconds', ts, TIMESTAMP '1970-01-01 00:00:10')",
        ),
    ],
)
def test_groups_give_the_same_as_duckdb(ours: str, theirs: str) -> None:
    calls = (
        "count(*) AS n, sum(size) AS s, avg(price) AS m, min(side) AS lo, max(price) AS hi, "
        "stddev(price) AS sd, variance(size) AS v, count(DISTINCT size) AS d, bool_or(open) AS o, "
        "max_by(id, price) AS best, sum(size) FILTER (WHERE open) AS so, sum(size) + count(*) AS both"
    )
    table = trades()
    sql = f"SELECT key, window.start AS start, {calls} FROM t GROUP BY key, {ours} HAVING count(*) > 1 AND s > -1000"
    other = f"SELECT key, {theirs} AS start, {calls} FROM t GROUP BY ALL HAVING count(*) > 1 AND s > -1000"
    expected = on_duckdb(other, table)
    assert_same(evaluate(sql, {"t": table}), expected)
    late = table.take(pa.array(sorted(range(400), key=lambda n: n + (n * 7919) % 20)))
    for cuts in ([], [1, 50, 51, 300]):
        got = evaluate(sql, {"t": late}, cuts=cuts, event_time="ts", delay="10 minutes")
        assert_same(got, expected)


def test_the_window_is_a_struct_with_a_name() -> None:
    table = trades(1)
    (row,) = evaluate(
        "SELECT window, window(ts, '1 hour') AS w, window.end, w.start AS s, count(*) FROM t "
        "GROUP BY window(ts, '1 hour')",
        {"t": table},
    ).to_pylist()
    span = {"start": START, "end": START + dt.timedelta(hours=1)}
    assert row == {"window": span, "w": span, "end": span["end"], "s": START, "COUNT(*)": 1}


def test_sessions_end_a_gap_after_their_last_row() -> None:
    seconds = [0, 10, 19, 40]
    table = pa.table({"ts": pa.array([START + dt.timedelta(seconds=s) for s in seconds])})
    rows = evaluate(
        "SELECT session_window.start, session_window.end, count(*) AS n FROM t "
        "GROUP BY session_window(ts, INTERVAL '10' SECOND)",
        {"t": table},
    ).to_pylist()
    found = [((r["start"] - START).seconds, (r["end"] - START).seconds, r["n"]) for r in rows]
    assert found == [(0, 29, 3), (40, 50, 1)]  # a pause of exactly the gap does not end a session


def test_groups_may_be_named_by_alias_and_place() -> None:
    table = trades(50)
    calls = "count(*) AS n FROM t GROUP BY"
    plain = evaluate(
        f"SELECT upper(key) AS k, window(ts, '1 hour') AS w, {calls} upper(key), window(ts, '1 hour')", {"t": table}
    )
    for groups in ("k, w", "1, 2", "upper(T.KEY), WINDOW(TS, '1 hour')"):
        assert evaluate(f"SELECT upper(key) AS k, window(ts, '1 hour') AS w, {calls} {groups}", {"t": table}) == plain


def test_sketches_lists_and_tops() -> None:
    table = trades(200)
    (row,) = evaluate(
        "SELECT percentile_approx(size, 0.5) AS p, approx_percentile(size, array(0.0, 1.0), 1000) AS ends, "
        "approx_count_distinct(size) AS d, approx_count_distinct(size, 0.02) AS d2, top_k(side, 1) AS top, "
        "size(collect_list(price)) AS n, first(id) AS f, last(id) AS l, any_value(price) AS a "
        "FROM t GROUP BY window(ts, '1 hour')",
        {"t": table},
    ).to_pylist()
    sizes = sorted(table["size"].to_pylist())
    assert row["p"] == sizes[99]
    assert row["ends"] == [sizes[0], sizes[-1]]
    assert abs(row["d"] - len(set(sizes))) <= 3
    assert abs(row["d2"] - len(set(sizes))) <= 3
    assert row["top"][0]["count"] == max(map(table["side"].to_pylist().count, ("buy", "sell")))
    assert row["n"] == 200 - table["price"].null_count
    assert (row["f"], row["l"]) == (0, 199)
    assert row["a"] is not None


def test_count_if_of_no_rows_is_zero() -> None:
    table = pa.table({"ts": [1, 2], "x": pa.array([None, True])})
    rows = evaluate("SELECT count_if(x) OVER (ORDER BY ts) AS n FROM t", {"t": table}).to_pylist()
    assert rows == [{"n": 0}, {"n": 1}]


def test_ignore_nulls_and_qualify() -> None:
    table = pa.table({"ts": [1, 2, 3], "x": pa.array([None, 5, None], pa.int64())})
    sql = "SELECT ts, last_value(x) IGNORE NULLS OVER (ORDER BY ts) AS x FROM t QUALIFY x IS NOT NULL"
    out = evaluate(sql.replace("QUALIFY x", "QUALIFY last_value(x) IGNORE NULLS OVER (ORDER BY ts)"), {"t": table})
    assert out.to_pylist() == [{"ts": 2, "x": 5}, {"ts": 3, "x": 5}]
    newest = "SELECT ts, row_number() OVER (ORDER BY ts DESC) AS n FROM t QUALIFY n = 1"
    assert evaluate(newest, {"t": table}).to_pylist() == [{"ts": 3, "n": 1}]


def test_a_column_may_have_the_name_of_a_column_of_the_state() -> None:
    table = pa.table({"key": [1, 1], "deadline_us": [1, 1], "ts": [1, 2], "start": [1, 2], "__w0": [7, 8]})
    sql = "SELECT *, sum(key) OVER (PARTITION BY deadline_us ORDER BY ts) AS s FROM t"
    rows = evaluate(sql, {"t": table}, cuts=[1]).to_pylist()
    assert [(r["s"], r["__w0"], r["deadline_us"]) for r in rows] == [(1, 7, 1), (2, 8, 1)]


def test_a_sub_select_may_feed_a_window() -> None:
    table = trades(30)
    sql = (
        "WITH big AS (SELECT key, ts AS at, size * 10 AS size FROM t WHERE size > 0) "
        "SELECT b.key, sum(b.size) OVER (PARTITION BY b.key ORDER BY b.at ROWS 2 PRECEDING) AS s FROM big b"
    )
    rows = evaluate(sql, {"t": table}, event_time="ts").to_pylist()
    assert len(rows) == sum(size > 0 for size in table["size"].to_pylist())


def test_a_compiled_query_pickles() -> None:
    schema = trades(1).schema
    for sql in (
        "SELECT sum(price) OVER (ORDER BY ts) FROM t",
        "SELECT sum(price) FROM t GROUP BY window(ts, '1 minute')",
    ):
        query = compile_query(sql, {"t": schema})
        assert pickle.loads(pickle.dumps(query)) == query


MISTAKES = [
    ("sum(size) OVER (PARTITION BY key)", "query.window-order", "needs an order", "ORDER BY ts"),
    (
        "sum(size) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)",
        "query.window-frame",
        "haven't arrived",
        "",
    ),
    (
        "sum(size) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "query.window-frame",
        "haven't arrived",
        "",
    ),
    ("sum(size) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)", "query.window-frame", "ends at", ""),
    ("sum(size) OVER (ORDER BY ts RANGE 5 PRECEDING)", "query.window-frame", "length of time", "INTERVAL '5' SECOND"),
    ("sum(size) OVER (ORDER BY ts RANGE INTERVAL 1 MONTH PRECEDING)", "query.window-frame", "always the same", ""),
    ("sum(size) OVER (ORDER BY ts ROWS INTERVAL 5 SECONDS PRECEDING)", "query.window-frame", "whole", "write RANGE"),
    ("sum(size) OVER (ORDER BY ts ROWS 1.5 PRECEDING)", "query.window-frame", "whole numbers", ""),
    ("sum(size) OVER (ORDER BY ts, id RANGE INTERVAL 1 HOUR PRECEDING)", "query.window-frame", "single", ""),
    ("sum(size) OVER (ORDER BY side RANGE 1 PRECEDING)", "query.window-frame", "time or number", ""),
    ("sum(size) OVER (ORDER BY id RANGE INTERVAL 1 HOUR PRECEDING)", "query.window-frame", "needs a number", ""),
    ("sum(size) OVER (ORDER BY id DESC RANGE 1 PRECEDING)", "query.window-frame", "ascending", ""),
    ("sum(side) OVER (ORDER BY ts)", "query.type", "needs a number, not string", ""),
    ("bool_and(size) OVER (ORDER BY ts)", "query.type", "needs a boolean", ""),
    ("summ(size) OVER (ORDER BY ts)", "query.function", "no aggregate function summ", "did you mean sum?"),
    ("lead(size) OVER (ORDER BY ts)", "query.window-frame", "haven't arrived", "lag"),
    ("ntile(4) OVER (ORDER BY ts)", "query.window-function", "no end", ""),
    ("collect_list(size) OVER (ORDER BY ts)", "query.window-function", "can't be used with OVER", ""),
    ("count(DISTINCT size) OVER (ORDER BY ts)", "query.window-function", "can't be used with OVER", ""),
    ("sum(DISTINCT size) OVER (ORDER BY ts)", "query.function", "one argument", ""),
    ("lag(size, -1) OVER (ORDER BY ts)", "query.window-number", "whole number from 0", ""),
    ("lag(size, 1, side) OVER (ORDER BY ts)", "query.type", "the default is string", ""),
    ("lag(size) IGNORE NULLS OVER (ORDER BY ts)", "query.window-function", "doesn't go with", ""),
    ("first_value(size) FILTER (WHERE open) OVER (ORDER BY ts)", "query.window-function", "don't go together", ""),
    ("sum(size) OVER w", "query.window-name", "no window named w", ""),
    ("sum(size) OVER (ORDER BY ts), sum(size) OVER (PARTITION BY key ORDER BY ts)", "query.window-mixed", "same", ""),
    ("sum(size), sum(size) OVER (ORDER BY ts)", "query.window-mixed", "its own OVER", ""),
    ("sum(nope) OVER (ORDER BY ts)", "query.column", "no column named nope", ""),
    ("sum(sum(size)) OVER (ORDER BY ts)", "query.row-wise", "an aggregate", ""),
]
GROUP_MISTAKES = [
    ("key, sum(size)", "key", "query.window-missing", "needs a window", "window(ts"),
    ("id, sum(size)", "key, window(ts, '1 minute')", "query.not-grouped", "id is neither", "any_value(id)"),
    ("sum(size)", "window(ts, '0 minutes')", "query.window-size", "above zero", ""),
    ("sum(size)", "window(ts, '-5 minutes')", "query.window-size", "above zero", ""),
    ("sum(size)", "window(ts, '1 month')", "query.window-size", "always the same", ""),
    ("sum(size)", "window(ts, 'soon')", "query.window-size", "always the same", ""),
    ("sum(size)", "window(ts, 5)", "query.window-size", "always the same", ""),
    ("sum(size)", "window(ts, '1 minute', '2 minutes')", "query.window-size", "longer than the window", ""),
    ("sum(size)", "window(ts, '1 minute', '1 minute', '1 minute')", "query.window-size", "shorter than", ""),
    ("sum(size)", "window(ts)", "query.window-size", "takes a time", ""),
    ("sum(size)", "session_window(ts, '1 day', '1 day')", "query.window-size", "a gap", ""),
    ("sum(size)", "window(id, '1 minute')", "query.window-time", "timestamp or a date", ""),
    ("sum(size)", "window(ts, '1 minute'), session_window(ts, '1 day')", "query.window-mixed", "one window", ""),
    ("window(ts, '2 minutes')", "window(ts, '1 minute')", "query.window-mixed", "another window", ""),
    ("window.middle", "window(ts, '1 minute')", "query.column", "no middle", ""),
    ("*", "window(ts, '1 minute')", "query.not-grouped", "one by one", ""),
    ("median(size)", "window(ts, '1 minute')", "query.window-function", "median", "percentile_approx"),
    ("lag(size)", "window(ts, '1 minute')", "query.window-function", "with GROUP BY", ""),
    ("percentile_approx(size, 2)", "window(ts, '1 minute')", "query.window-number", "between 0 and 1", ""),
    ("percentile_approx(side, 0.5)", "window(ts, '1 minute')", "query.type", "number or a time", ""),
    ("top_k(side, 0)", "window(ts, '1 minute')", "query.window-number", "from 1 on", ""),
    ("count(DISTINCT key, size)", "window(ts, '1 minute')", "query.function", "one argument", ""),
    ("sum(size)", "window(ts, '1 minute') HAVING id > 2", "query.not-grouped", "id is neither", ""),
    ("sum(size)", "window(ts, '1 minute') HAVING sum(size)", "query.type", "needs a condition", ""),
    ("sum(size)", "window(ts, '1 minute') ORDER BY 1", "query.window-clause", "no end", ""),
    ("sum(size)", "window(ts, '1 minute') LIMIT 1", "query.window-clause", "no end", ""),
    ("sum(size)", "7, window(ts, '1 minute')", "query.window-group", "no column 7", ""),
    ("sum(size)", "key, window(ts, '1 minute') WITH ROLLUP", "query.window-group", "ROLLUP", ""),
    ("sum(size), rank() OVER (ORDER BY ts)", "window(ts, '1 minute')", "query.window-mixed", "OVER and GROUP BY", ""),
]


def assert_mistake(sql: str, code: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(sql, {"t": trades(1).schema})
    assert caught.value.code == code
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.stop > caught.value.start > 0


@pytest.mark.parametrize(("expression", "code", "message", "hint"), MISTAKES)
def test_mistakes_in_over(expression: str, code: str, message: str, hint: str) -> None:
    assert_mistake(f"SELECT {expression} FROM t", code, message, hint)


@pytest.mark.parametrize(("expression", "groups", "code", "message", "hint"), GROUP_MISTAKES)
def test_mistakes_in_group_by(expression: str, groups: str, code: str, message: str, hint: str) -> None:
    assert_mistake(f"SELECT {expression} FROM t GROUP BY {groups}", code, message, hint)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT sum(size) OVER (ORDER BY id) FROM t", "goes by its event time, ts"),
        ("SELECT sum(size) OVER (ORDER BY ts DESC) FROM t", "backwards"),
        ("SELECT count(*) FROM (SELECT date(ts) AS day FROM t) GROUP BY window(day, '1 day')", "event time, ts"),
    ],
)
def test_a_stream_goes_by_its_event_time(sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        compile_query(sql, {"t": trades(1).schema}, event_time="ts")
    assert caught.value.code == "query.window-time"


def test_rows_out_of_order_need_an_event_time() -> None:
    table = trades(10)
    backwards = table.take(pa.array(range(9, -1, -1)))
    sql = "SELECT sum(size) OVER (ORDER BY ts) FROM t"
    with pytest.raises(InputError, match=r"input.out-of-order"):
        evaluate(sql, {"t": backwards}, cuts=[5])
