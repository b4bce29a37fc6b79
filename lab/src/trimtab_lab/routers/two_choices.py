"""The power of two choices: two workers are drawn for each message, and the less loaded takes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab_lab.routers.counting import CountingRouter, checked_option
from trimtab_lab.routers.decay import growth_per_message
from trimtab_lab.routers.hashing import alias_table, seed_word
from trimtab_lab.routers.least_loaded import relative_emptiness
from trimtab_lab.routers.partial_key_grouping import less_loaded_of_two
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array


class TwoChoices(CountingRouter):
    """Two choices by message (PoTC): nearly perfect balance for any skew, and a key may end up on every worker.

    The number of the message is hashed, so the same seed gives the same draws. Loads are compared as
    load / capacity, and a worker is drawn in proportion to its capacity.

    Args:
        workers: how many there are.
        sources: how many sources the messages come from in turn; each knows only what it sent itself.
        seed: decides the draws.
        capacities: how strong each worker is, in any unit.
        half_life: after how many messages a load counts half.
        count_replicas: keep the set of (key, worker) pairs.

    >>> router = TwoChoices(4, seed=1)
    >>> router.route(np.zeros(1000, np.int64)).tolist()[:5]
    [2, 3, 0, 3, 1]
    >>> router.imbalance < 0.02, router.replicas
    (True, 4)

    References: Azar et al. (1999); Nasir et al. (2017), section III-D and Lemma 6.2.
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
        self._draw = seed_word(seed, purpose=1)  # numbers of messages aren't keys: they have their own hash
        self._thresholds, self._aliases = alias_table(self._capacities)
        self._emptiness = relative_emptiness(self._capacities)
        self._known_loads: Float64Array = np.zeros((sources, workers))
        self._weights: Float64Array = np.ones(sources)
        self._source_growth = growth_per_message(half_life, sources)

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        less_loaded_of_two(
            np.arange(self._messages, self._messages + keys.size),
            chosen,
            self._draw,
            self._thresholds,
            self._aliases,
            self._emptiness,
            self._known_loads,
            self._weights,
            self._source_growth,
            self._messages,
        )
