"""Rows in the order that operators want: key by key, by time within a key, ties in order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.binding import Int64Array, numbers, ranks, single
from trimtab.engine.lowered import is_string
from trimtab.engine.query import OrderKey

LARGE = 50_000
"""From here the compiled counting sort beats NumPy's stable sort by more than it costs to load."""


def key_codes(columns: Sequence[pa.ChunkedArray | pa.Array], n: int) -> tuple[Int64Array, int]:
    """A number per row that tells keys apart, counted in order of first appearance; nulls are a key."""
    codes = np.zeros(n, np.int64)
    count = 1 if n else 0
    for column in columns:
        array = single(column)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        encoded = array.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        if count <= 1:
            codes, count = own, len(encoded.dictionary)
            continue
        both = pa.array(codes * len(encoded.dictionary) + own).dictionary_encode()
        codes = both.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        count = len(both.dictionary)
    return codes, count


def by_key(codes: Int64Array, count: int) -> Int64Array:
    """The rows grouped by key, keeping their order within a key."""
    if count <= 1:
        return np.arange(len(codes))
    if len(codes) < LARGE:
        return np.argsort(codes, kind="stable")
    from trimtab.engine.sorting import counting_order

    order: Int64Array = counting_order(codes, count)
    return order


def in_order(columns: Sequence[pa.ChunkedArray | pa.Array], keys: Sequence[OrderKey]) -> Int64Array | None:
    """The rows sorted by the keys, stable; None if they are sorted already."""
    levels: list[npt.NDArray[Any]] = []  # most significant first
    for column, key in zip(columns, keys, strict=True):
        levels.extend(_levels(single(column), key))
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
    if is_string(array.type):
        found, _ = ranks({"x": array}, ())
        bound = found["x"]
    elif pa.types.is_decimal(array.type) or not pa.types.is_primitive(array.type):
        order = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
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
        values = -values.astype(np.int64)
    levels.append(values)
    return levels
