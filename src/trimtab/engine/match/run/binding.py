"""Arrow columns as the numbers that the kernels of patterns compute with, and back.

Booleans become 0 and 1, dates days, timestamps and intervals microseconds, decimals scaled integers, strings their
ranks among all strings at hand (exact: equal ranks are equal strings and smaller ranks are smaller strings).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import BoolArray, Int64Array, is_string, null_mask, single
from trimtab.engine.columns.times import times_us

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Bound:
    """A column's numbers, and where it is null (None: nowhere)."""

    values: npt.NDArray[Any]
    nulls: BoolArray | None


def numbers(column: pa.ChunkedArray | pa.Array) -> Bound:
    """A column that is not text, as numbers."""
    array = single(column)
    nulls = null_mask(array)
    type_ = array.type
    if pa.types.is_decimal(type_):
        return Bound(_scaled(array, nulls), nulls)
    if pa.types.is_null(type_):
        return Bound(np.zeros(len(array), np.int64), nulls)
    if pa.types.is_timestamp(type_):
        return Bound(*times_us(array))
    if pa.types.is_boolean(type_):
        array = pc.cast(array, pa.uint8())
    elif pa.types.is_duration(type_):
        array = array.cast(pa.duration("us")).view(pa.int64())
    elif pa.types.is_date64(type_):
        array = array.cast(pa.date32()).view(pa.int32())
    elif pa.types.is_date32(type_):
        array = array.view(pa.int32())
    if nulls is not None:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        values = values.astype(np.float64, copy=False)
    return Bound(values, nulls)


def joined(parts: Sequence[Bound]) -> Bound:
    """The numbers of several columns, one after another."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    if all(part.nulls is None for part in parts):
        return Bound(values, None)
    masks = [np.zeros(len(part.values), np.bool_) if part.nulls is None else part.nulls for part in parts]
    return Bound(values, np.concatenate(masks))


def magnitude(values: npt.NDArray[Any]) -> int:
    """The largest absolute value of integers; 0 for floats."""
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size and values.dtype.kind != "f" else 0


def _scaled(array: pa.Array, nulls: BoolArray | None) -> Int64Array:
    """The unscaled integers of a decimal column; the high half must be the sign of the low one."""
    if array.type.bit_width != 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    if not len(array):
        return np.zeros(0, np.int64)
    halves = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    halves = halves[array.offset : array.offset + len(array)]
    low, high = halves[:, 0].copy(), halves[:, 1]
    if nulls is not None:
        low[nulls] = 0
        high = np.where(nulls, 0, high)
    assert np.array_equal(high, low >> 63), "more than 18 digits"
    return low


def decimals(values: Int64Array, nulls: BoolArray | None, type_: pa.DataType) -> pa.Array:
    """Scaled integers as a decimal column."""
    halves = np.stack([values, values >> 63], axis=1)
    validity = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(halves.tobytes())])


def ranks(
    columns: Mapping[Name, pa.ChunkedArray | pa.Array], constants: Sequence[str]
) -> tuple[dict[Name, Bound], Int64Array]:
    """Text columns and constants as ranks among all their values."""
    if not columns and not constants:
        return {}, np.zeros(0, np.int64)
    encoded: dict[Name, tuple[pa.Array, BoolArray | None]] = {}
    words: list[pa.Array] = [pa.array(list(constants), pa.string())]
    for name, column in columns.items():
        array = single(column)
        assert is_string(array.type)
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        encoded[name] = (array, null_mask(array))
        words.append(array.dictionary.cast(pa.string()))
    everything = pa.concat_arrays(words)
    distinct = pc.unique(everything)
    order = pc.array_sort_indices(distinct)  # by bytes, as Spark compares
    rank = np.empty(len(distinct), np.int64)
    rank[order.to_numpy()] = np.arange(len(distinct))
    bound: dict[Name, Bound] = {}
    for (name, (array, nulls)), dictionary in zip(encoded.items(), words[1:], strict=True):
        positions = pc.index_in(dictionary, distinct).to_numpy(zero_copy_only=False)
        mapped = rank[positions] if len(dictionary) else np.zeros(1, np.int64)
        codes = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
        bound[name] = Bound(mapped[codes], nulls)
    constant_positions = pc.index_in(words[0], distinct).to_numpy(zero_copy_only=False)
    return bound, rank[constant_positions] if constants else np.zeros(0, np.int64)
