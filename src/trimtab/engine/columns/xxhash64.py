"""The hash function XXH64 as kernels: of whole numbers and of bytes, each with a seed of its own.

Kernels of single values are right for whole arrays, too: that is how they run until there is machine code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.engine.columns.kernels import column_kernel_or
from trimtab.machine_code.kernel import kernel

UInt8Array = npt.NDArray[np.uint8]
UInt64Array = npt.NDArray[np.uint64]
Word = Any  # a uint64, or an array of them

_PRIME_1, _PRIME_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3, _PRIME_4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_FOUR, _EIGHT, _WORD_BITS = np.uint64(4), np.uint64(8), np.uint64(64)


@kernel
def rotated(value: Word, left: Word) -> Word:
    """The bits, `left` places further to the left."""
    return (value << left) | (value >> (_WORD_BITS - left))


@kernel
def finished(mixed: Word) -> Word:
    """The last step of every hash."""
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _PRIME_2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _PRIME_3
    return mixed ^ (mixed >> np.uint64(32))


@kernel
def with_word(mixed: Word, word: Word) -> Word:
    """Mix eight bytes in."""
    mixed = mixed ^ (rotated(word * _PRIME_2, np.uint64(31)) * _PRIME_1)
    return rotated(mixed, np.uint64(27)) * _PRIME_1 + _PRIME_4


@kernel
def with_half(mixed: Word, half: Word) -> Word:
    """Mix four bytes in."""
    return rotated(mixed ^ (half * _PRIME_1), np.uint64(23)) * _PRIME_2 + _PRIME_3


@kernel
def long_hash(value: Word, seed: Word) -> Word:
    """The hash of eight bytes."""
    return finished(with_word(seed + _PRIME_5 + _EIGHT, value))


@kernel
def int_hash(value: Word, seed: Word) -> Word:
    """The hash of four bytes."""
    return finished(with_half(seed + _PRIME_5 + _FOUR, value))


def _longs_at_once(values: UInt64Array, valid: BoolArray, before: UInt64Array) -> UInt64Array:
    return np.where(valid, long_hash.plain(values, before), before)


@column_kernel_or(_longs_at_once)
def hashes_of_longs(values: UInt64Array, valid: BoolArray, before: UInt64Array) -> UInt64Array:
    """The hashes of whole numbers of 64 bits; where there is none, the seed."""
    after = before.copy()
    for i in range(before.size):
        if valid[i]:
            after[i] = long_hash(values[i], before[i])
    return after


def _ints_at_once(values: UInt64Array, valid: BoolArray, before: UInt64Array) -> UInt64Array:
    return np.where(valid, int_hash.plain(values, before), before)


@column_kernel_or(_ints_at_once)
def hashes_of_ints(values: UInt64Array, valid: BoolArray, before: UInt64Array) -> UInt64Array:
    """The hashes of whole numbers of 32 bits, the lower half of each value; where there is none, the seed."""
    after = before.copy()
    for i in range(before.size):
        if valid[i]:
            after[i] = int_hash(values[i], before[i])
    return after


@kernel
def little_endian(data: UInt8Array, start: int, count: int) -> Word:
    """The number in `count` bytes, the lowest first."""
    number = np.uint64(0)
    for i in range(count):
        number |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return number


@kernel
def with_lane(lane: Word, word: Word) -> Word:
    """Mix eight bytes into one of the four lanes of a long text."""
    return rotated(lane + word * _PRIME_2, np.uint64(31)) * _PRIME_1


@kernel
def with_lanes(mixed: Word, lane: Word) -> Word:
    """Mix a lane into the others."""
    return (mixed ^ with_lane(np.uint64(0), lane)) * _PRIME_1 + _PRIME_4


@kernel
def bytes_hash(data: UInt8Array, start: int, end: int, seed: Word) -> Word:
    """The hash of the bytes from `start` up to `end`."""
    at, mixed = start, seed + _PRIME_5
    if end - start >= 32:
        first, second, third, fourth = seed + _PRIME_1 + _PRIME_2, seed + _PRIME_2, seed, seed - _PRIME_1
        while at + 32 <= end:
            first = with_lane(first, little_endian(data, at, 8))
            second = with_lane(second, little_endian(data, at + 8, 8))
            third = with_lane(third, little_endian(data, at + 16, 8))
            fourth = with_lane(fourth, little_endian(data, at + 24, 8))
            at += 32
        mixed = rotated(first, np.uint64(1)) + rotated(second, np.uint64(7))
        mixed += rotated(third, np.uint64(12)) + rotated(fourth, np.uint64(18))
        mixed = with_lanes(with_lanes(with_lanes(with_lanes(mixed, first), second), third), fourth)
    mixed += np.uint64(end - start)
    while at + 8 <= end:
        mixed = with_word(mixed, little_endian(data, at, 8))
        at += 8
    if at + 4 <= end:
        mixed = with_half(mixed, little_endian(data, at, 4))
        at += 4
    while at < end:
        mixed = rotated(mixed ^ (np.uint64(data[at]) * _PRIME_5), np.uint64(11)) * _PRIME_1
        at += 1
    return finished(mixed)


def _bytes_by_library(
    data: UInt8Array, starts: Int64Array, ends: Int64Array, valid: BoolArray, before: UInt64Array
) -> UInt64Array:
    """The plain twin: the same hash from a library in C, a third of a microsecond each."""
    content, after = np.ascontiguousarray(data).data, before.copy()
    rows = np.flatnonzero(valid)
    places = zip(starts[rows].tolist(), ends[rows].tolist(), before[rows].tolist(), strict=True)
    after[rows] = [xxhash.xxh64_intdigest(content[start:end], seed) for start, end, seed in places]
    return after


@column_kernel_or(_bytes_by_library)
def hashes_of_bytes(
    data: UInt8Array, starts: Int64Array, ends: Int64Array, valid: BoolArray, before: UInt64Array
) -> UInt64Array:
    """The hashes of the bytes from each start up to its end; where there are none, the seed.

    data                         (m,) the bytes of all values
    starts, ends, valid, before  (n,) a value each; what is before it is its seed
    """
    after = before.copy()
    for i in range(before.size):
        if valid[i]:
            after[i] = bytes_hash(data, starts[i], ends[i], before[i])
    return after


def load_machine_code() -> None:
    """Load the kernels, or compile them where that is allowed."""
    few, valid, places = np.zeros(2, np.uint64), np.ones(2, np.bool_), np.zeros(2, np.int64)
    hashes_of_longs(few, valid, few)
    hashes_of_ints(few, valid, few)
    hashes_of_bytes(np.zeros(2, np.uint8), places, places, valid, few)
