"""Arrow columns as numpy arrays: one array per column, validity, whole numbers and doubles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def single(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    # combine_chunks keeps the type even if there are no chunks.
    column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # too large for one array of 32-bit offsets
        column = pa.concat_arrays(column.chunks)
    return column


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array, dictionaries decoded."""
    array = single(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of what `plain` returns."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_string(kind: pa.DataType) -> bool:
    """Whether the type is text, in any of Arrow's layouts."""
    kind = plain_type(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def valid_mask(array: pa.Array) -> BoolArray:
    """True where there is a value."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def null_mask(array: pa.Array) -> BoolArray | None:
    """True where there is no value; None: there are no nulls."""
    return ~valid_mask(array) if array.null_count else None


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


def canonical_nans(array: pa.Array) -> pa.Array:
    """The array with the same bits for all NaNs; otherwise the bits would depend on the order of the rows."""
    if not pa.types.is_floating(array.type):
        return array
    values = float64s(array)
    if not np.isnan(values).any():
        return array
    return pa.array(np.where(np.isnan(values), np.nan, values), mask=null_mask(array)).cast(array.type)


def canonical_floats(values: FloatArray) -> FloatArray:
    """The doubles with 0.0 for -0.0 and the same bits for all NaNs: numbers that are equal in SQL have equal bits.

    >>> canonical_floats(np.array([-0.0, 1.5])).tolist()
    [0.0, 1.5]
    """
    with np.errstate(invalid="ignore"):  # numpy warns when it adds to some NaNs
        return np.where(np.isnan(values), np.nan, values + 0.0)


def canonical(array: pa.Array) -> pa.Array:
    """The array with `canonical_floats`; equal values of other types have equal bits anyway."""
    if not pa.types.is_floating(array.type):
        return array
    return pa.array(canonical_floats(float64s(array)), mask=null_mask(array)).cast(array.type)


def repeat_constant(value: object, kind: pa.DataType, count: int) -> pa.Array:
    """A column of one value."""
    return pa.repeat(pa.scalar(value, kind), count) if count else pa.array([], kind)


def take(column: pa.ChunkedArray | pa.Array, rows: Int64Array) -> pa.Array:
    """The values at some rows; a negative row gives null."""
    missing = rows < 0
    return single(column).take(pa.array(rows, mask=missing) if missing.any() else pa.array(rows))
