"""Tables in the layouts that Arrow's own functions know: no views, run-end encodings, half floats; times in UTC.

Other libraries produce those (polars, for instance, string views). Nothing is lost but nanoseconds of intervals and
the names of time zones: the moments stay the same.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trimtab.errors import InputError
from trimtab.rowwise.types import DURATION


def readable(table: pa.Table) -> pa.Table:
    """The table with every column in a plain layout; the very same table if all of them are.

    >>> readable(pa.table({"x": pa.array(["a"], pa.string_view())})).schema.types
    [DataType(string)]

    Raises InputError `input.type` if a column can't be converted.
    """
    for number, field in enumerate(table.schema):
        wanted = readable_type(field.type)
        if wanted != field.type:
            table = table.set_column(number, field.with_type(wanted), _converted(table.column(number), field, wanted))
    return table


def readable_type(type_: pa.DataType) -> pa.DataType:  # noqa: C901 - one case a layout
    """The plain type with the same values."""
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return readable_type(type_.storage_type)
    if types.is_run_end_encoded(type_):
        return readable_type(type_.value_type)
    if types.is_dictionary(type_):
        value = readable_type(type_.value_type)
        if not (types.is_string(value) or types.is_large_string(value)):
            return value
        return type_ if value == type_.value_type else value
    if types.is_string_view(type_):
        return pa.string()
    if types.is_binary_view(type_):
        return pa.binary()
    if types.is_float16(type_):
        return pa.float32()
    if types.is_duration(type_):
        return DURATION
    if types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if types.is_decimal32(type_) or types.is_decimal64(type_) or (types.is_decimal(type_) and type_.scale < 0):
        return pa.decimal128(type_.precision - min(type_.scale, 0), max(type_.scale, 0))
    if types.is_list(type_) or types.is_list_view(type_):
        return pa.list_(_plain_field(type_.value_field))
    if types.is_large_list(type_) or types.is_large_list_view(type_):
        return pa.large_list(_plain_field(type_.value_field))
    if types.is_fixed_size_list(type_):
        return pa.list_(_plain_field(type_.value_field), type_.list_size)
    if types.is_struct(type_):
        return pa.struct([_plain_field(field) for field in type_])
    return type_


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(readable_type(field.type))


def _converted(column: pa.ChunkedArray, field: pa.Field, wanted: pa.DataType) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_run_end_encoded(column.type):
        column = pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], column.type.value_type)
    try:
        # Only intervals are cut, to microseconds; decimals and numbers keep their values.
        return column.cast(wanted, safe=not pa.types.is_duration(column.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError("input.type", f"column {field.name} is {field.type}, which can't be read: {error}") from error
