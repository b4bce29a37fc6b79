"""Worker delegation: pairs busy workers with idle ones, first come, first served.

At the end of a time slot workers signal only that they are busy or idle. Each busy one is paired with an idle one, and
one virtual worker moves from the first to the second. A worker without a partner waits in a queue until it has one,
or until it no longer signals. This module decides on moves; `consistent_grouping` decides when sources apply them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.deciding.spreading import mix_plain
from trimtab_lab.routers.router import BoolArray, Int32Array


@dataclass(frozen=True, slots=True)
class Move:
    """A virtual worker moves from a busy worker to one that is idle (or, by probing, not busy)."""

    virtual_worker: int
    giver: int
    taker: int


class Delegation:
    """Which worker serves which virtual worker, and the two queues.

    The number of virtual workers never changes. A worker keeps its last virtual worker: with none it would get no
    messages, and as signals come with acknowledgements it could never signal that it is idle.

    >>> pairing = Delegation(np.array([0, 0, 1, 1], np.int32), workers=2, seed=0)
    >>> pairing.end_slot(np.array([True, False]), np.array([False, True]))
    (Move(virtual_worker=1, giver=0, taker=1),)
    >>> pairing.owner.tolist()
    [0, 1, 1, 1]

    Args:
        owner: the worker of each virtual worker at the start; it is changed in place.
        workers: how many there are.
        seed: decides the order of the workers' signals in each slot.
        probe: if no worker is idle, a busy one gives to the one that was busy longest ago.

    References: Nasir et al. (2017), sections V-B (pairing virtual workers), V-C (worker delegation) and VI-A (the
    remark on probing).
    """

    def __init__(self, owner: Int32Array, *, workers: int, seed: int, probe: bool = False) -> None:
        self.owner = owner
        self.slots = 0
        self._seed, self._probe = seed, probe
        self._last_busy = [0] * workers  # the last slot in which each worker was busy
        # A worker gives away first what it got last: keys that have moved once then move again, and others stay.
        self._held: list[list[int]] = [[int(v) for v in np.flatnonzero(owner == w)] for w in range(workers)]
        self._busy: dict[int, None] = {}  # dictionaries keep the order of arrival
        self._idle: dict[int, None] = {}

    def end_slot(self, busy: BoolArray, idle: BoolArray) -> tuple[Move, ...]:
        """Queue all workers' signals, in a random order, and pair busy workers with idle ones."""
        self.slots += 1
        self._busy = {worker: None for worker in self._busy if busy[worker]}
        self._idle = {worker: None for worker in self._idle if idle[worker]}
        for worker in self._order(busy.size):
            if busy[worker] and len(self._held[worker]) > 1:
                self._busy.setdefault(worker)
            elif idle[worker] and self._held[worker]:
                self._idle.setdefault(worker)
        # After all signals are queued: otherwise a worker that waited from an earlier slot could be paired twice.
        moves = [self._move(*self._first_of_both()) for _ in range(min(len(self._busy), len(self._idle)))]
        for worker in np.flatnonzero(busy).tolist():
            self._last_busy[worker] = self.slots
        if self._probe:
            moves += self._probes({move.taker for move in moves})
        return tuple(moves)

    def _first_of_both(self) -> tuple[int, int]:
        busy, idle = next(iter(self._busy)), next(iter(self._idle))
        del self._busy[busy], self._idle[idle]
        return busy, idle

    def _probes(self, served: set[int]) -> list[Move]:
        order = self._order(len(self._held))
        takers = [w for w in order if self._held[w] and w not in served and self._last_busy[w] < self.slots]
        takers.sort(key=lambda worker: self._last_busy[worker])
        givers = list(self._busy)[: len(takers)]
        self._busy = dict.fromkeys(list(self._busy)[len(givers) :])
        return [self._move(giver, taker) for giver, taker in zip(givers, takers, strict=False)]

    def _move(self, giver: int, taker: int) -> Move:
        virtual_worker = self._held[giver].pop()
        self._held[taker].append(virtual_worker)
        self.owner[virtual_worker] = taker
        return Move(virtual_worker, giver, taker)

    def _order(self, workers: int) -> list[int]:
        slot = mix_plain(self._seed + self.slots)
        return sorted(range(workers), key=lambda worker: mix_plain(slot + worker))
