"""Spark's `xxhash64` over Arrow columns, bit for bit, without the JVM.

Hashes are chained: the hash of a row's value in one column is the seed of the next one, and a null leaves the seed as
it is. A struct is the chain of its fields, an array that of its elements. No Python loop goes over rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, canonical_floats, float64s, int64s, plain, plain_type, valid_mask
from trimtab.engine.columns.times import floor_us
from trimtab.engine.columns.xxhash64 import UInt8Array, UInt64Array, hashes_of_bytes, hashes_of_ints, hashes_of_longs

SEED = 42
"""What Spark's `xxhash64` starts with."""
LONG_DIGITS = 18
"""Spark keeps decimals up to this precision as whole numbers of 64 bits, and hashes them as such."""
_HALF = np.uint64(0xFFFFFFFF)


def seeds(count: int) -> UInt64Array:
    """What the chains of `count` rows start with."""
    return np.full(count, SEED, np.uint64)


def has_hash(kind: pa.DataType) -> bool:
    """Whether `chained` takes columns of this type. Spark has no hash of maps, nor of what contains one."""
    kind, types = plain_type(kind), pa.types
    if types.is_struct(kind):
        return all(has_hash(field.type) for field in kind)
    if is_list(kind):
        return has_hash(kind.value_type)
    if types.is_decimal(kind):
        return bool(kind.precision <= 38)
    is_float = types.is_float32(kind) or types.is_float64(kind)
    return bool(types.is_null(kind) or is_float or _is_int(kind) or _is_long(kind) or is_bytes(kind))


def chained(column: pa.Array | pa.ChunkedArray, before: UInt64Array) -> UInt64Array:
    """The hashes of the rows' values in a column, each with the hash `before` it as its seed."""
    array, types = plain(column), pa.types
    kind = array.type
    if types.is_null(kind):
        return before
    if types.is_struct(kind):
        after = before
        for number in range(kind.num_fields):
            after = chained(array.field(number), after)
        return np.where(valid_mask(array), after, before)
    if is_list(kind):
        return _chained_lists(array, before)
    if types.is_decimal(kind):
        return _chained_decimals(array.cast(pa.decimal128(kind.precision, kind.scale)), before)
    if is_bytes(kind):
        array = array.cast(pa.large_binary())
        return hashes_of_bytes(*large_bytes(array), valid_mask(array), before)
    if _is_int(kind):
        ints = int64s(array.cast(pa.date32()) if types.is_date64(kind) else array).view(np.uint64)
        return hashes_of_ints(ints & _HALF, valid_mask(array), before)
    if types.is_float32(kind):
        bits = canonical_floats(float64s(array)).astype(np.float32).view(np.uint32)
        return hashes_of_ints(bits.astype(np.uint64), valid_mask(array), before)
    numbers = canonical_floats(float64s(array)).view(np.int64) if types.is_float64(kind) else longs(array)
    return hashes_of_longs(numbers.view(np.uint64), valid_mask(array), before)


def is_list(kind: pa.DataType) -> bool:
    """Whether Spark has values of this type as arrays."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether the type is text or binary, in any of Arrow's layouts."""
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(is_text or is_binary or types.is_fixed_size_binary(kind))


def _is_int(kind: pa.DataType) -> bool:
    """Whether Spark hashes values of this type as 32 bits; it has no unsigned numbers."""
    return bool(pa.types.is_boolean(kind) or pa.types.is_date(kind) or kind in (pa.int8(), pa.int16(), pa.int32()))


def _is_long(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind))


def longs(array: pa.Array) -> Int64Array:
    """Whole numbers of 64 bits; times and durations in microseconds, as Spark has them."""
    values = int64s(array)
    if pa.types.is_int64(array.type) or array.type.unit == "us":
        return values
    if array.type.unit == "ns":
        return floor_us(values, pa.timestamp("ns"))
    return values * (1_000_000 if array.type.unit == "s" else 1_000)


def large_bytes(array: pa.Array) -> tuple[UInt8Array, Int64Array, Int64Array]:
    """The data of a large binary array, and where each value starts and ends in it."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return content, places[:-1], places[1:]


def list_places(array: pa.Array) -> tuple[Int64Array, Int64Array]:
    """Where each list of an array starts among its values, and how long it is; nulls are empty."""
    if not len(array):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    offsets = array.offsets.to_numpy().astype(np.int64)
    return offsets[:-1], np.where(valid_mask(array), np.diff(offsets), 0)


def _chained_lists(array: pa.Array, before: UInt64Array) -> UInt64Array:
    """First elements, then second ones, and so on: as many steps as the longest list has elements."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    starts, lengths = list_places(array)
    after = before.copy()
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        after[rows] = chained(array.values.take(pa.array(starts[rows] + place)), after[rows])
    return after


def _chained_decimals(array: pa.Array, before: UInt64Array) -> UInt64Array:
    """As whole numbers of 64 bits, or as the bytes of Java's BigInteger: the shortest, with the highest byte first."""
    valid, count = valid_mask(array), len(array)
    if not count:
        return before
    words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + count)]
    if array.type.precision <= LONG_DIGITS:
        return hashes_of_longs(words[::2].copy(), valid, before)
    content = words.reshape(count, 2)[:, ::-1].astype(">u8").view(np.uint8).reshape(count, 16)
    sign = np.where(content[:, :1] >= 128, 255, 0).astype(np.uint8)
    # A byte can be left out if it only repeats the sign, which the next byte's highest bit still tells.
    is_spare = (content[:, :-1] == sign) & ((content[:, 1:] ^ sign) < 128)
    spare = np.cumprod(is_spare, axis=1).sum(axis=1)
    starts = np.arange(count) * 16
    return hashes_of_bytes(content.ravel(), starts + spare, starts + 16, valid, before)
