"""Cases as plain text: a query over small tables, and the rows or the error that it gives.

A file is a list of cases. A case is a title, options, tables, the query, and its answer:

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

Tables above the first title are in every case of the file. Answers are bags of rows, unless `ordered: yes`. A column
of the answer may state its type. An error is `error:` and its whole text. Text in quotes is text, so 'null' isn't null
and '' is the empty text. Options are those of `evaluate`; `arrival: out of order` says that rows can't be cut into
batches.
"""

from __future__ import annotations

import ast
import datetime
import pathlib
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

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
"""The line between the parts of a case."""


@dataclass(frozen=True)
class Case:
    """One case as it is written; `answer` is a header and rows, `error` the text instead of them."""

    place: str  # the file and the title
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
            found["fold_labels"] = self.is_set("fold_labels")
        return found

    def is_set(self, option: str) -> bool:
        """Whether an option that is yes or no is yes; by default it isn't."""
        value = self.options.get(option, "no")
        assert value in ("yes", "no"), f"{self.place}: {option} is yes or no"
        return value == "yes"

    @property
    def rows(self) -> int:
        """The number of rows of the longest table."""
        return max((table.num_rows for table in self.tables.values()), default=0)


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


def parse_value(text: str, type_: pa.DataType) -> object:
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
    found = [re.fullmatch(rf"({'|'.join(OPTIONS)}): (.+)", line) for line in head]
    options = {match[1]: match[2] for match in found if match}
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
