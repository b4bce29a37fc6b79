"""Every case of `tests/cases/*.case`: a query over small tables, and the rows or the error that it gives.

A file is a list of cases. A case is a title, options, tables, the query, and what it answers:

    ## A sentence that says what the case shows
    cuts: 1 3
    orders: id int, paid decimal(9,2)
    1 | 20.00
    2 | null
    ---
    SELECT id, paid FROM orders
    ---
    id | paid decimal(9,2)
    1  | 20.00
    2  | null

Tables above the first title are there in every case of the file. Answers are bags of rows, unless `ordered: yes`. A
column of the answer may state its type. An error is `error:` and its whole text. Text in quotes is text, so 'null' is
no null and '' is the empty text. Options are those of `evaluate`; `arrival: out of order` says that rows can't be
cut into batches. Wherever they can, a case is also run a row per batch and cut at random.
"""

from __future__ import annotations

import ast
import datetime
import pathlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from trimtab import TrimtabError, evaluate
from trimtab.errors import InputError

FOLDER = pathlib.Path(__file__).with_name("cases")
OPTIONS = ("arrival", "cuts", "delay", "event_time", "fold_labels", "ordered")
TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "interval": pa.duration("us"),
}
DELIMITER = "---"


@dataclass(frozen=True)
class Case:
    """One case as it is written; `answer` is a header and rows, `error` the text instead of them."""

    place: str
    title: str
    options: dict[str, str]
    tables: dict[str, pa.Table]
    sql: str
    header: list[str] = field(default_factory=list)
    answer: list[list[str]] = field(default_factory=list)
    error: str | None = None

    @property
    def known_options(self) -> dict[str, Any]:
        """The options as `evaluate` takes them."""
        found: dict[str, Any] = {name: self.options[name] for name in ("event_time", "delay") if name in self.options}
        if "cuts" in self.options:
            found["cuts"] = [int(cut) for cut in self.options["cuts"].split()]
        if "fold_labels" in self.options:
            found["fold_labels"] = _yes(self, "fold_labels")
        return found

    @property
    def rows(self) -> int:
        """The number of rows of the longest table."""
        return max((table.num_rows for table in self.tables.values()), default=0)


def _yes(case: Case, option: str) -> bool:
    value = case.options.get(option, "no")
    assert value in ("yes", "no"), f"{case.place}: {option} is yes or no"
    return value == "yes"


def parse_type(text: str) -> pa.DataType:
    """A type by the name it has in a case.

    >>> parse_type("decimal(9,2)")
    Decimal128Type(decimal128(9, 2))
    """
    if found := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"list\((.+)\)", text):
        return pa.list_(parse_type(found[1]))
    return TYPES[text]


def parse_value(text: str, type_: pa.DataType) -> object:  # noqa: C901 - a line for each type
    """A cell of a table as the value that Arrow gives for it."""
    if text == "null":
        return None
    if pa.types.is_list(type_):
        inner = text.removeprefix("[").removesuffix("]")
        return [parse_value(item.strip(), type_.value_type) for item in inner.split(",")] if inner else []
    if pa.types.is_boolean(type_):
        return {"true": True, "false": False}[text]
    if pa.types.is_integer(type_):
        return int(text)
    if pa.types.is_floating(type_):
        return float(text)
    if pa.types.is_decimal(type_):
        return Decimal(text)
    if pa.types.is_date(type_):
        return datetime.date.fromisoformat(text)
    if pa.types.is_timestamp(type_):
        return datetime.datetime.fromisoformat(text)
    if pa.types.is_duration(type_):
        hours, minutes, seconds = text.split(":")
        return datetime.timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    return ast.literal_eval(text) if text.startswith("'") else text


def cells(line: str) -> list[str]:
    """The values of a line; a line break in one is written backslash n inside quotes."""
    return [cell.strip() for cell in line.split("|")]


def parse_tables(place: str, lines: list[str]) -> dict[str, pa.Table]:
    """Tables, each a line `name: column type, ...` and its rows."""
    tables: dict[str, pa.Table] = {}
    name, schema, rows = "", pa.schema([]), list[list[str]]()

    def close() -> None:
        if name:
            columns = [[parse_value(row[i], f.type) for row in rows] for i, f in enumerate(schema)]
            tables[name] = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    for line in lines:
        if found := re.fullmatch(r"(\w+): (\w+ [a-z]+.*)", line):
            close()
            name, rows = found[1], []
            pairs = [column.strip().split(" ", 1) for column in re.split(r",(?![^(]*\))", found[2])]
            schema = pa.schema([(column, parse_type(type_)) for column, type_ in pairs])
        elif line.strip():
            row = cells(line)
            assert name, f"{place}: a row before any table: {line}"
            assert len(row) == len(schema), f"{place}: {len(row)} values for {len(schema)} columns: {line}"
            rows.append(row)
    close()
    return tables


def parse_case(file: str, shared: dict[str, pa.Table], text: str) -> Case:
    """The case in a piece of a file, which starts with its title."""
    title, *lines = text.rstrip("\n").split("\n")
    place = f"{file}: {title}"
    assert lines.count(DELIMITER) == 2, f"{place}: a case has three parts with {DELIMITER} between them"
    first = lines.index(DELIMITER)
    second = lines.index(DELIMITER, first + 1)
    head, sql, tail = lines[:first], "\n".join(lines[first + 1 : second]), lines[second + 1 :]
    options = dict(found.groups() for line in head if (found := re.fullmatch(rf"({'|'.join(OPTIONS)}): (.+)", line)))
    own = [line for line in head if line.partition(":")[0] not in OPTIONS]
    known = {**shared, **parse_tables(place, own)}
    tables = {name: table for name, table in known.items() if re.search(rf"\b{name}\b", sql)} or known
    if tail[0] == "error:":
        return Case(place, title, options, tables, sql, error="\n".join(tail[1:]))
    return Case(place, title, options, tables, sql, cells(tail[0]), [cells(line) for line in tail[1:] if line.strip()])


def parse_file(path: pathlib.Path) -> list[Case]:
    """All cases of a file."""
    shared, *pieces = re.split(r"^## ", path.read_text(), flags=re.MULTILINE)
    comments = [line for line in shared.splitlines() if not line.startswith("# ")]
    tables = parse_tables(path.name, comments)
    return [parse_case(path.name, tables, piece) for piece in pieces]


CASES = [case for path in sorted(FOLDER.glob("*.case")) for case in parse_file(path)]


def test_every_title_is_there_once() -> None:
    titles = [case.title for case in CASES]
    assert len(titles) > 100
    assert sorted(titles) == sorted(set(titles))


def plain(value: object) -> object:
    """A value that compares: NaN is itself, and floats are as good as their first twelve digits."""
    if isinstance(value, float):
        return f"{value:.12g}" if value else "0"
    return [plain(item) for item in value] if isinstance(value, list) else value


def check(case: Case, **changes: Any) -> None:
    """Run the case and compare its answer."""
    found = evaluate(case.sql, case.tables, **{**case.known_options, **changes})
    names = [cell.split(" ", 1)[0] for cell in case.header]
    assert found.column_names == names
    for cell, type_ in zip(case.header, found.schema.types, strict=True):
        assert " " not in cell or parse_type(cell.split(" ", 1)[1]) == type_, f"{cell} is {type_}"
    wanted = [[plain(parse_value(v, t)) for v, t in zip(row, found.schema.types, strict=True)] for row in case.answer]
    rows = [[plain(value) for value in row.values()] for row in found.to_pylist()]
    order: Callable[[list[list[object]]], list[list[object]]] = list if _yes(case, "ordered") else _sorted
    assert order(rows) == order(wanted)


def _sorted(rows: list[list[object]]) -> list[list[object]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_case(case: Case) -> None:
    unknown = set(case.options) - set(OPTIONS)
    assert not unknown
    if case.error is not None:
        with pytest.raises(TrimtabError) as caught:
            evaluate(case.sql, case.tables, **case.known_options)
        assert str(caught.value) == case.error
        return
    check(case)
    every_row = range(1, case.rows)
    if case.options.get("arrival") == "out of order":
        with pytest.raises(InputError) as out_of_order:
            check(case, cuts=every_row)
        assert out_of_order.value.code == "input.out-of-order"
    elif not {"event_time", "cuts"} <= set(case.options):  # there the cuts decide which rows are late
        check(case, cuts=every_row)
        dice = random.Random(case.title)
        for _ in range(2):
            check(case, cuts=sorted(dice.randrange(case.rows + 1) for _ in range(2)))
