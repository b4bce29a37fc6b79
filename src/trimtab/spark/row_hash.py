"""Hashes of a row's columns as Spark expressions: one places a key, the other orders rows that tie in time.

State is stored by the hash of its key, so `key_hash` never changes. Two keys with the same hash are still two keys:
keys are compared by value as well. Nothing more than `arrival_hash` tells rows apart that tie in time, so rows that
differ have different ones. (Spark's hash alone skips nulls, and has none of maps.) Every batch is hashed anew, also one
that is repeated: a plan holds no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType, VariantType

Columns = Sequence[tuple[Column, DataType]]
_MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_AS_TEXT = {"ignoreNullFields": "false", "timestampFormat": f"{_MICROSECONDS}XXX", "timestampNTZFormat": _MICROSECONDS}


def key_hash(columns: Columns) -> Column:
    """The hash by which keys are placed; equal values give equal hashes, so there is one zero."""
    hashed = [
        column + F.lit(0.0).cast(kind) if isinstance(kind, DoubleType | FloatType) else column
        for column, kind in columns
        if _has_hash(kind)
    ]
    return F.xxhash64(*hashed) if hashed else F.lit(42).cast("bigint")


def arrival_hash(columns: Columns) -> Column:
    """The hash by which rows are ordered that tie in time: of all values, and of where the nulls are.

    For rows without nulls, arrays, structs and maps it is the `key_hash`.
    """
    values = [
        (F.map_entries(column), ArrayType(StructType().add("k", kind.keyType).add("v", kind.valueType)))
        if isinstance(kind, MapType)
        else (column, kind)
        for column, kind in columns
    ]
    nested = [_as_text(column) for column, kind in values if isinstance(kind, ArrayType | StructType | VariantType)]
    nulls = [column.isNull() for column, _ in columns]
    if not nulls:
        return key_hash(values)
    # A null changes the hash of the values only by its absence: 5 in the first of two columns is as 5 in the second.
    shape = F.xxhash64(F.array(*nulls), *nested)
    if not nested:
        shape = F.when(reduce(or_, nulls), shape).otherwise(F.lit(0).cast("bigint"))
    return key_hash(values).bitwiseXOR(shape)


def _has_hash(kind: DataType) -> bool:
    """Whether Spark has a hash of values of this type."""
    match kind:
        case MapType() | VariantType():
            return False
        case ArrayType():
            return _has_hash(kind.elementType)
        case StructType():
            return all(_has_hash(field.dataType) for field in kind.fields)
    return True


def _as_text(column: Column) -> Column:
    """The value as text, nulls inside it included."""
    return F.to_json(F.struct(column), _AS_TEXT)
