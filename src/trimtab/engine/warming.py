"""Paying for the first batch ahead of it: made-up rows, so that code is generated, compiled or loaded from disk."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from trimtab.engine.operator import Moment, Operator

ROWS = 4
"""A few: with one row some arrays would be widened, as a batch's are not."""


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


def warm(operator: Operator, schema: pa.Schema) -> None:
    """Have an operator over rows of a schema ready, so that its first batch takes no longer than others.

    A user's own operator is left alone: rows that were made up are none of its business.
    """
    from trimtab.engine.keyed.query import KeyedQuery
    from trimtab.engine.match.run.matcher import Matcher

    if isinstance(operator, Matcher):
        operator.warm(schema)
    elif not isinstance(operator, KeyedQuery):
        rows = made_up(schema)
        _, state = operator.advance(rows, {}, Moment(0))
        _, state = operator.advance(rows, state, Moment(1))
        operator.advance(rows.slice(0, 0), state, Moment(1, closing=True))
