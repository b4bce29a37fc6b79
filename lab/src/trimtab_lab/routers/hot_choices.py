"""More than two choices for hot keys only: with D-Choices as many as they need, with W-Choices all workers."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter, checked_option
from trimtab_lab.routers.decay import HUGE, SHRINK, growth_per_message, shrink
from trimtab_lab.routers.hashing import HALF, LOW, UInt64Array, alias_table, mixed, mixed_again, pick
from trimtab_lab.routers.hot_keys import COUNT, ERROR, TOTAL, USED, is_hot, new_sketch, see
from trimtab_lab.routers.least_loaded import raised, relative_emptiness, tournament
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array
from trimtab_lab.routers.sources import first_of

_SURE = 10  # messages of a key before it can be hot
_MOST_DRAWS = 4  # times the expected draws: where capacities differ much, some workers are hardly ever drawn
_FIRST_LOOK, _LAST_LOOK = 128, 1 << 14  # messages of a source between two computations of the choices needed


class _HotChoices(CountingRouter):
    """What the two have in common: the sketch and the loads of each source."""

    def __init__(
        self,
        workers: int,
        *,
        hot_share: float | None,
        epsilon: float,
        sources: int,
        seed: int,
        capacities: Sequence[float] | Float64Array | None,
        half_life: float | None,
        count_replicas: bool,
        first_choices: int,
    ) -> None:
        super().__init__(workers, seed=seed, capacities=capacities, half_life=half_life, count_replicas=count_replicas)
        checked_option("sources", sources, 1)
        checked_option("epsilon", epsilon, 0, above=True)
        self._hot_share = 1 / (5 * workers) if hot_share is None else hot_share
        checked_option("hot_share", self._hot_share, 0, above=True)
        self._epsilon = epsilon
        self._halving = 0 if half_life is None else max(1, round(half_life / sources))
        self._thresholds, self._aliases = alias_table(self._capacities)
        self._emptiness = relative_emptiness(self._capacities)
        self._known_loads: Float64Array = np.zeros((sources, workers))
        self._weights: Float64Array = np.ones(sources)
        self._source_growth = growth_per_message(half_life, sources)
        fills, winners = tournament(np.where(self._capacities > 0, 0.0, np.inf))
        self._fills: Float64Array = np.tile(fills, (sources, 1))
        self._winners: Int32Array = np.tile(winners, (sources, 1))
        counters, index, state = new_sketch(max(64, math.ceil(2 / self._hot_share)), self._halving)
        self._counters: Int64Array = np.tile(counters, (sources, 1, 1))
        self._index: Int32Array = np.tile(index, (sources, 1))
        self._state: Int64Array = np.tile(state, (sources, 1))
        # For each source: draws of a hot key, how many different workers they give, messages until both are computed
        # again (-1: never), and messages between that and the next time.
        choices = (first_choices, first_choices, _FIRST_LOOK if first_choices < workers else -1, _FIRST_LOOK)
        self._choices: Int64Array = np.tile(np.array(choices, np.int64), (sources, 1))

    @property
    def choices(self) -> int:
        """How many workers a hot key may go to now, for the first source."""
        return int(self._choices[0, 1])

    def hot_keys(self, source: int = 0) -> Int64Array:
        """The keys that are hot for a source now, the most frequent first."""
        used = self._counters[source, : self._state[source, USED]]
        least = self._hot_share * max(int(self._state[source, TOTAL]), math.ceil(_SURE / self._hot_share))
        sure = used[:, COUNT] - used[:, ERROR]
        hot = np.flatnonzero(sure >= least)
        return np.asarray(used[hot[np.argsort(-sure[hot], kind="stable")], 0])

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        _choose(
            keys,
            chosen,
            self._seed,
            self._thresholds,
            self._aliases,
            self._emptiness,
            self._known_loads,
            self._weights,
            self._source_growth,
            self._fills,
            self._winners,
            self._counters,
            self._index,
            self._state,
            self._halving,
            self._hot_share,
            self._epsilon,
            self._choices,
            self._messages,
        )


class DChoices(_HotChoices):
    """Two choices for most keys, d for hot ones, d being the least that can balance them (D-Choices).

    Hot keys are found by a SpaceSaving sketch. d is recomputed regularly from their shares; where it would reach the
    number of workers, hot keys may go to all. Balance like PoTC's at many workers, memory close to PKG's.

    Args:
        workers: how many there are.
        hot_share: the share of messages above which a key is hot. None: 1 / (5 * workers), below which two choices do.
        epsilon: the imbalance that d is computed for, as a share of all messages.
        sources: how many sources the messages come from in turn; each has its own sketch and knows only its own loads.
        seed: decides the assignment of keys.
        capacities: how strong each worker is, in any unit.
        half_life: after how many messages a load counts half; the sketch is halved that often.
        count_replicas: keep the set of (key, worker) pairs.

    >>> router = DChoices(50, seed=1)
    >>> keys = np.where(np.arange(100_000) % 5 == 0, -1, np.arange(100_000))
    >>> _ = router.route(keys)
    >>> router.hot_keys().tolist(), 10 <= router.choices < 50, router.imbalance < 0.05
    ([-1], True, True)

    Reference: Nasir et al. (2016), "When two choices are not enough".
    """

    def __init__(
        self,
        workers: int,
        *,
        hot_share: float | None = None,
        epsilon: float = 1e-4,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        super().__init__(
            workers,
            hot_share=hot_share,
            epsilon=epsilon,
            sources=sources,
            seed=seed,
            capacities=capacities,
            half_life=half_life,
            count_replicas=count_replicas,
            first_choices=min(2, workers),
        )


class WChoices(_HotChoices):
    """Two choices for most keys, all workers for hot ones (W-Choices): the least loaded of all takes them.

    The best balance of the three, and simple. A hot key is on every worker, which costs little memory if few are hot.

    Args:
        workers: how many there are.
        hot_share: the share of messages above which a key is hot. None: 1 / (5 * workers), below which two choices do.
        sources: how many sources the messages come from in turn; each has its own sketch and knows only its own loads.
        seed: decides the assignment of keys.
        capacities: how strong each worker is, in any unit.
        half_life: after how many messages a load counts half; the sketch is halved that often.
        count_replicas: keep the set of (key, worker) pairs.

    >>> router = WChoices(50, seed=1)
    >>> _ = router.route(np.where(np.arange(100_000) % 5 == 0, -1, np.arange(100_000)))
    >>> router.hot_keys().tolist(), router.imbalance < 0.01
    ([-1], True)

    Reference: Nasir et al. (2016), "When two choices are not enough".
    """

    def __init__(
        self,
        workers: int,
        *,
        hot_share: float | None = None,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        super().__init__(
            workers,
            hot_share=hot_share,
            epsilon=1.0,
            sources=sources,
            seed=seed,
            capacities=capacities,
            half_life=half_life,
            count_replicas=count_replicas,
            first_choices=workers,
        )


@kernel
def choices_needed(shares: Float64Array, others: float, workers: int, epsilon: float) -> int:
    """The least number of choices that can balance hot keys of these shares (sorted, the largest first).

    The h heaviest keys have about `places = n - n * ((n - 1) / n) ** (h * d)` workers among their choices. The load
    that certainly falls on those workers (all of these keys, other hot keys whose d choices are all there, and cold
    keys whose two are) must not exceed their share of all messages plus epsilon. The result is the least d for which
    this holds for every h.
    Reference: Nasir et al. (2016), section IV-A.
    """
    if shares.size == 0:
        return min(2, workers)
    total_hot = shares.sum()
    needed = max(2, int(np.ceil(shares[0] * workers)))
    while needed < workers:
        passes = True
        heavier = 0.0
        miss = ((workers - 1) / workers) ** needed
        missed = 1.0
        for h in range(shares.size):
            heavier += shares[h]
            missed *= miss
            places = 1.0 - missed  # as a share of all workers
            falls_there = heavier + places**needed * (total_hot - heavier) + places * places * others
            if falls_there > places * (1.0 + epsilon * workers):
                passes = False
                break
        if passes:
            return needed
        needed += 1
    return workers


@kernel
def _look(
    counters: Int64Array, state: Int64Array, workers: int, hot_share: float, epsilon: float, choices: Int64Array
) -> None:
    """Recompute how many choices hot keys need, and when to do so next."""
    shares = np.empty(state[USED])
    found = 0
    least_messages = int(np.ceil(_SURE / hot_share))
    for counter in range(state[USED]):
        if is_hot(counter, counters, state, hot_share, least_messages):
            shares[found] = (counters[counter, COUNT] - counters[counter, ERROR]) / state[TOTAL]
            found += 1
    hot = np.sort(shares[:found])[::-1]
    needed = choices_needed(hot, 1.0 - hot.sum(), workers, epsilon)
    choices[0] = needed
    choices[1] = workers if needed >= workers else distinct_of(needed, workers)
    choices[3] = min(2 * choices[3], _LAST_LOOK)
    choices[2] = choices[3]


@kernel
def _choose(
    keys: Int64Array,
    chosen: Int32Array,
    seed: np.uint64,
    thresholds: UInt64Array,
    aliases: Int32Array,
    emptiness: Float64Array,
    known_loads: Float64Array,
    weights: Float64Array,
    growth: float,
    all_fills: Float64Array,
    all_winners: Int32Array,
    all_counters: Int64Array,
    all_indexes: Int32Array,
    all_states: Int64Array,
    halving: int,
    hot_share: float,
    epsilon: float,
    all_choices: Int64Array,
    messages: int,
) -> None:
    sources, workers = weights.size, thresholds.size
    least_messages = int(np.ceil(_SURE / hot_share))
    stamps = np.full(workers, -1)  # the last message (of this call) that drew each worker
    for source in range(sources):
        loads, weight, fills, winners = known_loads[source], weights[source], all_fills[source], all_winners[source]
        counters, index, state = all_counters[source], all_indexes[source], all_states[source]
        choices = all_choices[source]
        for i in range(first_of(source, messages, sources), keys.size, sources):
            word = mixed(keys[i], seed)
            counter = see(keys[i], counters, index, state, halving)
            if not is_hot(counter, counters, state, hot_share, least_messages):
                worker = pick(word >> HALF, thresholds, aliases)
                second = pick(word & LOW, thresholds, aliases)
                if fills[second] < fills[worker]:
                    worker = second
            elif choices[0] >= workers:
                worker = int(winners[1])
            else:
                worker = _least_of(word, choices, fills, thresholds, aliases, stamps, i)
            weight *= growth
            if weight > HUGE:
                shrink(loads)
                shrink(fills)
                weight *= SHRINK
            loads[worker] += weight
            fills[worker] = loads[worker] * emptiness[worker]
            raised(winners, fills, worker)
            chosen[i] = worker
            choices[2] -= 1
            if choices[2] == 0:
                _look(counters, state, workers, hot_share, epsilon, choices)
        weights[source] = weight


@kernel
def _least_of(
    word: np.uint64,
    choices: Int64Array,
    fills: Float64Array,
    thresholds: UInt64Array,
    aliases: Int32Array,
    stamps: Int64Array,
    stamp: int,
) -> int:
    """The least loaded of as many different workers of a key's row as its draws give on average, the first of equals.

    With a fixed number of draws, a key that drew the same worker twice would have too few workers.
    """
    draws, wanted = choices[0], choices[1]
    mixed_word = word
    best = pick(word >> HALF, thresholds, aliases)
    stamps[best] = stamp
    for place in range(1, _MOST_DRAWS * draws):
        if place & 1:
            worker = pick(mixed_word & LOW, thresholds, aliases)
        else:
            mixed_word = mixed_again(word, np.uint64(place >> 1))
            worker = pick(mixed_word >> HALF, thresholds, aliases)
        if stamps[worker] == stamp:
            continue
        stamps[worker] = stamp
        if fills[worker] < fills[best]:
            best = worker
        wanted -= 1
        if wanted == 1:
            break
    return int(best)


@kernel
def distinct_of(draws: int, workers: int) -> int:
    """How many different workers a number of draws gives on average, rounded up.

    >>> distinct_of(2, 100), distinct_of(50, 100)
    (2, 40)
    """
    return int(np.ceil(workers * (1.0 - ((workers - 1) / workers) ** draws) - 1e-9))
