"""Which stream the demonstration shows: a typical one. What hashing loses is random: it depends on the seed.

Everything is computed from the shares of the cards and their key groups, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import xxhash

from trimtab.deciding.placement import Placement
from trimtab_lab.demo.payments import CARDS, card_name, card_shares, hot_first

KEY_GROUPS = 1024
SEED = 5
"""The result of `typical_seed(range(1000), (2, 4))`, as a test checks."""
SPARK_SEED = 42
"""The seed of Spark's xxhash64."""


def key_groups_of_cards() -> npt.NDArray[np.int64]:
    """The key group of each card: `pmod(xxhash64(card), key groups)`, as Spark computes it."""
    hashes = [xxhash.xxh64_intdigest(card_name(card).encode(), SPARK_SEED) for card in range(CARDS)]
    return np.array([each % KEY_GROUPS for each in hashes], np.int64)  # a power of 2: the hash's sign doesn't matter


def predicted_gains(
    engines: int, seeds: Iterable[int], shares: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.float64]:
    """For each seed, how many times as fast balanced engines are. `shares`: of the cards, if not those of the stream.

    The slowest engine's share of the work where hashing puts the keys, over the least possible share: an equal part for
    each engine, or the hottest key group's share if that is more.
    """
    shares = card_shares() if shares is None else shares
    groups, owner = key_groups_of_cards(), Placement.even(engines, KEY_GROUPS).array()
    gains = []
    for seed in seeds:
        loads = np.bincount(groups[hot_first(seed)], weights=shares, minlength=KEY_GROUPS)
        hashed = np.bincount(owner, weights=loads, minlength=engines).max()
        gains.append(hashed / max(1 / engines, loads.max()))
    return np.round(gains, 9)  # so that the same gain, summed in another order, is the same number


def percentiles(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """For each value, the percentage of all values that are below it; equal ones count half.

    >>> percentiles(np.array([3.0, 1.0, 2.0, 2.0])).tolist()
    [87.5, 12.5, 50.0, 50.0]
    """
    ordered = np.sort(values)
    below, up_to = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return np.asarray((below + up_to) * 50 / len(values))


def typical_seed(seeds: Iterable[int], engines: Iterable[int]) -> int:
    """The first of the seeds that are nearest to the median of the predicted gains, on each number of engines."""
    seeds = list(seeds)
    distances = [np.abs(percentiles(predicted_gains(number, seeds)) - 50.0) for number in engines]
    return seeds[int(np.argmin(np.max(distances, axis=0)))]
