"""The keys of tweets: signatures by random hyperplanes, so that similar tweets tend to share a key.

Each bit says on which side of a hyperplane the vector of a tweet's term counts lies. Two tweets with the angle a
between them agree in a bit with probability 1 - a / pi (Charikar 2002), so in all 12 bits with its twelfth power:
1 for equal tweets, 0.155 for a cosine of 0.9, and 1 / 4,096 for tweets without a common term.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
from numba import njit

from trimtab_lab.workloads.nearest_tweet import Int32Array, Int64Array

BITS = 12
KEYS = 1 << BITS

_ROWS = 1 << 16
_SCALE = 2048.0


def fingerprints(terms: Int32Array, starts: Int64Array, seed: int = 0) -> Int32Array:
    """The key of each tweet, from 0 to 4,095; `starts` has where each one's terms begin, and where the last one's end.

    >>> fingerprints(np.array([7, 9, 9, 7], np.int32), np.array([0, 2, 4])).tolist()  # the order makes no difference
    [762, 762]
    """
    return _signatures(terms, starts, hyperplanes(seed))


@functools.lru_cache(maxsize=4)
def hyperplanes(seed: int) -> npt.NDArray[np.int16]:
    """What a term adds to each bit's sum: normally distributed, in one of 65,536 rows, which the term's hash selects.

    Integers, so that sums don't depend on the order of the terms.
    """
    drawn = np.random.default_rng(seed).standard_normal((_ROWS, BITS))
    return np.rint(drawn * _SCALE).astype(np.int16)


@njit(cache=True, nogil=True)
def _signatures(terms: Int32Array, starts: Int64Array, planes: npt.NDArray[np.int16]) -> Int32Array:
    found = np.empty(starts.size - 1, np.int32)
    bits = planes.shape[1]
    sums = np.empty(bits, np.int64)
    for tweet in range(found.size):
        sums[:] = 0
        for i in range(starts[tweet], starts[tweet + 1]):
            product = np.uint64(np.uint32(terms[i])) * np.uint64(2654435769)
            row = (product >> np.uint64(16)) & np.uint64(0xFFFF)
            for bit in range(bits):
                sums[bit] += planes[row, bit]
        signature = 0
        for bit in range(bits):
            signature = 2 * signature + (sums[bit] >= 0)
        found[tweet] = signature
    return found
