"""Made-up rows, over which an operator runs before its first batch, so that its code is compiled and loaded."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

ROWS = 4
"""More than one: arrays of one row may be broadcast, unlike those of a batch."""


def made_up(schema: pa.Schema) -> pa.Table:
    """Some rows of a schema without nulls and NaN: zeros, empty strings.

    >>> made_up(pa.schema([("x", pa.float64()), ("s", pa.string())])).to_pylist()[0]
    {'x': 0.0, 's': ''}
    """
    return pa.table([_zeros(field.type) for field in schema], schema=pa.schema([f.with_nullable(True) for f in schema]))


def _zeros(kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        values = _zeros(kind.value_type).slice(0, 1)
        return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, kind.index_type), values, ordered=kind.ordered)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return pa.array([""] * ROWS, pa.string()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal()] * ROWS, kind)
    try:
        wide = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array([0] * ROWS, wide if pa.types.is_temporal(kind) else pa.int64()).cast(kind)
    except (ValueError, pa.ArrowException):
        return pa.nulls(ROWS, kind)  # a list or a struct: nothing computes with it
