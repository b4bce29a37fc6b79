"""Consistent grouping: many small virtual workers of equal load, dealt to workers as the workers ask for."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trimtab.deciding.virtual_workers import first_owners
from trimtab.errors import BalanceError
from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter, checked_option
from trimtab_lab.routers.delegation import Delegation, Move
from trimtab_lab.routers.random_choices import RandomChoices
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array
from trimtab_lab.routers.sources import first_of

_ALWAYS = np.iinfo(np.int64).max


class ConsistentGrouping(CountingRouter):
    """CG: keys to virtual workers by PoRC, virtual workers to workers by what the workers say of themselves.

    Nobody needs to know how strong a worker is. At the end of a time slot call `signal(busy, idle)`; a virtual worker
    then goes from each busy worker to an idle one (see `delegation`).

    Sources hear of signals only with the acknowledgements of their own messages (piggybacking): a worker's ack tells
    all that it has signalled up to the moment it got the message, and comes `ack_delay` messages later. A source
    moves the virtual workers of a slot when it has heard that slot's signals from every worker. So all sources go
    through the same maps in the same order, each at its own time, and are equal again when all have heard
    (`settled`). Messages that are under way stay where they are; only later ones go another way.

    Args:
        workers: how many there are.
        epsilon: how far above the mean a virtual worker may get.
        virtual_workers: how many a worker has, on average.
        sources: messages come from so many sources in turn, each with its own loads and its own map.
        ack_delay: after how many further messages (of all sources) an acknowledgement arrives.
        probe: a busy worker that finds nobody idle gives to one that is not busy; without that it waits, as the paper
            has it, and keeps too much when all others are content.
        max_rehash: see `RandomChoices`; None is ten draws a virtual worker.
        seed: another seed, another assignment of keys.
        capacities: if they are known, virtual workers are dealt in proportion at the start, and a worker with 0 gets
            none, ever. None: all get the same, and signals do the rest.
        half_life: loads fade, to half after so many messages.
        count_replicas: keep the set of (key, worker) pairs; workers are meant, not virtual ones.

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
        owner = first_owners(self._capacities, virtual_workers)
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
        self._heard: Int64Array = np.zeros(sources, np.int64)  # the map that it has asked every worker for
        self._in_use_from: Int64Array = np.zeros((sources, 1), np.int64)  # the message from which each map holds
        # The newest map that a worker's acks have told a source of; one with no capacity has nothing to tell.
        told = np.where(self._capacities > 0, 0, _ALWAYS)
        self._told: Int64Array = np.tile(told, (sources, 1))
        self._untold: Int64Array = np.full(sources, np.count_nonzero(told == 0))  # workers yet to tell of the next map

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
        """Whether all sources have heard all signals, and so have the same map."""
        return all(self._map_number(source) == self._newest for source in range(self.sources))

    def owners(self, source: int = 0) -> Int32Array:
        """The worker of each virtual worker, as a source sees it now."""
        return np.array(self._maps[self._map_number(source) - self._oldest])

    def held(self, source: int = 0) -> Int64Array:
        """How many virtual workers each worker has, as a source sees it now."""
        return np.bincount(self.owners(source), minlength=self.workers)

    def signal(self, busy: npt.ArrayLike, idle: npt.ArrayLike) -> tuple[Move, ...]:
        """End a time slot: each worker says that it is busy, idle, or neither. Returns what sources will move.

        Args:
            busy: (workers,) bool, who wants less.
            idle: (workers,) bool, who wants more.
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
        if moves:  # a slot without moves leaves the map as it is, so nobody needs to hear of it
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
        self._untold = np.count_nonzero(self._told == self._heard[:, np.newaxis], axis=1)

    def _map_number(self, source: int) -> int:
        arrived = self._in_use_from[source] <= self._messages
        return self._oldest + int(np.flatnonzero(arrived)[-1])

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        # Which virtual worker takes a message does not depend on who serves it, so that is a step of its own.
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
            self._told,
            self._untold,
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
    told: Int64Array,
    untold: Int64Array,
    delay: int,
) -> None:
    """Send what each virtual worker takes to its worker, by the map of the message's source at that moment."""
    sources = in_use.size
    for source in range(sources):
        owners, told_by = maps[in_use[source] - oldest], told[source]
        for i in range(first_of(source, messages, sources), virtual.size, sources):
            while in_use[source] < heard[source] and in_use_from[source, in_use[source] + 1 - oldest] <= messages + i:
                in_use[source] += 1
                owners = maps[in_use[source] - oldest]
            worker = owners[virtual[i]]
            chosen[i] = worker
            if told_by[worker] < newest:  # its acknowledgement will bring news
                _hear(source, worker, messages + i + 1 + delay, oldest, newest, heard, in_use_from, told, untold)


@kernel
def _hear(
    source: int,
    worker: int,
    arrival: int,
    oldest: int,
    newest: int,
    heard: Int64Array,
    in_use_from: Int64Array,
    told: Int64Array,
    untold: Int64Array,
) -> None:
    """A worker's ack tells of all signals so far; a map holds when the last worker's ack of its slot has arrived."""
    if told[source, worker] == heard[source]:
        untold[source] -= 1
    told[source, worker] = newest
    while untold[source] == 0 and heard[source] < newest:
        heard[source] += 1
        in_use_from[source, heard[source] - oldest] = arrival
        for other in range(told.shape[1]):
            if told[source, other] == heard[source]:
                untold[source] += 1
