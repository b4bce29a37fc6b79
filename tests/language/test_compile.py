"""What queries compile to, in a short notation: `[price]@A` is price at the last row of A.

One file, though it is long: most of it are tables of clauses, in this notation.
"""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.match.ir.expression import Aggregate, Call, Const, Expr, MatchNumber, Opaque, Place, RowValue, Side
from trimtab.engine.match.ir.query import MatchQuery, Rows, SkipPastLast, SkipTo, SkipToNext
from trimtab.engine.selection import Selection
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query

TICKS = pa.schema(
    [
        ("symbol", pa.string()),
        ("ts", pa.timestamp("us")),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("day", pa.date32()),
        ("fee", pa.decimal128(10, 2)),
        ("open", pa.bool_()),
        ("millis", pa.timestamp("ms")),
    ]
)


def compiled(sql: str, *, fold_labels: bool = True) -> Query:
    return compile_query(sql, {"ticks": TICKS}, fold_labels=fold_labels)


def matched(clauses: str, select: str = "*") -> Query:
    return compiled(f"SELECT {select} FROM ticks MATCH_RECOGNIZE ({clauses})")


def operator(query: Query) -> MatchQuery:
    assert isinstance(query.operator, MatchQuery)
    return query.operator


def show_place(place: Place, labels: tuple[str, ...]) -> str:
    names = "" if place.labels is None else "|".join(labels[i] for i in sorted(place.labels))
    if place.side is Side.FIRST or place.offset:
        text = f"{place.side.name.lower()}({names},{place.offset})"
    else:
        text = names or "here"
    shift = f"{place.shift:+d}" if place.shift else ""
    return ("final " if place.final else "") + text + shift


def show(expr: Expr | None, query: Query) -> str:
    """The expression as text; a column of the intake by what it computes."""
    labels, texts = operator(query).labels, dict(query.intake.columns)
    match expr:
        case None:
            return "always"
        case Const(value):
            return repr(value)
        case RowValue(place, sources, default):
            shown = [texts[s] if isinstance(s, str) else repr(s.value) for s in sources]
            otherwise = "" if default.value is None else f" else {default.value!r}"
            return f"[{' / '.join(shown)}]@{show_place(place, labels)}{otherwise}"
        case MatchNumber():
            return "number"
        case Aggregate(function, over, args, _, final):
            names = "" if over is None else ":" + "|".join(labels[i] for i in sorted(over))
            inside = ", ".join(show(arg, query) for arg in args)
            return f"{'final ' if final else ''}{function}{names}({inside})"
        case Call(function, args):
            return f"({function} {' '.join(show(arg, query) for arg in args)})"
        case Opaque(sql, args):
            return f"<{sql}>({', '.join(show(arg, query) for arg in args)})"


def condition(text: str) -> str:
    clauses = f"ORDER BY ts PATTERN (A B C) SUBSET U = (A, B) DEFINE C AS {text}"
    query = matched(clauses)
    return show(operator(query).conditions[2], query)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # A condition on the current row alone is one column.
        ("price > 3 AND C.quantity < 2", "[price > 3 AND quantity < 2]@here"),
        ("C.price * 2 > quantity", "[price * 2 > quantity]@here"),
        ("price IS NULL", "[price IS NULL]@here"),
        ("ticks.price > 3", "[price > 3]@here"),
        ("PRICE > 3", "[price > 3]@here"),
        # Pieces that look at one row are hoisted, what mixes rows is calls.
        ("A.price * 0.9 < C.price", "(< [price * 0.9]@A [price]@here)"),
        ("A.price + A.quantity > price", "(> [price + quantity]@A [price]@here)"),
        (
            "price > A.price AND quantity > 3 AND open",
            "(and (> [price]@here [price]@A) [(quantity > 3) AND (open)]@here)",
        ),
        ("A.price IS NULL OR price > 1", "(or (is_null [price]@A) [price > 1]@here)"),
        ("A.price IS NOT NULL", "(not (is_null [price]@A))"),
        ("price BETWEEN A.price AND 9", "(and (>= [price]@here [price]@A) [price <= 9]@here)"),
        ("price IN (A.price, 3)", "(in [price]@here [price]@A 3.0)"),
        ("CASE WHEN A.open THEN price ELSE 0 END > 1", "(> (case [open]@A [price]@here 0.0) 1.0)"),
        ("CASE A.price WHEN price THEN true END", "(case (= [price]@A [price]@here) True None)"),
        ("IF(A.open, price, 1) > 1", "(> (case [open]@A [price]@here 1.0) 1.0)"),
        ("nvl(A.price, price) > 1", "(> (coalesce [price]@A [price]@here) 1.0)"),
        ("nullif(A.price, price) > 1", "(> (nullif [price]@A [price]@here) 1.0)"),
        ("A.price <=> price", "(<=> [price]@A [price]@here)"),
        ("A.price IS DISTINCT FROM price", "(not (<=> [price]@A [price]@here))"),
        ("A.open IS TRUE AND open", "(and [open IS TRUE]@A else False [open]@here)"),
        ("abs(A.price - price) > 1", "(> (abs (- [price]@A [price]@here)) 1.0)"),
        ("quantity DIV A.quantity = 2", "(= (div [quantity]@here [quantity]@A) 2)"),
        ("mod(quantity, A.quantity) = 2", "(= (% [quantity]@here [quantity]@A) 2)"),
        ("-(A.price + price) > 1", "(> (neg (+ [price]@A [price]@here)) 1.0)"),
        ("greatest(A.price, price) > 1", "(> (greatest [price]@A [price]@here) 1.0)"),
        ("CAST(A.quantity - quantity AS DOUBLE) > 1", "(> (to_float (- [quantity]@A [quantity]@here)) 1.0)"),
        ("CAST(A.price - price AS INT) > 1", "(> (to_int32 (- [price]@A [price]@here)) 1)"),
        # Places.
        ("price < PREV(price)", "(< [price]@here [price]@here-1)"),
        ("C.price < PREV(C.price, 2)", "(< [price]@here [price]@here-2)"),
        ("price < NEXT(price)", "(< [price]@here [price]@here+1)"),
        ("price > LAST(C.price, 1)", "(> [price]@here [price]@last(C,1))"),
        ("price > FIRST(price)", "(> [price]@here [price]@first(,0))"),
        ("FIRST(U.price, 1) < price", "(< [price]@first(A|B,1) [price]@here)"),
        ("PREV(LAST(A.price, 1), 2) < price", "(< [price]@last(A,1)-2 [price]@here)"),
        ("NEXT(FIRST(A.price + 1)) < price", "(< [price + 1]@first(A,0)+1 [price]@here)"),
        ("PREV(price, 0) = 1", "[price = 1]@here"),
        ("LAST(price) = RUNNING LAST(C.price)", "[price = price]@here"),
        # Where there is no row, columns are null, and so is what navigation gives.
        ("COALESCE(A.price, 0) = 0", "[COALESCE(price, 0) = 0]@A else True"),
        ("COALESCE(FIRST(COALESCE(A.price, 0)), 9) = 9", "[COALESCE(COALESCE(price, 0), 9) = 9]@first(A,0) else True"),
        # Labels.
        ("CLASSIFIER() = 'C'", "always"),
        ("CLASSIFIER() = 'A'", "False"),
        ("PREV(CLASSIFIER()) = 'A'", "[True / False / False / None]@here-1"),
        ("CLASSIFIER(U) IN ('A', 'X')", "[True / False / None / None]@A|B"),
        (
            "LAST(CLASSIFIER(), 1) = LAST(symbol, 1)",
            "['A' = symbol / 'B' = symbol / 'C' = symbol / CAST(NULL AS STRING) = symbol]@last(,1)",
        ),
        # Aggregates.
        ("AVG(A.price) < 15", "(< avg:A([price]@here) 15.0)"),
        ("sum(price * quantity) > 9", "(> sum([price * quantity]@here) 9.0)"),
        ("count(*) > 2 AND count(A.*) = count()", "(and (> count() 2) (= count:A() count()))"),
        ("count(0) + count(price) > 1", "(> (+ count() count([price]@here)) 1)"),
        ("count(DISTINCT symbol) > 1", "(> count_distinct([symbol]@here) 1)"),
        ("max(CLASSIFIER()) = 'B'", "(= max(['A' / 'B' / 'C' / None]@here) 'B')"),
        ("sum(quantity + MATCH_NUMBER()) > 1", "(> sum((+ [quantity]@here number)) 1)"),
        ("any(U.open)", "bool_or:A|B([open]@here)"),
        ("sum(price) FILTER (WHERE quantity > 1) > 1", "(> sum([IF(quantity > 1, price)]@here) 1.0)"),
        # Time.
        ("C.ts - A.ts < INTERVAL '1' HOUR", "(< (- [ts]@here [ts]@A) datetime.timedelta(seconds=3600))"),
        ("ts < A.ts + INTERVAL 5 MINUTES", "(< [ts]@here [ts + INTERVAL '5' MINUTES]@A)"),
        ("timestampdiff(MINUTE, A.ts, ts) < 5", "(< (div (- [ts]@here [ts]@A) datetime.timedelta(seconds=60)) 5)"),
        ("datediff(day, A.day) > 1", "(> (- [TO_DATE(day)]@here [TO_DATE(day)]@A) 1)"),
        ("day > A.ts", "(> [CAST((day) AS TIMESTAMP_NTZ)]@here [ts]@A)"),
        ("millis > A.ts", "(> [CAST((millis) AS TIMESTAMP_NTZ)]@here [ts]@A)"),
        # What the engine has no function for.
        ("symbol LIKE A.symbol", "<($1 LIKE $2 ESCAPE '\\')>([symbol]@here, [symbol]@A)"),
        ("array_agg(symbol) = array('a')", "<$1 = ['a']>(array_agg([symbol]@here))"),
        ("upper(concat(A.symbol, symbol)) = 'X'", "(= <SPARK_UPPER($1 || $2)>([symbol]@A, [symbol]@here) 'X')"),
        # Constants.
        ("true", "always"),
        ("1 = 1", "always"),
        ("NULL", "False"),
        ("CAST(NULL AS BOOLEAN)", "False"),
    ],
)
def test_a_condition_is_split_into_columns_and_calls(text: str, shown: str) -> None:
    assert condition(text) == shown


@pytest.mark.parametrize(
    ("text", "finish", "slots"),
    [
        ("A.price", "slot0", ["[price]@A"]),
        ("LAST(A.price) - FIRST(A.price)", "slot0 - slot1", ["[price]@A", "[price]@first(A,0)"]),
        ("(LAST(B.price) - A.price) / A.price", "(slot0 - slot1) / slot1", ["[price]@B", "[price]@A"]),
        ("A.price + A.quantity", "slot0", ["[price + quantity]@A"]),
        ("RUNNING SUM(price) + FINAL SUM(price)", "slot0 + slot1", ["sum([price]@here)", "final sum([price]@here)"]),
        ("PREV(RUNNING LAST(price))", "slot0", ["[price]@here-1"]),
        ("PREV(FINAL LAST(A.price))", "slot0", ["[price]@final A-1"]),
        (
            "CASE WHEN FINAL COUNT(*) > 1 THEN price END",
            "CASE WHEN slot0 > 1 THEN slot1 END",
            ["final count()", "[price]@here"],
        ),
        ("CLASSIFIER()", "slot0", ["['A' / 'B' / None]@here"]),
        ("lower(CLASSIFIER(A)) || '!'", "slot0", ["['a!' / None / None]@A"]),
        (
            "array_agg(symbol || CLASSIFIER())",
            "slot0",
            ["array_agg([symbol || 'A' / symbol || 'B' / symbol || CAST(NULL AS STRING)]@here)"],
        ),
        ("ARRAY[A.price, B.price]", "ARRAY(slot0, slot1)", ["[price]@A", "[price]@B"]),
        ("max_by(symbol, price)", "slot0", ["max_by([symbol]@here, [price]@here)"]),
        ("MATCH_NUMBER() * 2", "slot0 * 2", ["number"]),
        ("LAST(price + MATCH_NUMBER())", "slot0 + slot1", ["[price]@here", "number"]),
    ],
)
def test_a_measure_is_slots_and_an_expression_over_them(text: str, finish: str, slots: list[str]) -> None:
    query = matched(f"ORDER BY ts MEASURES {text} AS m ALL ROWS PER MATCH PATTERN (A B)", "m")
    assert query.finish.columns == (("m", finish),)
    assert [show(slot, query) for slot in operator(query).slots] == slots


def test_on_one_row_per_match_running_and_final_are_the_same_slot() -> None:
    query = matched("ORDER BY ts MEASURES FINAL LAST(price) - LAST(price) AS zero PATTERN (A)")
    assert [show(slot, query) for slot in operator(query).slots] == ["[price - price]@here"]


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("count(*)", pa.int64()),
        ("sum(quantity)", pa.int64()),
        ("sum(price)", pa.float64()),
        ("sum(fee)", pa.decimal128(20, 2)),
        ("avg(quantity)", pa.float64()),
        ("avg(fee)", pa.decimal128(14, 6)),
        ("min(day)", pa.date32()),
        ("stddev(quantity)", pa.float64()),
        ("bool_and(open)", pa.bool_()),
        ("array_agg(symbol)", pa.list_(pa.string())),
        ("max_by(symbol, price)", pa.string()),
        ("LAST(ts) - FIRST(ts)", pa.duration("us")),
        ("LAST(price) > 3", pa.bool_()),
        ("quantity / 2", pa.float64()),
        ("CLASSIFIER()", pa.string()),
        ("MATCH_NUMBER()", pa.int64()),
    ],
)
def test_a_measure_has_the_type_that_spark_gives_it(expression: str, type_: pa.DataType) -> None:
    query = matched(f"ORDER BY ts MEASURES {expression} AS m PATTERN (A)")
    assert query.finish.types == (type_,)


def test_one_row_gives_partition_columns_and_measures() -> None:
    query = matched("PARTITION BY symbol, day ORDER BY ts MEASURES price AS p PATTERN (A)")
    assert [name for name, _ in query.finish.columns] == ["symbol", "day", "p"]
    assert operator(query).partition == operator(query).keep == ("symbol", "day")


def test_all_rows_give_partition_order_measures_and_the_rest() -> None:
    query = matched("PARTITION BY day ORDER BY ts MEASURES price AS p ALL ROWS PER MATCH PATTERN (A)")
    names = [name for name, _ in query.finish.columns]
    assert names == ["day", "ts", "p", "symbol", "price", "quantity", "fee", "open", "millis"]


def test_columns_that_arent_used_are_neither_read_nor_kept() -> None:
    query = matched("ORDER BY ts ALL ROWS PER MATCH PATTERN (A) DEFINE A AS price > 1", "symbol AS s")
    assert operator(query).keep == ("symbol",)
    assert dict(query.intake.columns) == {"ts": "ts", "__c1": "price > 1", "symbol": "symbol"}
    assert query.finish.columns == (("s", "symbol"),)


def test_constants_alone_come_once_per_row() -> None:
    query = matched("ORDER BY ts MEASURES 'x' AS x PATTERN (A)", "x, 1 AS one")
    assert operator(query).slots == (MatchNumber(),)
    assert query.finish.columns == (("x", "'x'"), ("one", "1"))


def test_rows_of_no_match_have_no_measures_not_even_constants() -> None:
    rows = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"
    query = matched(f"ORDER BY ts MEASURES 1 AS one, price AS p {rows} PATTERN (A)", "one, p")
    assert query.finish.columns == (("one", "CASE WHEN NOT slot1 IS NULL THEN 1 END"), ("p", "slot0"))


def test_the_outer_select_is_merged_into_one_finish() -> None:
    query = compiled(
        "SELECT m.p * 2 AS twice, P FROM ticks MATCH_RECOGNIZE (ORDER BY ts MEASURES "
        "LAST(price) - FIRST(price) AS p PATTERN (A+)) AS m WHERE p > 3"
    )
    assert query.finish.columns == (("twice", "(slot0 - slot1) * 2"), ("p", "slot0 - slot1"))
    assert query.finish.where == "(slot0 - slot1) > 3"


def test_a_repeated_name_gets_a_number() -> None:
    query = compiled("SELECT price, price, quantity AS price FROM ticks")
    assert [name for name, _ in query.finish.columns] == ["price", "price_1", "price_2"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c FROM (SELECT ts, price + 1 AS c FROM ticks WHERE quantity > 0) AS q "
        "MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(c) AS c PATTERN (A) DEFINE A AS q.c > 3)",
        "WITH q AS (SELECT ts, price + 1 AS c FROM ticks WHERE quantity > 0) SELECT c FROM q "
        "MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(c) AS c PATTERN (A) DEFINE A AS c > 3)",
        "WITH p AS (SELECT * FROM ticks WHERE quantity > 0), q AS (SELECT ts, price + 1 AS c FROM "
        "p) SELECT c FROM (SELECT * FROM q MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(c) AS c "
        "PATTERN (A) DEFINE A AS A.c > 3))",
    ],
)
def test_row_wise_sub_selects_are_merged_into_the_intake(sql: str) -> None:
    query = compiled(sql)
    assert query.source == "ticks"
    assert dict(query.intake.columns) == {"ts": "ts", "__c1": "(price + 1) > 3", "c": "price + 1"}
    assert query.intake.where == "quantity > 0"
    assert query.finish.columns == (("c", "slot0"),)


def test_a_plain_select_has_no_operator_across_rows() -> None:
    query = compiled("SELECT symbol, price * quantity AS value FROM ticks WHERE open")
    assert query.operator == Selection()
    assert query.intake.columns == (("symbol", "symbol"), ("__c1", "price * quantity"))
    assert query.intake.where == "open"
    assert query.finish.columns == (("symbol", "symbol"), ("value", "__c1"))


def test_a_star_may_leave_columns_out() -> None:
    query = compiled("SELECT * EXCEPT (ts, DAY, fee, open, millis) FROM ticks")
    assert [name for name, _ in query.finish.columns] == ["symbol", "price", "quantity"]


def test_columns_with_names_that_the_engine_uses_are_renamed_inside() -> None:
    schema = pa.schema([("slot0", pa.int64()), ("__arrival", pa.int64())])
    query = compile_query(
        "SELECT slot0, m FROM t MATCH_RECOGNIZE (PARTITION BY slot0 ORDER BY __arrival "
        "MEASURES COUNT(*) AS m PATTERN (A))",
        {"t": schema},
    )
    assert operator(query).partition == ("__c1",)
    assert query.finish.columns == (("slot0", "__c1"), ("m", "slot0"))
    assert dict(query.intake.columns) == {"__c0": "__arrival", "__c1": "slot0"}


@pytest.mark.parametrize(
    ("clause", "skip"),
    [
        ("", SkipPastLast()),
        ("AFTER MATCH SKIP PAST LAST ROW", SkipPastLast()),
        ("AFTER MATCH SKIP TO NEXT ROW", SkipToNext()),
        ("AFTER MATCH SKIP TO FIRST B", SkipTo(Side.FIRST, frozenset({1}), "B")),
        ("AFTER MATCH SKIP TO LAST b", SkipTo(Side.LAST, frozenset({1}), "b")),
        ("AFTER MATCH SKIP TO U", SkipTo(Side.LAST, frozenset({0, 1}), "U")),
        ("AFTER MATCH SKIP TO LAST", SkipTo(Side.LAST, frozenset({2}), "LAST")),
        ("AFTER MATCH SKIP TO FIRST LAST", SkipTo(Side.FIRST, frozenset({2}), "LAST")),
    ],
)
def test_every_skip_is_understood(clause: str, skip: object) -> None:
    query = matched(f"ORDER BY ts {clause} PATTERN (A B LAST) SUBSET U = (A, B)", "1 AS one")
    assert operator(query).skip == skip


@pytest.mark.parametrize(
    ("clause", "rows"),
    [
        ("", Rows.ONE),
        ("ONE ROW PER MATCH", Rows.ONE),
        ("ALL ROWS PER MATCH", Rows.ALL_SHOW_EMPTY),
        ("ALL ROWS PER MATCH SHOW EMPTY MATCHES", Rows.ALL_SHOW_EMPTY),
        ("ALL ROWS PER MATCH OMIT EMPTY MATCHES", Rows.ALL_OMIT_EMPTY),
        ("ALL ROWS PER MATCH WITH UNMATCHED ROWS", Rows.ALL_WITH_UNMATCHED),
    ],
)
def test_every_kind_of_rows_per_match_is_understood(clause: str, rows: Rows) -> None:
    assert operator(matched(f"ORDER BY ts {clause} PATTERN (A)", "1 AS one")).rows is rows


@pytest.mark.parametrize(
    ("within", "us"),
    [
        ("INTERVAL '1' HOUR", 3_600_000_000),
        ("INTERVAL 1 HOUR", 3_600_000_000),
        ("INTERVAL '1 hour'", 3_600_000_000),
        ("30 SECONDS", 30_000_000),
        ("1.5 SECONDS", 1_500_000),
        ("INTERVAL '90' MINUTES", 5_400_000_000),
        ("INTERVAL '1 02' DAY TO HOUR", 93_600_000_000),
        ("INTERVAL '01:30' MINUTE TO SECOND", 90_000_000),
        ("2 WEEKS", 1_209_600_000_000),
    ],
)
def test_within_takes_any_fixed_length(within: str, us: int) -> None:
    for clauses in (f"WITHIN {within} SUBSET U = (A)", f"SUBSET U = (A) WITHIN {within}"):
        query = matched(f"ORDER BY ts PATTERN (A) {clauses} DEFINE A AS true", "1 AS one")
        assert operator(query).within_us == us
        assert operator(query).time_column == "ts"


def test_the_order_has_sparks_defaults_for_nulls() -> None:
    query = matched("ORDER BY ts, price DESC, quantity NULLS LAST, day DESC NULLS FIRST PATTERN (A)", "1 AS x")
    assert operator(query).order == (
        OrderKey("ts", descending=False, nulls_first=True),
        OrderKey("price", descending=True, nulls_first=False),
        OrderKey("quantity", descending=False, nulls_first=False),
        OrderKey("day", descending=True, nulls_first=True),
    )


def test_labels_are_shown_folded_or_as_written() -> None:
    sql = "SELECT 1 AS one FROM ticks MATCH_RECOGNIZE (ORDER BY ts PATTERN (up `down` UP))"
    assert operator(compiled(sql)).labels == ("UP", "down")
    assert operator(compiled(sql, fold_labels=False)).labels == ("up", "down")


def test_words_of_the_clause_are_still_names() -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("match", "value", "first", "end_", "up", "final")])
    query = compile_query(
        "SELECT match, first, end_ FROM pattern MATCH_RECOGNIZE (ORDER BY value MEASURES "
        "LAST(up.match) AS match, FIRST(first) AS first, final + up AS end_ PATTERN (up LAST))",
        {"pattern": schema},
    )
    assert [show(slot, query) for slot in operator(query).slots] == [
        "[match]@UP",
        "[`first`]@first(,0)",
        "[final + up]@here",
    ]


def test_a_compiled_query_pickles() -> None:
    query = matched("PARTITION BY symbol ORDER BY ts MEASURES LAST(price) AS p PATTERN (A B+)")
    assert pickle.loads(pickle.dumps(query)) == query
