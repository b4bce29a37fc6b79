"""Partial key grouping: each key has two workers, and a message goes to the less loaded of them."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter, checked_option
from trimtab_lab.routers.decay import HUGE, SHRINK, growth_per_message, shrink
from trimtab_lab.routers.hashing import HALF, LOW, UInt64Array, alias_table, mixed, pick
from trimtab_lab.routers.least_loaded import relative_emptiness
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array
from trimtab_lab.routers.sources import first_of


class PartialKeyGrouping(CountingRouter):
    """Two choices by key: a key is split over at most two workers (PKG), by the loads that its source knows.

    Nearly even while no key has more than about 2 / workers of all messages; at most two replicas a key. Loads are
    compared as load / capacity, and a worker is drawn as one of the two in proportion to its capacity.

    Args:
        workers: how many there are.
        sources: how many sources the messages come from in turn; each knows only what it sent itself (the paper's local
            load estimation).
        seed: decides the assignment of keys.
        capacities: how strong each worker is, in any unit.
        half_life: after how many messages a load counts half.
        count_replicas: keep the set of (key, worker) pairs.

    >>> router = PartialKeyGrouping(4, seed=1)
    >>> router.route(np.array([5, 5, 5, 5])).tolist()
    [3, 2, 3, 2]

    References: Nasir et al. (2015), "The power of both choices"; Nasir et al. (2017), section III-B.
    """

    def __init__(
        self,
        workers: int,
        *,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        super().__init__(workers, seed=seed, capacities=capacities, half_life=half_life, count_replicas=count_replicas)
        checked_option("sources", sources, 1)
        self._thresholds, self._aliases = alias_table(self._capacities)
        self._emptiness = relative_emptiness(self._capacities)
        self._known_loads: Float64Array = np.zeros((sources, workers))  # what each source sent to each worker
        self._weights: Float64Array = np.ones(sources)
        self._source_growth = growth_per_message(half_life, sources)

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        less_loaded_of_two(
            keys,
            chosen,
            self._seed,
            self._thresholds,
            self._aliases,
            self._emptiness,
            self._known_loads,
            self._weights,
            self._source_growth,
            self._messages,
        )


@kernel
def less_loaded_of_two(
    keys: Int64Array,
    chosen: Int32Array,
    seed: np.uint64,
    thresholds: UInt64Array,
    aliases: Int32Array,
    emptiness: Float64Array,
    known_loads: Float64Array,
    weights: Float64Array,
    growth: float,
    messages: int,
) -> None:
    """Draw two workers by `keys` and take the less loaded, the first if they are equal.

    known_loads  (sources, workers) loads as each source knows them
    weights      (sources,) of each source's last message
    messages     how many came before
    """
    sources = weights.size
    for source in range(sources):
        loads, weight = known_loads[source], weights[source]
        for i in range(first_of(source, messages, sources), keys.size, sources):
            word = mixed(keys[i], seed)
            worker = pick(word >> HALF, thresholds, aliases)
            second = pick(word & LOW, thresholds, aliases)
            if loads[second] * emptiness[second] < loads[worker] * emptiness[worker]:
                worker = second
            weight *= growth
            if weight > HUGE:
                shrink(loads)
                weight *= SHRINK
            loads[worker] += weight
            chosen[i] = worker
        weights[source] = weight
