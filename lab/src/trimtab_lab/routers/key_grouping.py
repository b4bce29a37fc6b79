"""Key grouping: a key's worker is its hash."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter
from trimtab_lab.routers.hashing import HALF, UInt64Array, alias_table, mixed, pick
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array


class KeyGrouping(CountingRouter):
    """Every message of a key goes to one worker, chosen by hash (KG).

    The least possible memory, one replica per key, and no state at all. The worker of a heavy key gets all of it,
    so the imbalance grows with the skew and with the number of workers. With `capacities`, a worker gets keys (not
    messages) in proportion to its own.

    >>> router = KeyGrouping(4, seed=1)
    >>> router.route(np.array([5, 6, 5, 5])).tolist()
    [3, 2, 3, 3]
    >>> router.replicas, router.loads.tolist()
    (2, [0.0, 0.0, 1.0, 3.0])

    Reference: Nasir et al. (2017), section III-B.
    """

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        super().__init__(workers, seed=seed, capacities=capacities, half_life=half_life, count_replicas=count_replicas)
        self._thresholds, self._aliases = alias_table(self._capacities)

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        _choose(keys, chosen, self._seed, self._thresholds, self._aliases)


@kernel
def _choose(
    keys: Int64Array, chosen: Int32Array, seed: np.uint64, thresholds: UInt64Array, aliases: Int32Array
) -> None:
    for i in range(keys.size):
        chosen[i] = pick(mixed(keys[i], seed) >> HALF, thresholds, aliases)
