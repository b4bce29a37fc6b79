"""The columns of a table written by hand, as in CREATE TABLE: `ticks(ts timestamp, price double)`."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from trimtab.errors import InputError
from trimtab.rowwise.ddl import column_type


def parse_schema(text: str, *, zone: str | None = None) -> tuple[str, pa.Schema]:
    """The name of the table and its columns; `zone` is the one of TIMESTAMP: "UTC" in Spark's streams, None in tables.

    >>> name, schema = parse_schema("ticks(ts timestamp, price decimal(10, 2))")
    >>> name, schema.names, schema.types
    ('ticks', ['ts', 'price'], [TimestampType(timestamp[us]), Decimal128Type(decimal128(10, 2))])

    Raises InputError `input.schema`.
    """
    try:
        tree = parse_one(f"CREATE TABLE {text}", read="spark")
    except SqlglotError as error:
        raise _wrong(f"{text!r} can't be read as a table") from error
    schema = tree.this if isinstance(tree, exp.Create) else None
    if not isinstance(schema, exp.Schema) or not isinstance(schema.this, exp.Table):
        raise _wrong(f"{text!r} has no columns")
    fields = [_field(column, zone) for column in schema.expressions]
    return ".".join(part.name for part in schema.this.parts), pa.schema(fields)


def parse_columns(text: str) -> pa.Schema:
    """The columns of a stream, as Spark's DDL writes them: TIMESTAMP is in UTC, as in Spark's streams.

    >>> parse_columns("k BIGINT, ts TIMESTAMP").types
    [DataType(int64), TimestampType(timestamp[us, tz=UTC])]

    Raises InputError `input.schema`.
    """
    return parse_schema(f"columns({text})", zone="UTC")[1]


def _field(column: exp.Expr, zone: str | None) -> pa.Field:
    kind = column.args.get("kind") if isinstance(column, exp.ColumnDef) else None
    if kind is None:
        raise _wrong(f"column {column.sql('spark')} has no type")
    type_ = column_type(kind, zone)
    if type_ is None:
        raise _wrong(f"column {column.name} is {kind.sql('spark')}, which can't be written here", "give --table a file")
    return pa.field(column.name, type_)


def _wrong(message: str, hint: str = "write ticks(ts timestamp, symbol string, price double)") -> InputError:
    return InputError("input.schema", message, hint)
