"""Arrow columns as numpy arrays: validity, numbers, and codes that sort as the values do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.frozen import frozen_arguments
from trimtab.machine_code.kernel import kernel

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array, dictionaries decoded."""
    if isinstance(column, pa.ChunkedArray):
        # combine_chunks of no chunks at all still knows its type.
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # too large for one array of 32-bit offsets
            column = pa.concat_arrays(column.chunks)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of what `plain` gives."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def valid_mask(array: pa.Array) -> BoolArray:
    """True where there is a value."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def int64s(array: pa.Array) -> Int64Array:
    """The array's whole numbers (times as their count of units); nulls as 0."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(kind):
        array = array.view(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, 0)
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def float64s(array: pa.Array) -> FloatArray:
    """The array's numbers as doubles; nulls as 0."""
    array = array.cast(pa.float64(), safe=False)
    if array.null_count:
        array = pc.fill_null(array, 0.0)
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)


def order_codes(array: pa.Array) -> Int64Array:
    """Whole numbers that sort as the values do; equal values have equal codes. Nulls are 0.

    Doubles are in their total order: -0.0 before 0.0, and every NaN is the one largest value, as in
    Spark. Of two values that tie, min and max could otherwise return either.
    """
    kind = array.type
    if pa.types.is_uint64(kind):
        return int64s(array) ^ np.int64(-(2**63))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return int64s(array)
    if pa.types.is_floating(kind):
        values = float64s(array)
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    ranks = pc.rank(array, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(valid_mask(array), ranks, 0)


def sort_columns(array: pa.Array, *, descending: bool = False, nulls_first: bool = True) -> list[Int64Array]:
    """Columns of whole numbers, most significant first, whose order is the order wanted."""
    codes = order_codes(array)
    if descending:
        codes = ~codes
    if not array.null_count:
        return [codes]
    valid = valid_mask(array)
    flag = (valid if nulls_first else ~valid).astype(np.int64)
    return [flag, np.where(valid, codes, 0)]


def stable_order(columns: Sequence[Int64Array], count: int) -> Int64Array:
    """The permutation that sorts by the columns, most significant first; ties keep their order.

    A stream is nearly in order already: what is sorted is only looked at once.
    """
    order = np.arange(count)
    for column in reversed(columns):
        values = column[order]
        if not bool(np.all(values[1:] >= values[:-1])):
            order = order[np.argsort(values, kind="stable")]
    return order


@frozen_arguments
@kernel
def counting_order(codes: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
    """Sort by small whole numbers, ties in order.

    codes   (n,)        in [0, count)
    order   (n,)        the permutation
    starts  (count + 1) where each code starts in it
    """
    starts = np.zeros(count + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for i in range(count):
        starts[i + 1] += starts[i]
    place = starts.copy()
    order = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        order[place[codes[i]]] = i
        place[codes[i]] += 1
    return order, starts


@frozen_arguments
@kernel
def first_rows(codes: Int64Array, count: int) -> Int64Array:
    """The first row of every code in [0, count), or -1."""
    rows = np.full(count, -1, np.int64)
    for i in range(codes.size - 1, -1, -1):
        rows[codes[i]] = i
    return rows
