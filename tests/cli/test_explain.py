"""`trimtab explain`, and the text it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.query_cases import SCHEMA as QUERY_SCHEMA
from tests.support.query_cases import random_case
from trimtab.cli.main import main
from trimtab.language.compile import compile_query
from trimtab.language.explain import explain

SCHEMA = "ticks(symbol string, ts timestamp, price double)"
TICKS = pa.schema([("symbol", pa.string()), ("ts", pa.timestamp("us")), ("price", pa.float64())])
V_SHAPE = """SELECT symbol, low * 2 AS twice FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES LAST(D.price) AS low
  PATTERN (S D+ U)
  DEFINE D AS D.price < PREV(D.price), U AS U.price > PREV(U.price) AND U.price < 90
) WHERE low > 0
"""


def explained(clauses: str) -> str:
    return explain(compile_query(f"SELECT * FROM ticks MATCH_RECOGNIZE ({clauses})", {"ticks": TICKS}))


def condition(text: str) -> str:
    """The condition of the label B, as it is printed."""
    whole = explained(f"ORDER BY ts PATTERN (A B+) DEFINE B AS {text}")
    lines = whole.partition("CONDITIONS\n")[2].partition("\n\n")[0].splitlines()
    return " ".join(line.strip() for line in lines[1:]).removeprefix("B").strip()


def running(clauses: str) -> dict[str, str]:
    """The lines of RUNS, by their first word."""
    lines = explained(clauses).partition("RUNS\n")[2].partition("\n\n")[0].splitlines()
    return {word: rest.strip() for word, _, rest in (line.strip().partition(" ") for line in lines)}


def test_a_pattern_is_explained_part_by_part() -> None:
    assert explain(compile_query(V_SHAPE, {"ticks": TICKS})).splitlines() == [
        "SOURCE",
        "  ticks",
        "",
        "EACH ROW (Spark SQL: in Spark's JVM on a cluster, in DuckDB here)",
        "  ts      timestamp[us]  ts",
        "  price   double         price",
        "  __c2    bool           price < 90",
        "  symbol  string         symbol",
        "",
        "PATTERN (position, label -> what may follow, best first)",
        "      start   -> 0:S",
        "  0   S       -> 1:D",
        "  1   D       -> 1:D, 2:U",
        "  2   U       -> done",
        "",
        "CONDITIONS",
        "  S  always",
        "  D  price[here] < price[1 row before]",
        "  U  price[here] > price[1 row before]",
        "     and (price < 90)[here]",
        "",
        "A PARTIAL MATCH REMEMBERS",
        "  its position, its first and its last row",
        "  integer  row of [last of D]",
        "",
        "RUNS",
        "  keys      symbol",
        "  order     ts",
        "  rows      one row per match",
        "  then      skip past last row",
        "  threads   deterministic automaton with 5 configurations",
        "  kernel    compiled to machine code, from enough rows on",
        "  measures  from registers",
        "  looks     1 row back",
        "",
        "MEASURES",
        "  slot0  double  price[last of D]",
        "",
        "OUTPUT",
        "  symbol  string  symbol",
        "  twice   double  slot0 * 2",
        "  where           slot0 > 0",
    ]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("B.price < LAST(A.price, 1)", "price[here] < price[last of A, 1 back]"),
        ("B.price < FIRST(B.price, 2)", "price[here] < price[first of B, 2 on]"),
        ("B.price < LAST(price, 1)", "price[here] < price[here, 1 back]"),
        ("B.price < FIRST(price)", "price[here] < price[first row]"),
        ("B.price < NEXT(A.price, 3)", "price[here] < price[3 rows after last of A]"),
        ("B.price + A.price * B.price > 7", "price[here] + price[last of A] * price[here] > 7.0"),
        ("(B.price + A.price) * B.price > 7", "(price[here] + price[last of A]) * price[here] > 7.0"),
        ("B.price - (A.price - B.price) > 7", "price[here] - (price[last of A] - price[here]) > 7.0"),
        ("SUM(B.price) > 3 AND COUNT(*) < 9", "sum(price over B) > 3.0 and count(* over the match) < 9"),
        ("NOT (A.price > B.price OR COUNT(A.*) = 1)", "not (price[last of A] > price[here] or count(* over A) = 1)"),
        ("A.symbol IS NULL", "symbol[last of A] is null"),
        (r"A.symbol || B.symbol = 'x\'y'", r"{$1 || $2 where $1 = symbol[last of A], $2 = symbol[here]} = 'x\'y'"),
        ("B.ts - A.ts < INTERVAL '90' SECONDS", "ts[here] - ts[last of A] < interval 90 seconds"),
        ("COALESCE(A.price, 0) > B.price", "(COALESCE(price, 0))[last of A, else 0.0] > price[here]"),
        ("MATCH_NUMBER() < 3", "match_number() < 3"),
        ("CASE WHEN A.price > B.price THEN 1 ELSE 2 END = 1", "case when price[last of A] > price[here] then 1 else 2"),
    ],
)
def test_conditions_are_readable(text: str, printed: str) -> None:
    assert printed in condition(text)


@pytest.mark.parametrize(
    ("clauses", "word", "printed"),
    [
        ("PATTERN (A)", "keys", "one for all rows"),
        ("ORDER BY price DESC PATTERN (A)", "order", "price desc"),
        ("ORDER BY ts PATTERN (A) WITHIN 90 SECONDS", "within", "90 seconds, by ts"),
        ("ORDER BY ts PATTERN (A) WITHIN 90 SECONDS", "threads", "a list of threads: WITHIN ends attempts one by one"),
        ("ALL ROWS PER MATCH PATTERN (A)", "measures", "from paths: every row of a match is kept"),
        ("AFTER MATCH SKIP TO NEXT ROW PATTERN (A)", "then", "skip to next row"),
        ("AFTER MATCH SKIP TO FIRST B PATTERN (A B)", "then", "skip to first B"),
        ("PATTERN (A $)", "threads", "a list of threads: the pattern has an anchor at its end"),
        ("PATTERN (A B) DEFINE B AS NEXT(price, 2) > 1", "looks", "2 rows ahead"),
        ("PATTERN (A B) DEFINE B AS price > A.price", "looks", "at the match only"),
    ],
)
def test_how_a_pattern_runs(clauses: str, word: str, printed: str) -> None:
    assert running(clauses)[word] == printed


def test_a_function_without_a_machine_form_is_named() -> None:
    lines = running("PATTERN (A B) DEFINE B AS A.symbol || B.symbol = 'x'")
    assert lines["kernel"].startswith("interpreted: ")
    assert "$1 || $2" in lines["kernel"]


def test_windows_are_explained() -> None:
    grouped = "SELECT symbol, SUM(price) AS s FROM ticks GROUP BY symbol, window(ts, '5 minutes', '1 minute')"
    text = explain(compile_query(grouped, {"ticks": TICKS}))
    assert "of 5 minutes, one every 1 minute, by ts" in text
    assert "sum(price)" in text
    frame = "ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"
    text = explain(compile_query(f"SELECT AVG(price) OVER ({frame}) AS a FROM ticks", {"ticks": TICKS}))
    assert "avg(price) over the rows within 1 hour" in text


def test_any_query_can_be_explained() -> None:
    for seed in range(150):
        query = compile_query(random_case(seed).sql, {"t": QUERY_SCHEMA})
        text = explain(query)
        assert "RUNS\n" in text, seed
        assert not re.search(r"\b(RowValue|Const|Call|Aggregate|RowRef|Fold|Place)\(", text), seed


def test_the_command_takes_a_schema_or_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query, table, text = tmp_path / "query.sql", tmp_path / "ticks.parquet", tmp_path / "ticks.csv"
    query.write_text(V_SHAPE)
    pq.write_table(TICKS.empty_table(), table)
    text.write_text("symbol,ts,price\nKEEL,2026-01-05 09:30:01,1.5\n")
    printed = []
    for options in (["--schema", SCHEMA], ["--table", f"ticks={table}"], ["--table", f"ticks={text}"]):
        assert main(["explain", str(query), *options]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "deterministic automaton" in printed[2]


def test_the_kernel_is_printed_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = tmp_path / "query.sql"
    query.write_text(V_SHAPE)
    assert main(["explain", str(query), "--schema", SCHEMA, "--kernel"]) == 0
    source = capsys.readouterr().out.partition("KERNEL\n")[2]
    compile(source, "kernel", "exec")
    assert source.startswith("def kernel(")


def test_a_mistake_names_the_file_and_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = tmp_path / "query.sql"
    query.write_text(V_SHAPE.replace("LAST(D.price)", "LAST(D.prise)"))
    assert main(["explain", str(query), "--schema", SCHEMA]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "error[query.column]: no column named prise",
        f"  {query}:3:19",
        "    3 |   MEASURES LAST(D.prise) AS low",
        "      |                   ^^^^^ did you mean price?",
    ]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], "input.schema"),
        (["--schema", "ticks"], "input.schema"),
        (["--schema", "ticks(price"], "input.schema"),
        (["--schema", "ticks(price)"], "input.schema"),
        (["--schema", "ticks(price map<int, int>)"], "input.schema"),
        (["--table", "ticks"], "input.file"),
        (["--table", "ticks=missing.parquet"], "input.file"),
        (["--table", "ticks=ticks.xlsx"], "input.file"),
    ],
)
def test_without_columns_there_is_an_error(
    options: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = tmp_path / "query.sql"
    query.write_text(V_SHAPE)
    assert main(["explain", str(query), *options]) == 1
    assert capsys.readouterr().err.startswith(f"error[{code}]: ")


def test_a_missing_query_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(tmp_path / "none.sql"), "--schema", SCHEMA]) == 1
    assert capsys.readouterr().err.startswith("error[input.file]: ")


@pytest.mark.parametrize(
    ("sql", "way"),
    [
        ("SELECT symbol, price * 2 AS twice FROM ticks WHERE price > 1", "over columns, without the JVM"),
        (
            "SELECT reverse(symbol) AS name FROM ticks",
            "through the JVM, as REVERSE(symbol): reverse isn't known to give the same here as in Spark",
        ),
    ],
)
def test_it_says_which_way_rows_go_if_trimtab_reads_the_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str, way: str
) -> None:
    (tmp_path / "query.sql").write_text(sql)
    assert main(["explain", str(tmp_path / "query.sql"), "--schema", SCHEMA, "--event-time", "ts"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == ["SOURCE", "  ticks", f"  if trimtab reads it: {way}"]


def test_a_table_without_a_time_is_no_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "query.sql").write_text("SELECT price FROM ticks")
    assert main(["explain", str(tmp_path / "query.sql"), "--schema", "ticks(price double)"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == ["SOURCE", "  ticks", ""]
