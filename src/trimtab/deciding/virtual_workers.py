"""Virtual workers: how many an engine has, and in which order a key asks them.

An engine has as many as its capacity deserves. Each key has its own order of them all, by a hash of both (rendezvous),
so when an engine comes or goes the others keep their order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from trimtab.deciding.placement import MOST_SPREAD

MULTIPLIERS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SHIFTS = 30, 27, 31
_ALL_BITS = 0xFFFFFFFFFFFFFFFF


def mix_plain(word: int) -> int:
    """Scramble 64 bits so that each depends on all: a bijection (the finaliser of splitmix64)."""
    word &= _ALL_BITS
    for shift, multiplier in zip(SHIFTS[:2], MULTIPLIERS, strict=True):
        word = ((word ^ (word >> shift)) * multiplier) & _ALL_BITS
    return word ^ (word >> SHIFTS[2])


@lru_cache(maxsize=4 * MOST_SPREAD)
def hashed_order(slot: int, workers: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """Workers, each an engine and a number there, in the order of a key's own."""
    word = mix_plain(slot)
    engines = {engine: mix_plain(word + engine + 1) for engine, _ in workers}
    return sorted(workers, key=lambda worker: mix_plain(engines[worker[0]] + worker[1]))


def first_owners(capacities: npt.NDArray[np.float64], virtual_workers: int) -> npt.NDArray[np.int32]:
    """Deal `virtual_workers` for each worker on average, in proportion to the capacities, by largest remainders.

    Every worker with any capacity gets one at least.

    >>> first_owners(np.array([2.0, 1.0, 0.0]), 2).tolist()
    [0, 0, 0, 0, 1, 1]
    """
    total = virtual_workers * capacities.size
    some = capacities > 0
    wanted = capacities * (total / capacities.sum())
    held = np.where(some, np.maximum(np.floor(wanted), 1), 0).astype(np.int64)
    missing = max(0, total - int(held.sum()))
    held[np.argsort(held - wanted, kind="stable")[:missing]] += 1
    while held.sum() > total:  # the ones that every worker gets were too many
        held[np.argmax(np.where(held > 1, held - wanted, -np.inf))] -= 1
    return np.repeat(np.arange(capacities.size, dtype=np.int32), held)
