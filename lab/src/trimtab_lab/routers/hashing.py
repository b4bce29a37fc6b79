"""Hashes of keys, and how a hash becomes a worker; all routers draw workers with these functions.

A key has one unbounded row of workers: `mixed` gives a word whose two halves are the first two of them, and each
`mixed_again` the next two. Key grouping uses the first of the row (the paper calls it the principal worker), two
choices the first two, random choices as many as it needs.
"""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trimtab.deciding.spreading import MULTIPLIERS, SHIFTS, mix_plain
from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.router import Float64Array, Int32Array

UInt64Array = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
_FIRST, _SECOND = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
_BEFORE, _BETWEEN, _AFTER = (np.uint64(shift) for shift in SHIFTS)


@kernel
def mix(word: np.uint64) -> np.uint64:
    """`mix_plain`, compiled."""
    word = (word ^ (word >> _BEFORE)) * _FIRST
    word = (word ^ (word >> _BETWEEN)) * _SECOND
    return word ^ (word >> _AFTER)


@kernel
def mixed(key: np.int64, seed: np.uint64) -> np.uint64:
    """The key's word: its halves are the first two of its row."""
    found: np.uint64 = mix(np.uint64(key) ^ seed)
    return found


@kernel
def mixed_again(word: np.uint64, salt: np.uint64) -> np.uint64:
    """The word of the two workers number 2 * salt and 2 * salt + 1 of the row; salt 0 is `word` itself."""
    found: np.uint64 = mix(word + salt * GOLDEN)
    return found


@kernel
def pick(half: np.uint64, thresholds: UInt64Array, aliases: Int32Array) -> int:
    """A worker for 32 bits of hash, each worker as often as its capacity says (Walker's alias method)."""
    scaled = half * np.uint64(thresholds.size)  # multiply and shift: no division
    slot = scaled >> HALF
    if (scaled & LOW) < thresholds[slot]:
        return int(np.int64(slot))
    return int(np.int64(aliases[slot]))


def seed_word(seed: int, purpose: int = 0) -> np.uint64:
    """A seed as a well mixed word, another one for each purpose.

    >>> int(seed_word(0)) == int(seed_word(0)), int(seed_word(0)) == int(seed_word(1))
    (True, False)
    """
    return np.uint64(mix_plain(mix_plain(seed + int(GOLDEN)) + purpose * int(GOLDEN)))


def alias_table(capacities: Float64Array) -> tuple[UInt64Array, Int32Array]:
    """The two columns of `pick`: slot s stands for worker s below its threshold (of 2**32) and for its alias above.

    A worker with no capacity is never picked. Time O(n log n). Reference: Walker (1977), Vose (1991).

    >>> thresholds, aliases = alias_table(np.array([3.0, 1.0]))
    >>> [int(t) / 2**32 for t in thresholds], aliases.tolist()
    ([1.0, 0.5], [0, 0])
    """
    scaled = capacities * (capacities.size / capacities.sum())
    # The emptiest first: those with no capacity must find a partner while there is one.
    order = np.argsort(scaled, kind="stable")
    small = [int(w) for w in order[::-1] if scaled[w] < 1]
    large = [int(w) for w in order if scaled[w] >= 1]
    thresholds = np.full(capacities.size, 1 << 32, np.uint64)
    aliases = np.arange(capacities.size, dtype=np.int32)
    while small and large:
        slot, giver = small.pop(), large[-1]
        thresholds[slot] = round(scaled[slot] * 2**32)
        aliases[slot] = giver
        scaled[giver] -= 1 - scaled[slot]
        if scaled[giver] < 1:
            small.append(large.pop())
    return thresholds, aliases
