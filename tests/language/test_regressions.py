"""Queries that once gave another answer than Spark, or raised an exception that isn't ours."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import trimtab
from trimtab.errors import QueryError
from trimtab.language.compile import compile_query
from trimtab.language.readable import readable

STAMP = datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)
ROW = pa.table(
    {
        "s": ["a_b"],
        "i": [0],
        "tiny": pa.array([127], pa.int8()),
        "f": pa.array([0.1], pa.float32()),
        "none": pa.array([None], pa.float64()),
        "ts": pa.array([STAMP], pa.timestamp("us")),
        "d": [datetime.date(2026, 1, 31)],
    }
)


def value(expression: str) -> Any:
    return trimtab.evaluate(f"SELECT {expression} AS r FROM t", {"t": ROW}).column("r")[0].as_py()


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (r"s LIKE 'a\_b'", True),
        (r"'axb' LIKE 'a\_b' AND s = 'a_b'", False),
        (r"s NOT LIKE 'a\_%'", False),
        ("s LIKE 'a!_b' ESCAPE '!'", True),
        ("substring(s, 0, 2)", "a_"),
        ("substring(s, i, 2)", "a_"),
        ("substring(s, -2, 2)", "_b"),
        ("cast('1.9' AS INT)", 1),
        ("cast(concat('-1', '.9') AS BIGINT)", -1),
        ("cast('1e3' AS INT)", None),
        ("cast(ts AS BIGINT)", -1),
        ("cast(greatest(2.5, i) AS INT)", 2),
        ("cast((i + 1) * 1.9 AS INT)", 1),
        ("cast(cast(-1 AS BIGINT) AS TIMESTAMP)", datetime.datetime(1969, 12, 31, 23, 59, 59)),
        ("isnan(none)", False),
        ("log10(i - 1)", None),
        ("log2(i)", None),
        ("log(2, i + 8)", 3.0),
        ("format_string('%d/%s', i, s)", "0/a_b"),
        ("unix_timestamp('1970-01-01 00:00:10')", 10),
    ],
)
def test_an_expression_means_what_it_means_in_spark(expression: str, answer: object) -> None:
    assert value(expression) == answer


def test_a_date_and_whole_days_or_months_are_a_date() -> None:
    assert value("d + INTERVAL 1 DAY") == datetime.date(2026, 2, 1)
    assert value("d + INTERVAL '1' MONTH") == value("add_months(d, 1)") == datetime.date(2026, 2, 28)
    assert value("d + INTERVAL 3 HOURS") == datetime.datetime(2026, 1, 31, 3)


def test_a_float_beside_a_decimal_is_a_double() -> None:
    assert value("f = 0.1") is False
    assert value("f * 0.5") == 0.10000000149011612 / 2


def test_a_literal_beside_a_tinyint_is_an_int() -> None:
    assert value("tiny * 100") == 12_700
    assert value("1 + tiny") == 128


@pytest.mark.parametrize("expression", ["hash(i)", "typeof(i)"])
def test_functions_that_give_something_else_here_are_refused(expression: str) -> None:
    with pytest.raises(trimtab.TrimtabError, match=r"query\.function"):
        value(expression)


@pytest.mark.parametrize("name", ["key", "number", "pending", "begun", "tail", "front", "deadline_us", "KEY"])
def test_columns_may_have_the_names_that_the_state_uses(name: str) -> None:
    table = pa.table({"ts": [1, 2, 3, 4], name: [7, 7, 8, 8], "x": [1, 2, 3, 4]})
    sql = f"""SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY `{name}` ORDER BY ts MEASURES MATCH_NUMBER() AS n, B.`{name}` + A.x AS s
        PATTERN (A B) DEFINE B AS B.`{name}` = A.`{name}` AND B.x > PREV(B.x))"""
    assert [tuple(row.values()) for row in trimtab.evaluate(sql, {"t": table}, cuts=[1, 3]).to_pylist()] == [
        (7, 1, 8),
        (8, 1, 11),
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", None], pa.string_view()),
        pa.array([b"a", b"b", None], pa.binary_view()),
        pa.array([Decimal("1.5"), Decimal("2.5"), None], pa.decimal32(5, 1)),
        pa.array([Decimal("1.5"), Decimal("2.5"), None], pa.decimal64(12, 1)),
        pa.array([Decimal(100), Decimal(200), None], pa.decimal128(5, -2)),
        pa.array([1, 2, None]).dictionary_encode(),
        pa.array([1, 2, None], pa.duration("ns")),
        pa.array([1, 2, None], pa.time32("s")),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), pa.array([1, 2, None])),
        pa.nulls(3),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize(
    "clauses",
    [
        "PARTITION BY x ORDER BY ts ALL ROWS PER MATCH PATTERN (A+)",
        "ORDER BY x DESC NULLS LAST MEASURES COUNT(*) AS n, LAST(x) AS l ALL ROWS PER MATCH PATTERN (A+)",
        "ORDER BY ts MEASURES FIRST(x) AS f, COUNT(DISTINCT x) AS n PATTERN (A B*) DEFINE B AS B.x IS NOT NULL",
    ],
)
def test_columns_of_any_layout_can_be_carried_keyed_and_sorted(column: pa.Array, clauses: str) -> None:
    table = pa.table({"ts": [1, 2, 3], "x": column})
    found = trimtab.evaluate(f"SELECT * FROM t MATCH_RECOGNIZE ({clauses})", {"t": table})
    assert found.num_rows > 0
    if "ALL ROWS" in clauses:
        assert sorted(map(repr, found.column("x").to_pylist())) == sorted(
            map(repr, readable(table).column("x").to_pylist())
        )


def test_a_plain_table_is_left_alone() -> None:
    assert readable(ROW) is ROW


@pytest.mark.parametrize("clause", ["PARTITION BY x ORDER BY ts", "ORDER BY x", "ORDER BY x DESC"])
def test_lists_cant_be_keys_and_have_no_order(clause: str) -> None:
    table = pa.table({"ts": [1, 2], "x": [[1], [2]]})
    with pytest.raises(trimtab.TrimtabError, match=r"input\.type"):
        trimtab.evaluate(
            f"SELECT * FROM t MATCH_RECOGNIZE ({clause} MEASURES COUNT(*) AS n PATTERN (A+))", {"t": table}
        )


def test_the_largest_of_structs_is_refused() -> None:
    table = pa.table({"ts": [1, 2], "x": [{"a": 1}, {"a": 2}]})
    with pytest.raises(trimtab.TrimtabError, match=r"query\.type"):
        trimtab.evaluate(
            "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES MAX(x) AS m PATTERN (A+))", {"t": table}
        )


@pytest.mark.slow
def test_an_offset_that_would_need_thousands_of_registers_is_refused() -> None:
    def run(offset: int) -> Any:
        sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(x, {offset}) AS l PATTERN (A+))"
        return trimtab.evaluate(sql, {"t": pa.table({"ts": range(1200), "x": range(1200)})}).to_pylist()

    assert run(1000) == [{"l": 199}]
    with pytest.raises(trimtab.TrimtabError, match=r"query\.too-large"):
        run(1001)


def test_windows_that_overlap_a_million_times_are_refused() -> None:
    sql = "SELECT COUNT(*) AS n FROM t GROUP BY window(ts, '1 day', '1 microsecond')"
    with pytest.raises(trimtab.TrimtabError, match=r"query\.window-size"):
        trimtab.evaluate(sql, {"t": ROW})


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"cuts": 5}, r"input\.cuts"),
        ({"delay": 5}, r"input\.delay"),
        ({"delay": 0, "event_time": "ts"}, r"input\.delay"),
    ],
)
def test_options_of_the_wrong_type_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(trimtab.TrimtabError, match=code):
        trimtab.evaluate("SELECT s FROM t", {"t": ROW}, **options)


def test_a_query_that_isnt_text_and_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(trimtab.TrimtabError, match=r"input\.value"):
        trimtab.evaluate(None, {"t": ROW})  # type: ignore[arg-type]
    with pytest.raises(trimtab.TrimtabError, match=r"input\.table"):
        trimtab.evaluate("SELECT a FROM t", {"t": {"a": [1, 2], "b": [1]}})


PATTERN_ON_A_CALL = (
    "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x MEASURES A.x AS a PATTERN (A B) DEFINE B AS {} IS NULL)"
)


CHANGING = (
    *(
        "rand()",
        "random()",
        "randn()",
        "uniform(1, 2)",
        "randstr(3)",
        "shuffle(array(1))",
        "uuid()",
        "today()",
        "now()",
    ),
    *(
        "current_timestamp",
        "current_timestamp()",
        "current_date()",
        "curdate()",
        "localtimestamp()",
        "unix_timestamp()",
    ),
    *("current_user()", "user()", "current_database()", "current_catalog()", "current_timezone()", "version()"),
    *("input_file_name()", "TIMESTAMP'now'", "CAST(' Today ' AS DATE)", "monotonically_increasing_id()"),
)


@pytest.mark.parametrize("call", CHANGING)
@pytest.mark.parametrize("sql", ["SELECT x FROM t WHERE {} IS NULL", PATTERN_ON_A_CALL])
def test_functions_that_change_from_call_to_call_are_refused(call: str, sql: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(sql.format(call), {"t": pa.schema([("x", pa.int64())])})
    assert caught.value.code == "query.changing"


def test_a_pattern_that_is_not_closed_is_pointed_at() -> None:
    sql = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY x PATTERN (A B DEFINE B AS B.x > 1)"
    with pytest.raises(QueryError, match="parenthesis of PATTERN is not closed") as caught:
        compile_query(sql, {"t": pa.schema([("x", pa.int64())])})
    assert (caught.value.start, caught.value.hint) == (sql.index("(A"), "close it before DEFINE")
