"""Rows in the order that operators want: key by key, by time within a key, ties in order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.binding import Int64Array, numbers, ranks, single
from trimtab.engine.match.ir.query import OrderKey
from trimtab.engine.match.kernels.lowered import is_string
from trimtab.errors import InputError

SAMPLE = 1_000
"""So many rows show that columns don't depend on each other before all rows are looked at."""
LARGE = 50_000
"""From here the compiled counting sort beats NumPy's stable sort by more than it costs to load."""


def key_codes(columns: Sequence[pa.ChunkedArray | pa.Array], n: int) -> tuple[Int64Array, int]:
    """A number per row that tells keys apart, counted in order of first appearance; nulls are a key."""
    found = _codes_of_first(columns)
    if found is not None:
        return found
    codes = np.zeros(n, np.int64)
    count = 1 if n else 0
    for column in columns:
        array = single(column)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_floating(array.type):
            array = _one_zero(array)
        try:
            encoded = array.dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError as error:
            raise _unfit("PARTITION BY", array.type) from error
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        if count <= 1:
            codes, count = own, len(encoded.dictionary)
            continue
        both = pa.array(codes * len(encoded.dictionary) + own).dictionary_encode()
        codes = both.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        count = len(both.dictionary)
    return codes, count


def _codes_of_first(columns: Sequence[pa.ChunkedArray | pa.Array]) -> tuple[Int64Array, int] | None:
    """The keys where the first of several columns, whole numbers such as a hash, tells all of them apart already.

    None: it doesn't, or the columns are of types for which finding out takes as long as numbering them.
    """
    if (
        len(columns) < 2
        or not all(_is_compared(column) for column in columns)
        or not pa.types.is_int64(columns[0].type)
    ):
        return None
    arrays = [single(column) for column in columns]
    if len(arrays[0]) > 2 * SAMPLE and _codes_of_first([array.slice(0, SAMPLE) for array in arrays]) is None:
        return None
    encoded = arrays[0].dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    count = len(encoded.dictionary)
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    for array in arrays[1:]:
        # Every row must have what the first row of its number has.
        expected = array.take(pa.array(first)).take(encoded.indices)
        if not pc.all(pc.equal(array, expected), min_count=0).as_py():
            return None
    return codes, count


def _is_compared(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether values are the same key exactly where they are equal."""
    kind, types = column.type, pa.types
    plain = types.is_integer(kind) or types.is_temporal(kind) or types.is_boolean(kind) or types.is_string(kind)
    return plain and not column.null_count and not types.is_interval(kind)


def _one_zero(array: pa.Array) -> pa.Array:
    """The floats with 0.0 for -0.0 and one NaN for all of them: equal values are one key, as in Spark."""
    values = array.cast(pa.float64())
    return pc.if_else(pc.is_nan(values), np.nan, pc.add(values, 0.0))


def _unfit(clause: str, type_: pa.DataType) -> InputError:
    hint = "choose a column of plain values, or make one in a sub-select"
    return InputError("input.type", f"{clause} a column of type {type_}", hint)


def by_key(codes: Int64Array, count: int) -> Int64Array:
    """The rows grouped by key, keeping their order within a key."""
    if count <= 1:
        return np.arange(len(codes))
    if len(codes) < LARGE:
        return np.argsort(codes, kind="stable")
    from trimtab.engine.columns.sorting import counting_order

    order: Int64Array = counting_order(codes, count)
    return order


def in_order(columns: Sequence[pa.ChunkedArray | pa.Array], keys: Sequence[OrderKey]) -> Int64Array | None:
    """The rows sorted by the keys, stable; None if they are sorted already."""
    return sorted_by(sort_levels(columns, keys))


def sort_levels(columns: Sequence[pa.ChunkedArray | pa.Array], keys: Sequence[OrderKey]) -> list[npt.NDArray[Any]]:
    """Arrays that sort, ascending, as the keys want; the most significant first."""
    levels: list[npt.NDArray[Any]] = []
    for column, key in zip(columns, keys, strict=True):
        levels.extend(_levels(single(column), key))
    return levels


def sorted_by(levels: Sequence[npt.NDArray[Any]]) -> Int64Array | None:
    """The rows sorted by the levels, stable; None if they are sorted already."""
    if not levels or len(levels[0]) < 2:
        return None
    if len(levels) == 1:
        values = levels[0]
        if bool(np.all(values[1:] >= values[:-1])):
            return None
        return np.argsort(values, kind="stable")
    return np.lexsort(levels[::-1])


def _levels(array: pa.Array, key: OrderKey) -> list[npt.NDArray[Any]]:
    """Arrays to sort by, ascending, for one key: where nulls go first, then the values."""
    if pa.types.is_dictionary(array.type) and not is_string(array.type):
        array = array.dictionary_decode()
    if is_string(array.type):
        found, _ = ranks({"x": array}, ())
        bound = found["x"]
    elif pa.types.is_null(array.type):
        bound = numbers(array)
    elif _is_ranked(array.type):
        try:
            order = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
        except pa.ArrowNotImplementedError as error:
            raise _unfit("ORDER BY", array.type) from error
        bound = numbers(order)
        bound = type(bound)(bound.values, numbers(array.is_null()).values.astype(bool) if array.null_count else None)
    else:
        bound = numbers(array)
    values = bound.values
    if values.dtype.kind == "f" and (key.descending or np.isnan(values).any()):
        _, values = np.unique(values, return_inverse=True)  # NaN last, that is largest
    levels: list[npt.NDArray[Any]] = []
    if bound.nulls is not None:
        levels.append(bound.nulls != key.nulls_first)
    if key.descending:
        values = ~values  # not the negative: the smallest integer has none, nor have unsigned ones
    levels.append(values)
    return levels


def _is_ranked(type_: pa.DataType) -> bool:
    """Whether values are put in order by Arrow, because they are not held as numbers."""
    types = pa.types
    if types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_):
        return False
    return not (types.is_timestamp(type_) or types.is_date(type_) or types.is_duration(type_))
