"""The files that commands read and write: queries, tables, and errors that name the file."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from trimtab.errors import InputError, QueryError, TrimtabError


class QueryFileError(TrimtabError):
    """A mistake in a query that was read from a file; its text has the file's name."""

    def __init__(self, name: str, error: QueryError) -> None:
        super().__init__(name, error)
        self.code = error.code
        self.text = str(error).replace("\n  query:", f"\n  {name}:", 1)

    def __str__(self) -> str:
        """The error as printed."""
        return self.text


def add_query_and_tables(parser: ArgumentParser, table_help: str) -> None:
    """Add the argument `query` and the option `--table`."""
    parser.add_argument("query", type=Path, help="a file with one SELECT")
    parser.add_argument("--table", action="append", default=[], metavar="NAME=FILE", help=table_help)


@contextmanager
def query_file(path: Path) -> Iterator[str]:
    """The text of a query; mistakes found in it inside the block name the file."""
    with _file_errors(path, "read"):
        text = path.read_text(encoding="utf-8")
    try:
        yield text
    except QueryError as error:
        raise QueryFileError(str(path), error) from error


def read_schemas(pairs: Iterable[str]) -> dict[str, pa.Schema]:
    """The schemas of tables given as name=file."""
    return {name: _schema(path) for name, path in _pairs(pairs)}


def read_tables(pairs: Iterable[str]) -> dict[str, pa.Table]:
    """The tables given as name=file."""
    return {name: _table(path) for name, path in _pairs(pairs)}


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table in the format that the file's name ends in."""
    write = pa_csv.write_csv if _is_csv(path) else pa_parquet.write_table
    with _file_errors(path, "written"):
        write(table, path)


def _pairs(pairs: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for pair in pairs:
        name, _, file = pair.partition("=")
        if not (name and file):
            raise InputError("input.file", f"--table {pair} has no file", "write --table ticks=ticks.parquet")
        yield name, Path(file)


def _schema(path: Path) -> pa.Schema:
    if _is_csv(path):
        return _table(path).schema
    with _file_errors(path, "read"):
        return pa_parquet.read_schema(path)


def _table(path: Path) -> pa.Table:
    read = pa_csv.read_csv if _is_csv(path) else pa_parquet.read_table
    with _file_errors(path, "read"):
        return read(path)


def _is_csv(path: Path) -> bool:
    """Whether a file is CSV and not Parquet; raises InputError `input.file` if it is neither."""
    if path.suffix not in (".parquet", ".csv"):
        raise InputError("input.file", f"{path} is neither .parquet nor .csv")
    return path.suffix == ".csv"


@contextmanager
def _file_errors(path: Path, verb: str) -> Iterator[None]:
    """Raise errors of files inside the block as an InputError that names the file; `verb`: "read" or "written"."""
    try:
        yield
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n", 1)[0]
        raise InputError("input.file", f"{path} can't be {verb}: {reason}") from error
