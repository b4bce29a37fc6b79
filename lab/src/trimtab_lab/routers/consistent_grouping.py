"""Consistent grouping: many small virtual workers of equal load, assigned to workers by the workers' signals."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trimtab.deciding.spreading import count_virtual_workers
from trimtab.errors import BalanceError
from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter, checked_option
from trimtab_lab.routers.delegation import Delegation, Move
from trimtab_lab.routers.random_choices import RandomChoices
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array
from trimtab_lab.routers.sources import first_of

_ALWAYS = np.iinfo(np.int64).max


class ConsistentGrouping(CountingRouter):
    """CG: keys go to virtual workers by PoRC, virtual workers to workers by the workers' own signals.

    No capacities are needed. At the end of a time slot call `signal(busy, idle)`; a virtual worker then moves from each
    busy worker to an idle one (see `delegation`).

    Sources get signals only with the acknowledgements of their own messages (piggybacking): a worker's ack reports all
    that it has signalled up to the moment it got the message, and arrives `ack_delay` messages later. A source moves
    the virtual workers of a slot when it has that slot's signals from every worker. So all sources use the same maps
    in the same order, each at its own time, and have the same map again when all have all signals (`settled`). Messages
    that were sent already stay where they are.

    Args:
        workers: how many there are.
        epsilon: how far a virtual worker's load may be above the mean, as a fraction of it.
        virtual_workers: how many a worker has, on average.
        sources: how many sources the messages come from in turn, each with its own loads and its own map.
        ack_delay: after how many further messages (of all sources) an acknowledgement arrives.
        probe: if no worker is idle, a busy one gives to one that is not busy. Without it the busy one waits, as in the
            paper, and keeps too much when all others are neither busy nor idle.
        max_rehash: see `RandomChoices`; None: ten draws for each virtual worker.
        seed: decides the assignment of keys.
        capacities: virtual workers are assigned in proportion to them at the start, and a worker with 0 never gets any.
            None: all workers begin with the same number.
        half_life: after how many messages a load counts half.
        count_replicas: keep the set of (key, worker) pairs, by worker and not by virtual worker.

    >>> router = ConsistentGrouping(2, virtual_workers=10, seed=1)
    >>> keys = np.arange(10_000)
    >>> _ = router.route(keys)
    >>> busy, idle = np.array([True, False]), np.array([False, True])
    >>> for _ in range(5):  # worker 0 finds its half too much, slot after slot
    ...     moves, _ = router.signal(busy, idle), router.route(keys)
    >>> router.held().tolist(), router.settled
    ([5, 15], True)

    Reference: Nasir et al. (2017), sections V-B and V-C.
    """

    def __init__(
        self,
        workers: int,
        *,
        epsilon: float = 0.01,
        virtual_workers: int = 10,
        sources: int = 1,
        ack_delay: int = 0,
        probe: bool = False,
        max_rehash: int | None = None,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        super().__init__(workers, seed=seed, capacities=capacities, half_life=half_life, count_replicas=count_replicas)
        checked_option("virtual_workers", virtual_workers, 1)
        checked_option("ack_delay", ack_delay, 0)
        counts = count_virtual_workers(self._capacities, virtual_workers)
        owner = np.repeat(np.arange(workers, dtype=np.int32), counts)
        self._delay = ack_delay
        self._porc = RandomChoices(
            owner.size,
            epsilon=epsilon,
            sources=sources,
            max_rehash=max_rehash,
            seed=seed,
            half_life=half_life,
            count_replicas=False,
        )
        self._delegation = Delegation(owner, workers=workers, seed=int(self._seed), probe=probe)
        # Maps are numbered; row r of `_maps` is the map number `_oldest + r`, and `_newest` is the last one.
        self._maps: Int32Array = owner.copy()[np.newaxis]
        self._oldest, self._newest = 0, 0
        self._in_use: Int64Array = np.zeros(sources, np.int64)  # each source's map
        self._heard: Int64Array = np.zeros(sources, np.int64)  # the newest map that all workers have reported to it
        self._in_use_from: Int64Array = np.zeros((sources, 1), np.int64)  # the message from which each map holds
        # The newest map that a worker's acks have reported to a source; a worker with no capacity never reports.
        reported = np.where(self._capacities > 0, 0, _ALWAYS)
        self._reported: Int64Array = np.tile(reported, (sources, 1))
        self._unreported: Int64Array = np.full(
            sources, np.count_nonzero(reported == 0)
        )  # workers yet to report the next map

    @property
    def sources(self) -> int:
        """How many sources there are."""
        return self._in_use.size

    @property
    def virtual_workers(self) -> int:
        """How many virtual workers there are in all."""
        return int(self._maps.shape[1])

    @property
    def virtual_loads(self) -> Float64Array:
        """Messages that each virtual worker got from all sources; with a half-life, what is left of them."""
        return self._porc.loads

    @property
    def settled(self) -> bool:
        """Whether all sources have all signals, and so the same map."""
        return all(self._map_number(source) == self._newest for source in range(self.sources))

    def owners(self, source: int = 0) -> Int32Array:
        """The worker of each virtual worker, by a source's present map."""
        return np.array(self._maps[self._map_number(source) - self._oldest])

    def held(self, source: int = 0) -> Int64Array:
        """How many virtual workers each worker has, by a source's present map."""
        return np.bincount(self.owners(source), minlength=self.workers)

    def signal(self, busy: npt.ArrayLike, idle: npt.ArrayLike) -> tuple[Move, ...]:
        """End a time slot: each worker is busy, idle, or neither. Returns the moves that sources will make.

        Args:
            busy: (workers,) bool, which workers want less.
            idle: (workers,) bool, which workers want more.
        """
        wants_less, wants_more = np.asarray(busy, bool), np.asarray(idle, bool)
        if wants_less.shape != (self.workers,) or wants_more.shape != (self.workers,):
            raise BalanceError(
                "route.signal",
                f"busy and idle have the shapes {wants_less.shape} and {wants_more.shape}",
                f"give one bool for each of the {self.workers} workers",
            )
        if (wants_less & wants_more).any():
            both = np.flatnonzero(wants_less & wants_more)[:10].tolist()
            raise BalanceError(
                "route.signal", f"workers {both} are busy and idle at once", "a worker is one or neither"
            )
        moves = self._delegation.end_slot(wants_less, wants_more)
        if moves:  # a slot without moves leaves the map as it is, so there is nothing to publish
            self._publish()
        return moves

    def _publish(self) -> None:
        done = int(min(self._map_number(source) for source in range(self.sources))) - self._oldest
        self._in_use = np.maximum(self._in_use, self._oldest + done)
        self._oldest += done
        self._newest += 1
        self._maps = np.concatenate([self._maps[done:], self._delegation.owner[np.newaxis]])
        later = np.full((self.sources, 1), _ALWAYS)
        self._in_use_from = np.concatenate([self._in_use_from[:, done:], later], axis=1)
        self._unreported = np.count_nonzero(self._reported == self._heard[:, np.newaxis], axis=1)

    def _map_number(self, source: int) -> int:
        arrived = self._in_use_from[source] <= self._messages
        return self._oldest + int(np.flatnonzero(arrived)[-1])

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        # Which virtual worker takes a message does not depend on the map, so that is computed first for all messages.
        _serve(
            self._porc.route(keys),
            chosen,
            self._messages,
            self._maps,
            self._oldest,
            self._newest,
            self._in_use,
            self._heard,
            self._in_use_from,
            self._reported,
            self._unreported,
            self._delay,
        )


@kernel
def _serve(
    virtual: Int32Array,
    chosen: Int32Array,
    messages: int,
    maps: Int32Array,
    oldest: int,
    newest: int,
    in_use: Int64Array,
    heard: Int64Array,
    in_use_from: Int64Array,
    reported: Int64Array,
    unreported: Int64Array,
    delay: int,
) -> None:
    """Write the worker of each message's virtual worker, by the map of the message's source at that moment."""
    sources = in_use.size
    for source in range(sources):
        owners, reported_by = maps[in_use[source] - oldest], reported[source]
        for i in range(first_of(source, messages, sources), virtual.size, sources):
            while in_use[source] < heard[source] and in_use_from[source, in_use[source] + 1 - oldest] <= messages + i:
                in_use[source] += 1
                owners = maps[in_use[source] - oldest]
            worker = owners[virtual[i]]
            chosen[i] = worker
            if reported_by[worker] < newest:  # its acknowledgement reports a newer map
                _hear(
                    source, worker, messages + i + 1 + delay, oldest, newest, heard, in_use_from, reported, unreported
                )


@kernel
def _hear(
    source: int,
    worker: int,
    arrival: int,
    oldest: int,
    newest: int,
    heard: Int64Array,
    in_use_from: Int64Array,
    reported: Int64Array,
    unreported: Int64Array,
) -> None:
    """Record a worker's ack, which reports all signals so far; a map is used once all workers have reported it."""
    if reported[source, worker] == heard[source]:
        unreported[source] -= 1
    reported[source, worker] = newest
    while unreported[source] == 0 and heard[source] < newest:
        heard[source] += 1
        in_use_from[source, heard[source] - oldest] = arrival
        for other in range(reported.shape[1]):
            if reported[source, other] == heard[source]:
                unreported[source] += 1
