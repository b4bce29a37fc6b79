"""The order of values, the same as Spark's: for ORDER BY, for ties, and for the smallest and the largest.

0.0 and -0.0 are equal. All NaNs are equal, and larger than any other number. Text is ordered by its bytes. Nulls come
first or last, as the key specifies. Rows that are equal in all keys are in order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import FloatArray, Int64Array, canonical_floats, float64s, int64s, single, valid_mask
from trimtab.engine.signature import signed
from trimtab.errors import InputError


@signed("order")
@dataclass(frozen=True, slots=True)
class OrderKey:
    """A column to order by."""

    column: str
    descending: bool = False
    nulls_first: bool = True


def order_codes(array: pa.Array) -> Int64Array:
    """Whole numbers that sort as the values do; equal values have equal codes. Nulls are 0.

    >>> order_codes(pa.array([-0.0, 0.0, -1.0])).tolist()[:2], order_codes(pa.array(["b", "a", "b"])).tolist()
    ([0, 0], [2, 1, 2])

    Raises InputError `input.type` for a type without an order.
    """
    kind = array.type
    if pa.types.is_floating(kind):
        return _float_codes(canonical_floats(float64s(array)))
    if pa.types.is_uint64(kind):
        return int64s(array) ^ np.int64(-(2**63))
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or is_counted_time(kind):
        return int64s(array)
    return _ranks(array)


def choice_codes(array: pa.Array) -> Int64Array:
    """As `order_codes`, but -0.0 comes before 0.0.

    For the smallest and the largest of values that several engines have gathered, so that their order is lost: of two
    equal values, every engine must choose the same one.
    """
    if not pa.types.is_floating(array.type):
        return order_codes(array)
    values = float64s(array)
    return _float_codes(np.where(np.isnan(values), np.nan, values))


def is_counted_time(kind: pa.DataType) -> bool:
    """Whether values are times or durations that Arrow holds as one number."""
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _float_codes(values: FloatArray) -> Int64Array:
    bits = values.view(np.int64)
    # The bits of negative numbers descend.
    return bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))


def _ranks(array: pa.Array) -> Int64Array:
    """The rank of every value among the distinct ones: repeated values are compared once."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    try:
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        ranks = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    except pa.ArrowNotImplementedError as error:
        raise unfit("ORDER BY", array.type) from error
    if not len(ranks):
        return np.zeros(len(array), np.int64)
    indices = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return np.where(valid_mask(array), ranks[indices], 0) if array.null_count else ranks[indices]


def unfit(clause: str, kind: pa.DataType) -> InputError:
    """The error for a column that a clause can't use."""
    hint = "choose a column of plain values, or make one in a sub-select"
    return InputError("input.type", f"{clause} a column of type {kind}", hint)


def sort_levels(columns: Sequence[pa.Array | pa.ChunkedArray], keys: Sequence[OrderKey]) -> list[Int64Array]:
    """Whole numbers that, sorted ascending, sort rows by the keys; the most significant first.

    Rows are equal in the order if they are equal in all levels.
    """
    return [level for column, key in zip(columns, keys, strict=True) for level in key_levels(column, key)]


def key_levels(column: pa.Array | pa.ChunkedArray, key: OrderKey) -> list[Int64Array]:
    """The levels of one key: whether it is null, if there are nulls, and the values."""
    array = single(column)
    if pa.types.is_dictionary(array.type) and (
        array.dictionary.null_count or pa.types.is_floating(array.type.value_type)
    ):
        array = array.dictionary_decode()
    codes = order_codes(array)
    if key.descending:
        codes = ~codes  # not the negative: the smallest integer has no negative
    if not array.null_count:
        return [codes]
    valid = valid_mask(array)
    return [(valid == key.nulls_first).astype(np.int64), np.where(valid, codes, 0)]


def sorted_by(levels: Sequence[Int64Array]) -> Int64Array | None:
    """The rows sorted by the levels, ties in their present order; None: they are sorted already.

    A stream is nearly in order, and a level that is sorted already costs only one comparison per row.
    """
    order: Int64Array | None = None
    for level in reversed(levels):
        values = level if order is None else level[order]
        if not bool(np.all(values[1:] >= values[:-1])):
            by_level = np.argsort(values, kind="stable")
            order = by_level if order is None else order[by_level]
    return order


def stable_order(levels: Sequence[Int64Array], count: int) -> Int64Array:
    """The rows sorted by the levels, ties in their present order."""
    order = sorted_by(levels)
    return np.arange(count) if order is None else order


def in_order(columns: Sequence[pa.Array | pa.ChunkedArray], keys: Sequence[OrderKey]) -> Int64Array | None:
    """The rows sorted by the keys, ties in their present order; None: they are sorted already."""
    return sorted_by(sort_levels(columns, keys))


def arrival_order(levels: Sequence[Int64Array], arrivals: Int64Array) -> Int64Array:
    """The rows sorted by the levels, ties in order of arrival.

    Arrivals may be hashes, in no order at all, and rows seldom tie: so only those that do are sorted by them.

    >>> arrival_order([np.array([5, 3, 5, 3])], np.array([9, 2, 1, 3])).tolist()
    [1, 3, 2, 0]
    """
    return ties_by_arrival(stable_order(levels, len(arrivals)), levels, arrivals)


def ties_by_arrival(order: Int64Array, levels: Sequence[Int64Array], arrivals: Int64Array) -> Int64Array:
    """Rows that are sorted by the levels, with those that tie in order of arrival; others keep their places.

    >>> order, level, key = np.array([0, 2, 1, 3]), np.array([5, 5, 5, 6]), np.array([0, 1, 0, 1])
    >>> ties_by_arrival(order, [level, key], np.array([9, 2, 1, 0]))
    array([2, 0, 1, 3])
    """
    # Mostly there are no ties, or they are in order already.
    if not (arrivals[order[1:]] < arrivals[order[:-1]]).any():
        return order
    return ties_of(order, levels).by_arrival(order, arrivals)


class Ties(NamedTuple):
    """Rows that tie: their places in an order, and for each place the number of the run of equal rows that it is in."""

    places: Int64Array
    runs: Int64Array

    def by_arrival(self, order: Int64Array, arrivals: Int64Array) -> Int64Array:
        """The order in which these places were found, with the rows that tie in order of arrival."""
        if not len(self.places):
            return order
        rows = order[self.places]
        order = order.copy()
        order[self.places] = rows[np.lexsort((arrivals[rows], self.runs))]
        return order


def ties_of(order: Int64Array, levels: Sequence[Int64Array]) -> Ties:
    """Which rows are equal in all levels to one beside them, in an order that has equal rows side by side."""
    same = np.ones(max(len(order) - 1, 0), np.bool_)  # whether a row ties with the one before it
    for level in levels:
        if not same.any():
            break
        values = level[order]
        same &= values[1:] == values[:-1]
    if not same.any():
        return Ties(order[:0], order[:0])
    places = np.flatnonzero(np.append(same, False) | np.append(False, same))
    return Ties(places, np.cumsum(np.append(True, ~same))[places])


def are_comparable(columns: Sequence[pa.Array | pa.ChunkedArray]) -> bool:
    """Whether the levels of these columns can be compared with those of other rows, which are made on their own."""
    return all(_is_comparable(column) for column in columns)


def _is_comparable(column: pa.Array | pa.ChunkedArray) -> bool:
    kind = column.type
    simple = pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_counted_time(kind)
    return simple and not column.null_count
