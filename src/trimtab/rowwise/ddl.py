"""Columns written as text, in Spark's DDL: `ts TIMESTAMP, price DOUBLE, tags ARRAY<STRING>`, as an Arrow schema."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from trimtab.errors import InputError
from trimtab.rowwise.types import CAST_TYPES

_Type = exp.DataType.Type
TYPES = CAST_TYPES | {
    _Type.TINYINT: pa.int8(),
    _Type.SMALLINT: pa.int16(),
    _Type.CHAR: pa.string(),
    _Type.BINARY: pa.binary(),
}
_ZONED = (_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ)


def parse_columns(text: str, *, zone: str | None) -> pa.Schema:
    """The columns that a text lists; `zone` is the one of TIMESTAMP: "UTC" in streams, None in tables.

    >>> parse_columns("ts timestamp, at struct<x: double, y: double>", zone="UTC").types
    [TimestampType(timestamp[us, tz=UTC]), StructType(struct<x: double, y: double>)]

    Raises InputError `input.schema`.
    """
    try:
        tree = parse_one(f"CREATE TABLE t({text})", read="spark")
    except SqlglotError as error:
        raise _wrong(f"{text!r} can't be read as columns") from error
    columns = tree.this.expressions if isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema) else []
    if not columns:
        raise _wrong(f"{text!r} lists no columns")
    return pa.schema([_field(column, zone) for column in columns])


def column_type(kind: exp.Expr, zone: str | None) -> pa.DataType | None:
    """The Arrow type of a type in Spark's SQL; None where there is none here, as for MAP."""
    match kind.this:
        case _Type.DECIMAL:
            return pa.decimal128(*([int(size.name) for size in kind.expressions] or [10, 0]))
        case _Type.ARRAY if kind.expressions:
            item = column_type(kind.expressions[0], zone)
            return None if item is None else pa.list_(item)
        case _Type.STRUCT:
            members = [(each.name, column_type(each.args["kind"], zone)) for each in kind.expressions]
            return None if any(type_ is None for _, type_ in members) else pa.struct(members)
    return pa.timestamp("us", zone) if kind.this in _ZONED else TYPES.get(kind.this)


def _field(column: exp.Expr, zone: str | None) -> pa.Field:
    kind = column.args.get("kind") if isinstance(column, exp.ColumnDef) else None
    if kind is None:
        raise _wrong(f"column {column.sql('spark')} has no type")
    if (type_ := column_type(kind, zone)) is None:
        raise _wrong(f"column {column.name} is {kind.sql('spark')}, which can't be written here", "give a pa.Schema")
    return pa.field(column.name, type_)


def _wrong(message: str, hint: str = "write for instance: ts TIMESTAMP, symbol STRING, price DOUBLE") -> InputError:
    return InputError("input.schema", message, hint)
