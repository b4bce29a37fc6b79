"""Shuffle grouping: one worker after the other, for any key."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter
from trimtab_lab.routers.least_loaded import raised, relative_emptiness, tournament
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array


class ShuffleGrouping(CountingRouter):
    """Messages go to the workers in a cycle (SG), which begins at a worker chosen by the seed.

    The best possible balance: the loads of equal workers differ by at most one message. A key may be on all workers,
    which takes the most memory. With `capacities` the cycle is weighted: the next message goes to
    the worker that would be the least full halfway through it (Webster's rule), which interleaves strong and weak ones.

    >>> ShuffleGrouping(3, seed=1).route(np.array([9, 9, 9, 9])).tolist()
    [2, 0, 1, 2]
    >>> ShuffleGrouping(2, capacities=(2, 1)).route(np.array([9, 9, 9, 9, 9, 9])).tolist()
    [0, 1, 0, 0, 1, 0]

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
        self._first = int(self._seed) % workers
        self._step = relative_emptiness(self._capacities)
        self._alike = bool((self._capacities == self._capacities[0]).all())
        self._turns = np.zeros(workers, np.int64)
        # How full each would be after half a message more.
        self._fills, self._winners = tournament(0.5 * self._step)

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:  # noqa: ARG002 - keys don't matter here
        if self._alike:
            _in_turn(chosen, (self._first + self._messages) % self.workers, self.workers)
        else:
            _weighted(chosen, self._turns, self._step, self._fills, self._winners)


@kernel
def _in_turn(chosen: Int32Array, first: int, workers: int) -> None:
    worker = first
    for i in range(chosen.size):
        chosen[i] = worker
        worker += 1
        if worker == workers:
            worker = 0


@kernel
def _weighted(
    chosen: Int32Array, turns: Int64Array, step: Float64Array, fills: Float64Array, winners: Int32Array
) -> None:
    for i in range(chosen.size):
        worker = int(winners[1])
        chosen[i] = worker
        turns[worker] += 1
        fills[worker] = (turns[worker] + 0.5) * step[worker]
        raised(winners, fills, worker)
