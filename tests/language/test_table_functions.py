"""Table functions in SQL: users' own operators, their arguments, and every mistake with its place."""

from __future__ import annotations

import contextlib
import datetime as dt
import pickle
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import trimtab
from trimtab.cli.main import main
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.errors import InputError, QueryError
from trimtab.language.compile import compile_query
from trimtab.language.explain import explain

START = dt.datetime(2026, 1, 1)
READINGS = pa.table(
    {
        "sensor": ["a", "b", "a", "a", "b", "a"],
        "ts": [START + dt.timedelta(minutes=minute) for minute in range(6)],
        "temperature": [91.0, 92.0, 93.5, 50.0, 99.0, 97.0],
        "site": [1, 1, 1, 2, 1, 1],
    }
)
TABLES = {"readings": READINGS}


@dataclass
class Heat:
    limit: float
    rows: int = 0
    times: Sequence[dt.datetime] = ()

    def on_rows(self, rows: pa.Table) -> pa.Table:
        hot = [
            {"at": ts, "nth": self.rows + nth}
            for nth, ts in enumerate(
                (
                    ts
                    for ts, x in zip(rows["ts"].to_pylist(), rows["temperature"].to_pylist(), strict=True)
                    if x > self.limit
                ),
                start=1,
            )
        ]
        self.rows += len(hot)
        return pa.Table.from_pylist(hot, schema=Hot.output)

    def snapshot(self) -> dict[str, Any]:
        return {"rows": self.rows}


@trimtab.operator("hot_rows")
@dataclass(frozen=True)
class Hot(trimtab.KeyedOperator):
    """The rows above a limit, numbered."""

    limit: float
    columns = ("ts", "temperature")
    output = pa.schema([("at", pa.timestamp("us")), ("nth", pa.int64())])
    state = pa.schema([("rows", pa.int64())])

    def open(self, snapshot: Any) -> Heat:
        return Heat(self.limit, **(snapshot or {}))


@trimtab.operator("echo_rows")
@dataclass(frozen=True)
class Echo(trimtab.KeyedOperator):
    """Shows its arguments and the columns that it sees."""

    n: int = 1
    text: str | None = "x"
    length: dt.timedelta = dt.timedelta(0)
    day: dt.date | None = None
    exact: Decimal = Decimal(0)
    flag: bool = False
    anything: Any = None
    output = pa.schema([("seen", pa.list_(pa.string())), ("given", pa.string())])
    state = pa.schema([])

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is negative")

    def open(self, snapshot: Any) -> EchoLogic:
        return EchoLogic(self, snapshot is not None)


@dataclass
class EchoLogic:
    description: Echo
    answered: bool

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        first, self.answered = not self.answered, True
        answer = {"seen": [rows.column_names], "given": [repr(self.description)]}
        return pa.table(answer, schema=Echo.output) if first else None

    def snapshot(self) -> dict[str, Any]:
        return {}


def answer(sql: str, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in trimtab.evaluate(sql, TABLES, **options).to_pylist()]


def given(arguments: str) -> Echo:
    """The description that a call makes."""
    query = compile_query(f"SELECT * FROM echo_rows(TABLE(readings){arguments})", {"readings": READINGS.schema})
    assert isinstance(query.operator, KeyedQuery)
    assert isinstance(query.operator.description, Echo)
    return query.operator.description


def test_the_output_is_the_key_and_the_columns_of_the_operator() -> None:
    sql = "SELECT * FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts, limit => 92)"
    found = trimtab.evaluate(sql, TABLES)
    assert found.column_names == ["sensor", "at", "nth"]
    assert [(row["sensor"], row["at"].minute, row["nth"]) for row in found.to_pylist()] == [
        ("a", 2, 1),
        ("a", 5, 2),
        ("b", 4, 1),
    ]


@pytest.mark.parametrize("cuts", [[], [1], [2, 4], [1, 2, 3, 4, 5]])
def test_cuts_and_delays_do_not_change_the_answer(cuts: list[int]) -> None:
    sql = "SELECT * FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts, 92)"
    whole = sorted(answer(sql))
    assert sorted(answer(sql, cuts=cuts)) == whole
    assert sorted(answer(sql, cuts=cuts, event_time="ts")) == whole
    moved = {"readings": READINGS.take([1, 0, 2, 4, 3, 5])}
    found = trimtab.evaluate(sql, moved, cuts=cuts, event_time="ts", delay="1 minute")
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == whole


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sensor, nth FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts, limit => 92) WHERE nth > 1",
        "SELECT h.sensor, h.nth FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts, 92) h WHERE h.nth > 1",
        "SELECT hot_rows.sensor, nth FROM HOT_ROWS(TABLE readings PARTITION BY sensor ORDER BY ts, 92) WHERE nth > 1",
        "WITH h AS (SELECT * FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts, 92)) "
        "SELECT sensor, nth FROM h WHERE nth > 1",
        "SELECT sensor, n FROM (SELECT sensor, nth AS n FROM hot_rows("
        "TABLE(SELECT * FROM readings WHERE temperature > 60) PARTITION BY (sensor) ORDER BY (ts), 92)) WHERE n > 1",
        "WITH r AS (SELECT sensor, ts AS at, temperature + 10 AS temperature FROM readings) "
        "SELECT sensor, nth FROM hot_rows("
        "TABLE(SELECT sensor, at AS ts, temperature FROM r) PARTITION BY sensor ORDER BY ts, 51 * 2) WHERE nth > 1",
    ],
)
def test_row_wise_selects_may_be_around_and_inside(sql: str) -> None:
    assert answer(sql) == [("a", 2)]


def test_several_columns_are_put_in_parentheses() -> None:
    call = "hot_rows(TABLE(readings) PARTITION BY (site, sensor) ORDER BY (ts, site DESC), 0)"
    sql = f"SELECT site, sensor, nth FROM {call}"
    assert sorted(answer(sql)) == [(1, "a", 1), (1, "a", 2), (1, "a", 3), (1, "b", 1), (1, "b", 2), (2, "a", 1)]


def test_without_a_partition_there_is_one_key() -> None:
    for partition in ("", "WITH SINGLE PARTITION"):
        assert answer(f"SELECT nth FROM hot_rows(TABLE(readings) {partition} ORDER BY ts, 95)") == [(1,), (2,)]


def test_the_rows_of_a_key_come_in_the_order_asked_for() -> None:
    sql = "SELECT MINUTE(at) AS m FROM hot_rows(TABLE(readings) ORDER BY temperature DESC, 92)"
    assert answer(sql) == [(4,), (5,), (2,)]


def test_an_operator_gets_the_columns_that_it_names_or_all_of_them() -> None:
    assert answer("SELECT seen FROM echo_rows(TABLE(readings) PARTITION BY sensor)")[0] == (READINGS.column_names,)
    assert answer("SELECT seen FROM echo_rows(TABLE(SELECT site AS __c0, ts FROM readings))") == [(["__c0", "ts"],)]
    sql = "SELECT * FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY site, 3)"
    query = compile_query(sql, {"readings": READINGS.schema})
    assert {name for name, _ in query.intake.columns} == {"ts", "temperature", "sensor", "site"}
    assert isinstance(query.operator, KeyedQuery)
    assert query.operator.columns == (("ts", "ts"), ("temperature", "temperature"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", Echo()),
        (", 3", Echo(3)),
        (", 3, 'y'", Echo(3, "y")),
        (", 3, TEXT => 'y'", Echo(3, "y")),
        (", text => NULL, n => 1 + 1", Echo(2, None)),
        (", n => 4.0", Echo(4)),
        (", length => INTERVAL '90' MINUTES", Echo(length=dt.timedelta(minutes=90))),
        (", day => DATE '2026-01-02'", Echo(day=dt.date(2026, 1, 2))),
        (", exact => 2.50, flag => true", Echo(exact=Decimal("2.50"), flag=True)),
        (", exact => -2", Echo(exact=Decimal(-2))),
        (", anything => 'what'", Echo(anything="what")),
    ],
)
def test_arguments_become_fields(arguments: str, expected: Echo) -> None:
    assert given(arguments) == expected


def test_a_compiled_query_pickles() -> None:
    sql = "SELECT * FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts, limit => 92)"
    query = compile_query(sql, {"readings": READINGS.schema})
    assert pickle.loads(pickle.dumps(query)) == query


CALL = "SELECT * FROM {}"

# The call, the code of the error, the text that is underlined, a piece of the hint.
MISTAKES = [
    ("hot_row(TABLE(readings), 3)", "query.table-function", "hot_row", "did you mean hot_rows?"),
    ("zzz(TABLE(readings), 3)", "query.table-function", "zzz", "@trimtab.operator"),
    ("hot_rows(TABLE(reading), 3)", "query.table", "reading", "did you mean readings?"),
    ("hot_rows(readings, 3)", "query.argument", "readings", "write TABLE(readings)"),
    ("hot_rows()", "query.argument", "hot_rows", "TABLE(name)"),
    ("hot_rows(3)", "query.argument", "hot_rows", "TABLE(name)"),
    ("hot_rows(TABLE(readings), TABLE(readings), 3)", "query.argument", None, ""),
    ("hot_rows(TABLE(readings))", "query.argument", "hot_rows", "add limit => ..."),
    ("hot_rows(TABLE(readings), limt => 3)", "query.argument", "limt", "did you mean limit?"),
    ("hot_rows(TABLE(readings), q => 3)", "query.argument", "q", "it takes limit"),
    ("hot_rows(TABLE(readings), 3, 4)", "query.argument", "4", "it takes limit"),
    ("hot_rows(TABLE(readings), 3, limit => 4)", "query.argument", "limit => 4", ""),
    ("echo_rows(TABLE(readings), n => 3, 'x')", "query.argument", "'x'", "it takes n, text"),
    ("hot_rows(TABLE(readings), limit => 'hot')", "query.argument", "'hot'", ""),
    ("hot_rows(TABLE(readings), limit => true)", "query.argument", "true", ""),
    ("hot_rows(TABLE(readings), limit => NULL)", "query.argument", "NULL", ""),
    ("echo_rows(TABLE(readings), n => 1.5)", "query.argument", "1.5", ""),
    ("echo_rows(TABLE(readings), length => 3)", "query.argument", "3", ""),
    ("echo_rows(TABLE(readings), n => -1)", "query.argument", "n => -1", ""),
    ("hot_rows(TABLE(readings), limit => site + 1)", "query.argument", "site", ""),
    ("hot_rows(TABLE(readings), limit => sqroot(3))", "query.function", "sqroot(3)", ""),
    ("hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts, site, 3)", "query.argument", "site", "(a, b)"),
    ("hot_rows(TABLE(readings) PARTITION BY sensor, site ORDER BY ts, 3)", "query.syntax", "ORDER BY", ""),
    ("hot_rows(TABLE(readings) PARTITION BY sensr, 3)", "query.column", "sensr", "did you mean sensor?"),
    ("hot_rows(TABLE(readings) PARTITION BY upper(sensor), 3)", "query.column", "upper(sensor)", "sub-select"),
    ("hot_rows(TABLE(readings) ORDER BY site + 1, 3)", "query.column", "site + 1", "sub-select"),
    ("hot_rows(TABLE(SELECT ts AS at, temperature FROM readings) PARTITION BY at, 3)", "query.column", None, "rename"),
    (
        "hot_rows(TABLE(SELECT ts, ts AS at, temperature FROM readings) PARTITION BY at, 3)",
        "query.column",
        "at",
        "another name",
    ),
    ("echo_rows(TABLE(SELECT ts, ts FROM readings))", "query.column", None, "different names"),
    ("hot_rows(TABLE(SELECT DISTINCT ts, temperature FROM readings), 3)", "query.row-wise", None, ""),
    (
        "hot_rows(TABLE(SELECT ts, sum(site) OVER (ORDER BY ts) AS temperature FROM readings), 3)",
        "query.row-wise",
        "hot_rows",
        "",
    ),
    ("hot_rows(TABLE(readings), 3) MATCH_RECOGNIZE (PATTERN (A))", "query.row-wise", "MATCH_RECOGNIZE", ""),
    ("hot_rows(TABLE(readings), 3) ORDER BY nth", "query.row-wise", "nth", ""),
    ("hot_rows(TABLE(readings), 3) AS h (a, b)", "query.row-wise", None, ""),
    ("hot_rows(TABLE(readings), 3) WHERE temperature > 1", "query.column", "temperature", ""),
    ("hot_rows(TABLE(readings) PARTITION BY, 3)", "query.syntax", None, ""),
    ("hot_rows(TABLE(readings), limit => )", "query.syntax", None, ""),
    ("hot_rows(TABLE(readings), 3", "query.syntax", None, ""),
    ("hot_rows(TABLE(readings", "query.syntax", None, ""),
    ("hot_rows(TABLE(", "query.syntax", None, ""),
    ("hot_rows(", "query.syntax", None, ""),
]


@pytest.mark.parametrize(("call", "code", "underlined", "hint"), MISTAKES)
def test_a_mistake_has_a_code_a_place_and_a_hint(call: str, code: str, underlined: str | None, hint: str) -> None:
    sql = CALL.format(call)
    with pytest.raises(QueryError) as caught:
        compile_query(sql, {"readings": READINGS.schema})
    error = caught.value
    assert error.code == code, str(error)
    assert hint in error.hint, str(error)
    if underlined is not None:
        assert sql[error.start : error.stop] == underlined, str(error)


def test_every_text_compiles_or_raises_a_query_error() -> None:
    seeds = [CALL.format(call) for call, *_ in MISTAKES]
    pieces = sorted({piece for sql in seeds for piece in re.findall(r"\w+|\W", sql)})
    dice = random.Random(11)
    for _ in range(1000):
        words = re.findall(r"\w+|\W", dice.choice(seeds))
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(words) + 1)
            words[at : at + dice.randrange(3)] = [dice.choice(pieces)] * dice.randrange(3)
        with contextlib.suppress(QueryError):
            compile_query("".join(words), {"readings": READINGS.schema})


def test_a_window_over_a_table_function_is_refused() -> None:
    sql = "SELECT sum(nth) OVER (ORDER BY at) AS s FROM hot_rows(TABLE(readings), 3)"
    with pytest.raises(QueryError, match="a window over the output of another operator"):
        compile_query(sql, {"readings": READINGS.schema})


@pytest.mark.parametrize(
    ("order", "code", "underlined"),
    [
        ("", "query.order-missing", "hot_rows"),
        ("ORDER BY site", "query.order-time", "site"),
        ("ORDER BY ts DESC", "query.order-time", "ts"),
    ],
)
def test_a_stream_is_read_in_order_of_its_event_time(order: str, code: str, underlined: str) -> None:
    sql = f"SELECT * FROM hot_rows(TABLE(readings) {order}, 3)"
    with pytest.raises(QueryError) as caught:
        compile_query(sql, {"readings": READINGS.schema}, event_time="ts")
    assert caught.value.code == code
    assert sql[caught.value.start : caught.value.stop] == underlined
    compile_query(sql, {"readings": READINGS.schema})


def test_rows_out_of_order_without_an_event_time_are_refused() -> None:
    moved = {"readings": READINGS.take([2, 0, 1, 3, 4, 5])}
    with pytest.raises(InputError) as caught:
        trimtab.evaluate("SELECT * FROM hot_rows(TABLE(readings) ORDER BY ts, 3)", moved, cuts=[1])
    assert caught.value.code == "input.out-of-order"


def test_explain_shows_the_operator() -> None:
    sql = "SELECT nth FROM hot_rows(TABLE(readings) PARTITION BY sensor ORDER BY ts DESC, 92)"
    lines = explain(compile_query(sql, {"readings": READINGS.schema})).splitlines()
    at = lines.index("OPERATOR")
    assert lines[at : at + 8] == [
        "OPERATOR",
        "  function  hot_rows(limit = 92.0)",
        "  keys      sensor",
        "  order     ts desc",
        "  reads     ts, temperature",
        "  keeps     rows int64",
        "  gives     at timestamp[us], nth int64",
        "  rows      of a key stay together",
    ]


MODULE = """
from dataclasses import dataclass
import pyarrow as pa
import trimtab

@trimtab.operator("counted")
@dataclass(frozen=True)
class Counted(trimtab.KeyedOperator):
    output = state = pa.schema([("n", pa.int64())])
    def open(self, snapshot):
        return Logic()

class Logic:
    def on_rows(self, rows):
        return pa.table({"n": [len(rows)]})
    def snapshot(self):
        return None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # to have the old path back after the test
    (tmp_path / "counted_operator.py").write_text(MODULE)
    (tmp_path / "query.sql").write_text("SELECT n FROM counted(TABLE(t))")
    pa_csv.write_csv(pa.table({"x": [1, 2, 3]}), tmp_path / "t.csv")
    return tmp_path


def test_the_command_line_imports_the_module_that_it_is_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = str(folder / "query.sql")
    options = ["--table", f"t={folder / 't.csv'}", "--operators", "counted_operator"]
    assert main(["evaluate", query, *options]) == 0
    assert capsys.readouterr().out.splitlines()[2].strip() == "3"
    assert main(["explain", query, *options]) == 0
    assert "function  counted()" in capsys.readouterr().out
    assert main(["evaluate", query, "--operators", "no_such_module"]) != 0
    assert "input.module" in capsys.readouterr().err
