"""Avro's types as Arrow's: the columns of a record.

A union of null and one other type is that type; other unions have no Arrow type here, and are refused, as are records
that contain themselves. Enums are strings.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trimtab.errors import JobError

PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
}


def columns_of(record: dict[str, Any]) -> pa.Schema:
    """The columns of a record.

    >>> columns_of({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "int"]}]}).types
    [DataType(int32)]

    Raises JobError `source.schema` for types that have none in Arrow.
    """
    named: dict[str, Any] = {}
    return pa.schema([(each["name"], _type(each["type"], each["name"], named)) for each in record.get("fields", ())])


def _type(avro: Any, column: str, named: dict[str, Any]) -> pa.DataType:
    if isinstance(avro, list):
        others = [each for each in avro if each != "null"]
        if len(others) != 1:
            raise _refused(column, f"a union of {len(others)} types")
        return _type(others[0], column, named)
    if isinstance(avro, str):
        found = PRIMITIVE.get(avro, named.get(avro))
        if found is None:
            raise _refused(column, f"{avro}, which isn't known there")
        return found
    if avro.get("logicalType") == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    if avro.get("logicalType") in LOGICAL:
        return LOGICAL[avro["logicalType"]]
    found = _complex(avro, column, named)
    if "name" in avro:
        named[avro["name"]] = found
    return found


def _complex(avro: dict[str, Any], column: str, named: dict[str, Any]) -> pa.DataType:
    match avro.get("type"):
        case "record":
            return pa.struct([(each["name"], _type(each["type"], column, named)) for each in avro["fields"]])
        case "array":
            return pa.list_(_type(avro["items"], column, named))
        case "map":
            return pa.map_(pa.string(), _type(avro["values"], column, named))
        case "enum":
            return pa.string()
        case "fixed":
            return pa.binary(avro["size"])
        case other:
            return _type(other, column, named)


def _refused(column: str, what: str) -> JobError:
    hint = "give value='bytes', and decode it yourself"
    return JobError("source.schema", f"field {column} of the Avro schema is {what}", hint)
