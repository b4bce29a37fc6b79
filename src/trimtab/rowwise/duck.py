"""Row-local Spark SQL over Arrow tables, computed by DuckDB.

sqlglot translates; the differences from Spark that it leaves are corrected here (division by zero,
casts that cut off, time zones). DuckDB is imported when it is first needed: most queries never need it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import ErrorLevel, exp, parse_one

from trimtab.rowwise.as_spark import as_spark
from trimtab.rowwise.types import DURATION, infer, plain

if TYPE_CHECKING:
    import duckdb

_local = threading.local()
_SETTINGS = (
    "SET TimeZone='UTC'",
    "SET error_on_division_by_zero=false",
    "SET enable_external_access=false",  # a query's text must not reach files or the network
)
_ZONED = (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)
_HUGE = pa.decimal128(38, 0)


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's private in-memory database."""
    found: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if found is None:
        import duckdb

        found = duckdb.connect(":memory:")
        # As many threads as Arrow: in a task of Spark that is one for each of its cores, so tasks don't fight for them.
        for setting in (*_SETTINGS, f"SET threads={pa.cpu_count()}"):
            found.execute(setting)
        _local.connection = found
    return found


def compute(table: pa.Table, texts: Sequence[str]) -> list[pa.ChunkedArray]:
    """The Spark SQL expressions over the table's columns, row by row and in order.

    Raises DuckDB's own errors: callers turn them into ours.
    """
    columns = [translate(text, table.schema) for text in texts]
    if not table.num_rows:  # a job's engines often have none, and DuckDB takes milliseconds to say so
        return [pa.chunked_array([], type_of_translated(column, table.schema)) for column in columns]
    return run_translated(table, columns)


def run_translated(table: pa.Table, columns: Sequence[str]) -> list[pa.ChunkedArray]:
    """DuckDB expressions over the table's columns, named c0, c1 ... by position."""
    here = connection()
    arrays = [_readable(column) for column in table.columns]
    # A table without columns has no rows in Arrow, and DuckDB wants at least one column.
    arrays.append(pa.chunked_array([pa.nulls(table.num_rows, pa.bool_())]))
    names = [f"c{i}" for i in range(len(arrays))]
    here.register("input", pa.table(arrays, names=names))
    try:
        relation = here.sql(_select(columns))
        spans = [str(kind) == "INTERVAL" for kind in relation.types]
        if any(spans):
            in_us = [f"epoch_us({column})" if span else column for column, span in zip(columns, spans, strict=True)]
            relation = here.sql(_select(in_us))
        found, zoned = relation.to_arrow_table().columns, is_zoned(table.schema)
        return [
            column.cast(DURATION) if span else tidy(column, zoned) for column, span in zip(found, spans, strict=True)
        ]
    finally:
        here.unregister("input")


def _select(columns: Sequence[str]) -> str:
    return f"SELECT {', '.join(f'{column} AS r{i}' for i, column in enumerate(columns))} FROM input"


def is_zoned(schema: pa.Schema) -> bool:
    """Whether a table's timestamps know their time zone; if none does, results don't either."""
    return any(pa.types.is_timestamp(kind) and kind.tz is not None for kind in schema.types)


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps in microseconds: DuckDB has no arithmetic on the other units with a zone."""
    if pa.types.is_timestamp(column.type) and column.type.unit != "us":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column


def tidy(column: pa.ChunkedArray, zoned: bool) -> pa.ChunkedArray:
    """DuckDB's answer as one of the types that the rest of trimtab knows."""
    wanted = tidy_type(column.type, zoned)
    if wanted == column.type:
        return column
    if pa.types.is_timestamp(wanted) and wanted.tz is None and column.type.tz is not None:
        return pc.local_timestamp(column).cast(wanted)
    return column.cast(wanted)


def tidy_type(type_: pa.DataType, zoned: bool) -> pa.DataType:
    """The type that `tidy` gives: no huge integers, views, wide strings or odd time units."""
    if type_ == _HUGE:
        return pa.int64()
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz if zoned else None)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(tidy_type(type_.value_type, zoned))
    return plain(type_)


@lru_cache(maxsize=4096)
def translate(text: str, schema: pa.Schema) -> str:
    """A Spark SQL expression as DuckDB SQL over columns c0, c1 ... in the order of the schema.

    >>> translate("price / 2 > `a b`", pa.schema([("a b", pa.int64()), ("price", pa.int64())]))
    'c1 / NULLIF(2, 0) > c0'
    """
    return translate_tree(parse_one(text, read="spark"), schema)


def numbered_column(number: int) -> exp.Expr:
    """The column as `run_translated` names it."""
    return exp.column(f"c{number}")


def translate_tree(tree: exp.Expr, schema: pa.Schema, reference: Callable[[int], exp.Expr] = numbered_column) -> str:
    """As `translate`, of a parsed expression; `reference` writes the columns."""
    exact = {name: i for i, name in enumerate(schema.names)}
    folded = {name.lower(): i for name, i in exact.items()}
    zoned = is_zoned(schema)

    def position(column: exp.Column) -> int | None:
        return exact.get(column.name, folded.get(column.name.lower()))

    def type_of(column: exp.Column) -> pa.DataType | None:
        at = position(column)
        return None if at is None else schema.types[at]

    def written(part: exp.Expr, reference: Callable[[int], exp.Expr]) -> str:
        def rename(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and (at := position(node)) is not None:
                return reference(at)
            if isinstance(node, exp.DataType) and node.this in _ZONED and not zoned:
                return exp.DataType(this=exp.DataType.Type.TIMESTAMP)
            return node

        return bottom_up(part, rename).sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)

    def described(part: exp.Expr) -> pa.DataType | None:
        known = infer(part, type_of)
        return type_of_translated(written(part, numbered_column), schema) if known is None else known

    # Types are looked up by the original names, so columns are renamed in a second pass.
    return written(bottom_up(tree, lambda node: as_spark(node, type_of, described)), reference)


@lru_cache(maxsize=4096)
def type_of_translated(translated: str, schema: pa.Schema) -> pa.DataType:
    """The type of a DuckDB expression over columns c0, c1 ... of a schema."""
    (answer,) = run_translated(schema.empty_table(), [translated])
    return answer.type


def bottom_up(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of the tree with every node changed, children before parents.

    `change` returns the node itself or a new one; a new one that keeps the node must keep a copy.
    """
    tree = tree.copy()
    for node in reversed(list(tree.walk(bfs=False))):
        changed = change(node)
        if changed is node:
            continue
        if node is tree:
            return changed
        node.replace(changed)
    return tree
