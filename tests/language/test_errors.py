"""Every mistake in a query is one error with a stable code, its place underlined, and a hint."""

from __future__ import annotations

import pickle
import random
import re

import pyarrow as pa
import pytest

from trimtab.errors import QueryError
from trimtab.language.compile import check_syntax, compile_query

TICKS = pa.schema(
    [
        ("symbol", pa.string()),
        ("ts", pa.timestamp("us")),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("venue", pa.string()),
    ]
)
MATCH = "SELECT * FROM ticks MATCH_RECOGNIZE ({})"


def define(condition: str) -> str:
    return MATCH.format(f"ORDER BY ts PATTERN (A B) SUBSET u = (A, B) DEFINE B AS {condition}")


def measure(measures: str) -> str:
    return MATCH.format(f"ORDER BY ts MEASURES {measures} PATTERN (A B)")


def clauses(text: str) -> str:
    return MATCH.format(text)


# The statement, the code of the error, the text that is underlined, a piece of the hint.
MISTAKES = [
    ("SELEC price FROM ticks", "query.syntax", "SELEC", "did you mean SELECT?"),
    ("SELECT price FROM ticks WHERE", "query.syntax", "WHERE", ""),
    ("SELECT 'price FROM ticks", "query.syntax", "'", "add the missing '"),
    ("SELECT price /* doubled FROM ticks", "query.syntax", "/*", "add the missing */"),
    ("SELECT price FROM ticks; SELECT 1 FROM ticks", "query.syntax", None, ""),
    ("", "query.syntax", "", "SELECT"),
    ("DROP TABLE ticks", "query.syntax", None, ""),
    (clauses("ORDER BY ts PATTERN (A (B"), "query.syntax", "(", ")"),
    (clauses("ORDER BY ts PATTERN (A |)"), "query.syntax", None, ""),
    (clauses("PATTERN (A) ORDER BY ts"), "query.syntax", "ORDER BY", "the order is PARTITION BY, ORDER BY"),
    (clauses("ORDER BY ts MEASURES price first PATTERN (A)"), "query.syntax", "first", "write AS first"),
    (clauses("PATTERN (A) DEFINE A price > 1"), "query.syntax", "price", "as in DEFINE A AS"),
    # Clauses that are misspelled, incomplete or at the wrong place.
    (clauses("ORDER BY ts MEASURE A.price AS p PATTERN (A)"), "query.syntax", "MEASURE", "did you mean MEASURES?"),
    (clauses("PARTITON BY symbol PATTERN (A)"), "query.syntax", "PARTITON", "did you mean PARTITION BY?"),
    (clauses("PARTITION symbol PATTERN (A)"), "query.syntax", "PARTITION", "did you mean PARTITION BY?"),
    (clauses("ODER BY ts PATTERN (A)"), "query.syntax", "ODER", "did you mean ORDER BY?"),
    (clauses("ORDER BY ts PATERN (A {- B -} C??)"), "query.syntax", "PATERN", "did you mean PATTERN?"),
    (
        measure("price AS p PATERN (A $$)").replace("PATTERN (A B)", ""),
        "query.syntax",
        "PATERN",
        "did you mean PATTERN?",
    ),
    (clauses("PATTERN (A) DEFINES A AS true"), "query.syntax", "DEFINES", "did you mean DEFINE?"),
    (clauses("PATTERN (A) WITHIN 1 HOUR DEFIN A AS true"), "query.syntax", "DEFIN", "did you mean DEFINE?"),
    (clauses("PATTERN (A) SUBSETS U = (A)"), "query.syntax", "SUBSETS", "did you mean SUBSET?"),
    (clauses("ALL ROW PER MATCH PATTERN (A)"), "query.syntax", "ALL", "did you mean ALL ROWS PER MATCH?"),
    (clauses("AFTER MATCH PAST LAST ROW PATTERN (A)"), "query.syntax", "AFTER", "did you mean AFTER MATCH SKIP?"),
    (clauses("AFTER MATCH SKIP LAST ROW PATTERN (A)"), "query.syntax", "LAST", "SKIP PAST LAST ROW"),
    ("SELECT * FROM ticks MATCH_RECOGNISE (PATTERN (A))", "query.syntax", "MATCH_RECOGNISE", "MATCH_RECOGNIZE?"),
    ("SELECT * FROM ticks MATCH RECOGNIZE (PATTERN (A))", "query.syntax", "MATCH RECOGNIZE", "MATCH_RECOGNIZE?"),
    ("SELECT * FROM ticks MATCH_RECOGNIZE (PATTERN (A)", "query.syntax", ")", "close the parenthesis"),
    (clauses("PATTERN A B"), "query.syntax", "A", "as in PATTERN (A B+)"),
    # Commas that are missing, or too many.
    (measure("A.price AS a B.price AS b"), "query.syntax", "B", "put a comma before B"),
    (measure("A.price AS a SUM(B.price) AS b"), "query.syntax", "SUM", "put a comma before SUM"),
    (measure("A.price B.price AS b"), "query.syntax", "B", "add AS and a name, and a comma"),
    (measure("A.price AS a,"), "query.syntax", "PATTERN", "leave the comma out"),
    (measure("A.price AS"), "query.syntax", "PATTERN", ""),
    (define("B.price > 1 A AS A.price > 2"), "query.syntax", "A", "put a comma before A"),
    (clauses("PATTERN (A B) SUBSET U = (A) V = (B)"), "query.syntax", "V", "put a comma before V"),
    (clauses("PATTERN (A B) SUBSET U = (A B)"), "query.syntax", "B", "comma"),
    (clauses("PATTERN (A B) SUBSET U = A"), "query.syntax", "A", "SUBSET U = (A, B)"),
    (clauses("PARTITION BY symbol venue PATTERN (A)"), "query.syntax", "venue", "put a comma before venue"),
    (clauses("ORDER BY ts price PATTERN (A)"), "query.syntax", "price", "put a comma before price"),
    (clauses("PATTERN (A, B)"), "query.syntax", ",", "A B is A and then B"),
    (clauses("PATTERN (A -> B)"), "query.syntax", "-", "A B is A and then B"),
    # WITHIN at other places than after PATTERN.
    (clauses("ORDER BY ts WITHIN 1 HOUR PATTERN (A)"), "query.syntax", "WITHIN", "right after PATTERN"),
    (clauses("MEASURES price AS p WITHIN 1 HOUR PATTERN (A)"), "query.syntax", "WITHIN", "right after PATTERN"),
    (clauses("PATTERN (A) DEFINE A AS true WITHIN 1 HOUR"), "query.syntax", "WITHIN", "right after PATTERN"),
    (clauses("PATTERN (A)") + " WITHIN INTERVAL '1' HOUR", "query.syntax", "WITHIN", "before the closing parenthesis"),
    # Windows of other systems.
    ("SELECT * FROM TUMBLE(TABLE ticks, DESCRIPTOR(ts), 1)", "query.table-function", "TUMBLE", "GROUP BY window(ts, '"),
    ("SELECT * FROM TABLE(HOP(TABLE ticks, DESCRIPTOR(ts), 1))", "query.syntax", "TABLE", "GROUP BY window(ts, '"),
    ("SELECT 1 FROM ticks GROUP BY TUMBLE(ts, 1)", "query.window-missing", "TUMBLE(ts, 1)", "GROUP BY window(ts, '"),
    ("SELECT 1 FROM ticks GROUP BY SESSION(ts, 1)", "query.window-missing", "SESSION(ts, 1)", "session_window(ts, '"),
    (
        "SELECT HOP_END(ts) FROM ticks GROUP BY window(ts, '1 hour')",
        "query.window-missing",
        "HOP_END(ts)",
        "window.end",
    ),
    (
        clauses("PARTITION BY venue, TUMBLE(ts, 1) PATTERN (A)"),
        "query.column",
        "TUMBLE(ts, 1)",
        "GROUP BY window(ts, '",
    ),
    ("SELECT TUMBLE_START(ts) FROM ticks", "query.function", "TUMBLE_START(ts)", "window.start"),
    # What is done before a query, and what after it.
    (
        "SELECT * FROM ticks JOIN u ON true MATCH_RECOGNIZE (PATTERN (A))",
        "query.row-wise",
        "u",
        "before, in the DataFrame",
    ),
    (clauses("PATTERN (A)") + " JOIN u ON true", "query.row-wise", "u", "do it on the result"),
    (
        "SELECT * FROM (SELECT * FROM ticks JOIN u ON true) MATCH_RECOGNIZE (PATTERN (A))",
        "query.row-wise",
        "u",
        "before, in the DataFrame",
    ),
    (
        "SELECT * FROM (SELECT * FROM ticks UNION ALL SELECT * FROM ticks) MATCH_RECOGNIZE (PATTERN (A))",
        "query.row-wise",
        None,
        "before, in the DataFrame",
    ),
    (
        f"{clauses('PATTERN (A)')} UNION ALL {clauses('PATTERN (A)')}",
        "query.row-wise",
        None,
        "make a query of each part",
    ),
    (
        "SELECT * FROM (SELECT * FROM ticks ORDER BY ts) MATCH_RECOGNIZE (PATTERN (A))",
        "query.row-wise",
        "ts",
        "a pattern has an ORDER BY of its own",
    ),
    ("SELECT * FROM (SELECT * FROM ticks LIMIT 3) MATCH_RECOGNIZE (PATTERN (A))", "query.row-wise", "3", "WHERE"),
    (
        "SELECT * FROM (SELECT symbol, max(price) AS p FROM ticks GROUP BY symbol, window(ts, '1 hour')) "
        "MATCH_RECOGNIZE (PATTERN (A))",
        "query.row-wise",
        "MATCH_RECOGNIZE",
        "before, in the DataFrame",
    ),
    (
        "WITH t AS (SELECT price, lag(price) OVER (PARTITION BY symbol ORDER BY ts) AS p FROM ticks) "
        "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))",
        "query.row-wise",
        "MATCH_RECOGNIZE",
        "before, in the DataFrame",
    ),
    (
        f"SELECT * FROM ({clauses('PATTERN (A)')}) MATCH_RECOGNIZE (PATTERN (A))",
        "query.row-wise",
        "MATCH_RECOGNIZE",
        "do it on the result",
    ),
    (f"SELECT * FROM ({clauses('PATTERN (A)')}) LIMIT 3", "query.row-wise", "3", "do it on the result"),
    ("SELECT prise FROM ticks", "query.column", "prise", "did you mean price?"),
    ("SELECT x.price FROM ticks AS t", "query.column", "x", ""),
    (define("B.prise > 1"), "query.column", "prise", "did you mean price?"),
    (clauses("PARTITION BY simbol PATTERN (A)"), "query.column", "simbol", "symbol"),
    (clauses("PARTITION BY upper(symbol) PATTERN (A)"), "query.column", "upper(symbol)", "sub-select"),
    (define("C.price > 1"), "query.variable", "C", "it has A, B, U"),
    (define("CLASSIFIER(C) = 'A'"), "query.variable", "C", ""),
    ("SELECT * FROM tick", "query.table", "tick", "did you mean ticks?"),
    ("SELECT 1", "query.table", None, "FROM ticks"),
    (define("lenght(symbol) > 1"), "query.function", "lenght(symbol)", "did you mean length?"),
    ("SELECT lowwer(symbol) FROM ticks", "query.function", "lowwer(symbol)", "lower"),
    (define("median(price) > 1"), "query.function", "median(price)", ""),
    (define("FIRST() > 1"), "query.function", "FIRST()", ""),
    (define("sum(DISTINCT price) > 1"), "query.function", "sum(DISTINCT price)", ""),
    (clauses("PATTERN (A) DEFINE C AS price > 1"), "query.define-unused", "C", ""),
    (clauses("PATTERN (A) DEFINE A AS true, a AS true"), "query.define-duplicate", "a", "AND"),
    (clauses("PATTERN (A) SUBSET U = (A, C)"), "query.subset-label", "C", ""),
    (clauses("PATTERN (A) SUBSET A = (A)"), "query.subset-duplicate", "A", ""),
    (clauses("PATTERN (A) SUBSET U = (A), u = (A)"), "query.subset-duplicate", "u", ""),
    (clauses("AFTER MATCH SKIP TO LAST C PATTERN (A)"), "query.skip-target", "C", "it has A"),
    (define("LAST(A.price + B.price) > 1"), "query.two-variables", "B.price", ""),
    (define("sum(A.price * quantity) > 1"), "query.two-variables", "quantity", ""),
    (define("sum(avg(price)) > 1"), "query.nested", "avg(price)", ""),
    (define("FIRST(LAST(price)) > 1"), "query.nested", "LAST(price)", "PREV(LAST"),
    (define("PREV(PREV(price)) > 1"), "query.nested", "PREV(price)", ""),
    (define("sum(PREV(price)) > 1"), "query.nested", "PREV(price)", ""),
    (measure("FINAL PREV(price) AS p"), "query.nested", "FINAL PREV(price)", ""),
    (clauses("ORDER BY ts PATTERN (A) WITHIN 30"), "query.within-unit", "30", "30 SECONDS"),
    (clauses("ORDER BY ts PATTERN (A) WITHIN INTERVAL '1' MONTH"), "query.within-unit", "INTERVAL '1' MONTH", ""),
    (clauses("ORDER BY price PATTERN (A) WITHIN 1 HOUR"), "query.within-time", "price", "timestamp"),
    (clauses("PATTERN (A) WITHIN 1 HOUR"), "query.within-time", "1 HOUR", ""),
    (clauses("ORDER BY ts PATTERN (A) WITHIN 0 HOURS"), "query.within-positive", "0 HOURS", ""),
    (clauses("ORDER BY ts PATTERN (A) WITHIN INTERVAL '-1' HOUR"), "query.within-positive", "INTERVAL '-1' HOUR", ""),
    (clauses("PATTERN (A{3,1})"), "query.quantifier", "{3,1}", "{1,3}"),
    (clauses("ORDER BY ts PATTERN (A TIMEOUT)"), "query.timeout-within", "TIMEOUT", "WITHIN"),
    (define("FINAL LAST(A.price) > 1"), "query.final-define", "FINAL LAST(A.price)", ""),
    (define("LAST(price, quantity) > 1"), "query.offset", "quantity", ""),
    (define("LAST(price, 1.5) > 1"), "query.offset", "1.5", ""),
    (measure("price"), "query.measure-name", "price", "AS"),
    (measure("price AS p, quantity AS P"), "query.measure-name", "P", ""),
    (clauses("ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A {- B -})"), "query.exclusion-unmatched", "{-", ""),
    (clauses("ORDER BY ts"), "query.pattern-empty", "MATCH_RECOGNIZE", "PATTERN"),
    (clauses("ORDER BY ts PATTERN (A)") + " ORDER BY price", "query.row-wise", "price", "do it on the result"),
    (clauses("ORDER BY ts PATTERN (A)") + " LIMIT 3", "query.row-wise", "3", "do it on the result"),
    ("SELECT DISTINCT price FROM ticks", "query.row-wise", None, ""),
    ("SELECT price FROM ticks, ticks AS b", "query.row-wise", None, ""),
    ("SELECT price FROM ticks JOIN ticks AS b ON true", "query.row-wise", None, ""),
    ("SELECT sum(price) FROM ticks", "query.row-wise", "sum(price)", ""),
    ("SELECT (SELECT 1) FROM ticks", "query.row-wise", None, ""),
    ("SELECT price FROM ticks UNION ALL SELECT price FROM ticks", "query.row-wise", None, ""),
    (define("price > (SELECT 1)"), "query.row-wise", None, "join its result to the rows as a column"),
    (define("price + 1"), "query.type", "price + 1", "compare"),
    (define("sum(venue) > 1"), "query.type", "sum(venue)", ""),
    (define("A.price + venue > 1"), "query.type", "A.price + venue", ""),
    ("SELECT price FROM ticks WHERE price", "query.type", "price", ""),
    (clauses("PATTERN (PERMUTE(A,B,C,D,E,F,G,H,I))"), "query.too-large", None, ""),
    (
        "WITH q0 AS (SELECT price AS x FROM ticks)"
        + "".join(f", q{i + 1} AS (SELECT x + x AS x FROM q{i})" for i in range(30))
        + " SELECT x FROM q30",
        "query.too-large",
        "x + x",
        "",
    ),
    ("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM ticks", "query.too-large", None, ""),
]


@pytest.mark.parametrize(("sql", "code", "underlined", "hint"), MISTAKES)
def test_a_mistake_has_a_code_a_place_and_a_hint(sql: str, code: str, underlined: str | None, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(sql, {"ticks": TICKS})
    error = caught.value
    assert error.code == code, str(error)
    assert error.sql == sql
    assert error.message
    assert hint in error.hint
    assert not re.search(r"<class|Token|[a-z][A-Z]{2}", error.message), "words of sqlglot's own"
    if underlined is not None:
        assert sql[error.start : error.stop] == underlined, str(error)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("PATTERN (A)", "query.order-missing"),
        ("ORDER BY price PATTERN (A)", "query.order-time"),
        ("ORDER BY ts DESC PATTERN (A)", "query.order-time"),
    ],
)
def test_a_stream_is_read_in_order_of_its_event_time(text: str, code: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(clauses(text), {"ticks": TICKS}, event_time="ts")
    assert caught.value.code == code
    compile_query(clauses(text), {"ticks": TICKS})


def test_a_renamed_event_time_is_still_the_event_time() -> None:
    sql = (
        "SELECT * FROM (SELECT ts AS at, price FROM ticks) "
        "MATCH_RECOGNIZE (ORDER BY at MEASURES price AS p PATTERN (A))"
    )
    assert compile_query(sql, {"ticks": TICKS}, event_time="TS").operator.is_keyed


def test_an_error_reads_as_the_line_with_the_place_underlined() -> None:
    sql = "SELECT *\nFROM ticks MATCH_RECOGNIZE (\n  PATTERN (A)\n  DEFINE A AS A.prise > 3\n)"
    with pytest.raises(QueryError) as caught:
        compile_query(sql, {"ticks": TICKS})
    assert str(caught.value).splitlines() == [
        "error[query.column]: no column named prise",
        "  query:4:17",
        "    4 |   DEFINE A AS A.prise > 3",
        "      |                 ^^^^^ did you mean price?",
    ]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def outcome(sql: str) -> str:
    """`compiled`, or the message of the one error that may be raised."""
    try:
        compile_query(sql, {"ticks": TICKS})
    except QueryError as error:
        return str(error)
    return "compiled"


def syntax(sql: str) -> str:
    """The error of a check that doesn't know the tables; `read` if there is none."""
    try:
        check_syntax(sql)
    except QueryError as error:
        return str(error)
    return "read"


def test_every_text_compiles_or_raises_a_query_error() -> None:
    seeds = [sql for sql, *_ in MISTAKES if len(sql) < 1000]
    pieces = sorted({piece for sql in seeds for piece in sql.split()})
    pieces += ["(", ")", "'", "`", "{-", "-}", "$$", "??", "||", ",", ".", "*", "/*", "\x00", "é"]
    dice = random.Random(7)
    for _ in range(1500):
        words = dice.choice(seeds).split()
        for _ in range(dice.randrange(1, 5)):
            at = dice.randrange(len(words) + 1)
            words[at : at + dice.randrange(2)] = [dice.choice(pieces)] * dice.randrange(3)
        sql = " ".join(words)
        whole, known = outcome(sql), syntax(sql)
        assert known == "read" or whole != "compiled", "a query that compiles has no syntax error"
        assert known == "read" or known.split(":")[0] in SYNTAX


SYNTAX = {"error[query.syntax]", "error[query.quantifier]", "error[query.too-large]"}


def test_the_syntax_of_a_query_is_checked_without_its_tables() -> None:
    for sql, *_ in MISTAKES:
        whole = outcome(sql)
        assert syntax(sql) in (whole, "read"), sql
    assert syntax("SELECT nothing FROM nowhere") == "read"
    assert syntax(MATCH.format("PATTERN (A B{3,1})")).startswith("error[query.quantifier]")
    for broken in ("SELECT a FROM", "SELECT (a FROM t", "", MATCH.format("PATTERN (A (B)")):
        assert syntax(broken) == outcome(broken) != "compiled"
