"""Synthetic words: every number stands for one, whose term is its checksum by Spark's `crc32`.

So `transform(split(text, ' '), word -> CAST(crc32(word) AS INT))` gives the terms of a text.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit

from trimtab_lab.workloads.nearest_tweet import Int32Array, Int64Array

_SYLLABLES = tuple(a + b for a in "bcdfghjklmnpqrstvwxz" for b in "aeiou")
_LETTERS = np.array([[ord(letter) for letter in each] for each in _SYLLABLES], np.uint8)


def word(number: int) -> str:
    """The word of a number: its digits in base 100 as syllables, the last one first, at least two of them.

    >>> word(0), word(7), word(123_456)
    ('baba', 'ciba', 'pejudi')
    """
    parts: list[str] = []
    while number or len(parts) < 2:
        number, digit = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[digit])
    return "".join(parts)


def terms_of(numbers: Int64Array) -> Int32Array:
    """The terms of words: the CRC-32 of their letters.

    >>> import zlib
    >>> int(terms_of(np.array([123_456]))[0]) & 0xFFFFFFFF == zlib.crc32(word(123_456).encode())
    True
    """
    found: Int32Array = _checksums(numbers, _LETTERS, _crc_table())
    return found


def _crc_table() -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """CRC-32 of every byte, as in IEEE 802.3."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(0xEDB88320), table >> np.uint32(1))
    return table


@njit(cache=True, nogil=True)
def _checksums(numbers, letters, table):
    found = np.empty(numbers.size, np.int32)
    base = letters.shape[0]
    for i in range(numbers.size):
        left, syllables, crc = numbers[i], 0, np.uint32(0xFFFFFFFF)
        while left > 0 or syllables < 2:
            for letter in letters[left % base]:
                crc = table[(crc ^ letter) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
            left //= base
            syllables += 1
        found[i] = np.int32(crc ^ np.uint32(0xFFFFFFFF))
    return found
