"""The power of random choices: a key goes to the first of its unbounded row of workers that has room."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter, checked_option
from trimtab_lab.routers.decay import HUGE, SHRINK, growth_per_message, shrink
from trimtab_lab.routers.hashing import HALF, LOW, UInt64Array, alias_table, mixed, mixed_again, pick
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array
from trimtab_lab.routers.sources import first_of
from trimtab_lab.routers.spare import Memo, least_full, new_memos, pace

_ONE = np.uint64(1)
_PATIENCE = np.uint64(2)  # words (of two workers each) to try before the memo is used: most keys find room sooner


class RandomChoices(CountingRouter):
    """PoRC: the key and a salt are hashed, with the next salt as long as the worker drawn is full.

    A worker is full when it has (1 + epsilon) times its share of the messages so far, the one in hand included.
    With one source no worker is therefore ever above `(1 + epsilon) * share + 1` messages, after any message, also
    where capacities differ and where loads decay; each further source adds one message to that. Heavy keys spread over
    as many workers as they need, light ones mostly stay on one: memory close to key grouping's. A larger epsilon
    means less memory and less balance.

    Args:
        workers: how many there are.
        epsilon: how far a worker's load may be above its share, as a fraction of it.
        sources: how many sources the messages come from in turn; each knows only what it sent itself.
        max_rehash: after this many draws (rounded up to an even number) the least full worker of all takes the message,
            so that the bound holds at any cap. None: ten draws per worker, which practically never happens.
        seed: decides the assignment of keys.
        capacities: how strong each worker is, in any unit.
        half_life: after how many messages a load counts half.
        count_replicas: keep the set of (key, worker) pairs.

    >>> router = RandomChoices(4, epsilon=0.1, seed=1)
    >>> router.route(np.array([5, 5, 5, 5, 6, 7])).tolist()
    [3, 2, 0, 3, 2, 0]
    >>> _ = router.route(np.zeros(10_000, np.int64))
    >>> router.imbalance <= 0.1 + 4 / router.messages
    True

    Reference: Nasir et al. (2017), section V-A, Algorithm 1.
    """

    def __init__(
        self,
        workers: int,
        *,
        epsilon: float = 0.01,
        sources: int = 1,
        max_rehash: int | None = None,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        super().__init__(workers, seed=seed, capacities=capacities, half_life=half_life, count_replicas=count_replicas)
        checked_option("epsilon", epsilon, 0)
        checked_option("sources", sources, 1)
        self._max_words = _words_of(max_rehash, workers)
        self._thresholds, self._aliases = alias_table(self._capacities)
        self._paces = pace(self._capacities / self._capacities.sum(), epsilon)
        self._known_loads: Float64Array = np.zeros((sources, workers))
        self._totals: Float64Array = np.zeros(sources)
        self._weights: Float64Array = np.ones(sources)
        self._source_growth = growth_per_message(half_life, sources)
        self._memos = new_memos(sources)

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        _choose(
            keys,
            chosen,
            self._seed,
            self._thresholds,
            self._aliases,
            self._paces,
            self._known_loads,
            self._totals,
            self._weights,
            self._source_growth,
            self._max_words,
            self._memos,
            self._messages,
        )


def _words_of(max_rehash: int | None, workers: int) -> np.uint64:
    """The cap on draws as a number of words, each of which is two draws."""
    if max_rehash is None:
        return np.uint64(max(8, 5 * workers))
    checked_option("max_rehash", max_rehash, 1)
    return np.uint64((max_rehash + 1) // 2)


@kernel
def _choose(  # noqa: C901 - the walk as a function of its own, with all these arrays, would double the time
    keys: Int64Array,
    chosen: Int32Array,
    seed: np.uint64,
    thresholds: UInt64Array,
    aliases: Int32Array,
    paces: Float64Array,
    known_loads: Float64Array,
    totals: Float64Array,
    weights: Float64Array,
    growth: float,
    max_words: np.uint64,
    memos: Memo,
    messages: int,
) -> None:
    """Walk each key's row to the first worker that is not full. There always is one: the loads' sum is below the total.

    known_loads      (sources, workers) loads as each source knows them
    totals, weights  (sources,) the sum of its loads, and the weight of its last message
    """
    sources = totals.size
    for source in range(sources):
        loads, total, weight = known_loads[source], totals[source], weights[source]
        words, skips, untils = memos[0][source], memos[1][source], memos[2][source]
        slot_mask = np.uint64(words.size - 1)
        for i in range(first_of(source, messages, sources), keys.size, sources):
            weight *= growth
            if weight > HUGE:
                shrink(loads)
                shrink(untils)
                weight *= SHRINK
                total *= SHRINK
            total += weight
            word = mixed(keys[i], seed)
            worker = pick(word >> HALF, thresholds, aliases)  # the principal worker, which mostly takes it
            if not loads[worker] * paces[worker] < total:
                slot, salt, until, salted = word & slot_mask, np.uint64(0), np.inf, word
                while salt < max_words:
                    worker = pick(salted >> HALF, thresholds, aliases)
                    fill = loads[worker] * paces[worker]
                    if fill < total:
                        break
                    until = min(until, fill)
                    worker = pick(salted & LOW, thresholds, aliases)
                    fill = loads[worker] * paces[worker]
                    if fill < total:
                        break
                    until = min(until, fill)
                    salt += _ONE
                    if salt == _PATIENCE and words[slot] == word and total <= untils[slot]:
                        salt = skips[slot]
                        until = min(until, untils[slot])
                    salted = mixed_again(word, salt)
                if salt > _PATIENCE:
                    words[slot], skips[slot], untils[slot] = word, salt, until
                if salt >= max_words:
                    worker = least_full(loads, paces)
            loads[worker] += weight
            chosen[i] = worker
        totals[source], weights[source] = total, weight
