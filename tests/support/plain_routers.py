"""Routers as plain Python loops, one message at a time: slow and obvious.

They are what the compiled ones are tested against, worker for worker, and measured beside. They share the tables that
are made once (the alias table) and nothing that happens per message.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from trimtab.routing.counting import checked_capacities
from trimtab.routing.delegation import Delegation, first_owners
from trimtab.routing.hashing import GOLDEN, alias_table, mix_plain, seed_word
from trimtab.routing.router import BoolArray


class PlainRouter(ABC):
    """Numbers the messages, deals them to sources, and weighs them."""

    def __init__(
        self,
        workers: int,
        *,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.workers, self.sources, self.seed = workers, sources, seed
        self.capacities = [float(c) for c in checked_capacities(workers, capacities)]
        self.growth = 1.0 if half_life is None else 2.0 ** (sources / half_life)
        self.weights = [1.0] * sources
        self.message = 0
        self.word = int(seed_word(seed))
        self.source = 0
        thresholds, aliases = alias_table(np.array(self.capacities))
        self.table = [(int(t), int(a)) for t, a in zip(thresholds, aliases, strict=True)]
        mean = sum(self.capacities) / workers
        self.emptiness = [mean / c if c else math.inf for c in self.capacities]
        self.seen = [[0.0] * workers for _ in range(sources)]

    def route(self, keys: Sequence[int]) -> list[int]:
        """Choose a worker for each message, in order."""
        chosen = []
        for key in keys:
            self.source = self.message % self.sources
            self.weights[self.source] *= self.growth
            chosen.append(self.choose(int(key)))
            self.message += 1
        return chosen

    @abstractmethod
    def choose(self, key: int) -> int:
        """The worker of one message."""

    def row(self, key: int, word: int) -> Iterator[int]:
        """The endless row of a key's workers."""
        first = mix_plain(key ^ word)
        for salt in itertools.count():
            mixed = first if salt == 0 else mix_plain(first + salt * int(GOLDEN))
            for half in (mixed >> 32, mixed & 0xFFFFFFFF):
                scaled = half * len(self.table)
                slot = scaled >> 32
                threshold, alias = self.table[slot]
                yield slot if scaled & 0xFFFFFFFF < threshold else alias

    def fill(self, worker: int) -> float:
        """How full a worker is, as the source in hand knows it."""
        return self.seen[self.source][worker] * self.emptiness[worker]

    def take(self, worker: int) -> int:
        """Send the message in hand to a worker."""
        self.seen[self.source][worker] += self.weights[self.source]
        return worker


class PlainRandomChoices(PlainRouter):
    """PoRC, as Algorithm 1 has it, with a cap."""

    def __init__(
        self,
        workers: int,
        *,
        epsilon: float = 0.01,
        max_rehash: int | None = None,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | None = None,
        half_life: float | None = None,
    ) -> None:
        super().__init__(workers, sources=sources, seed=seed, capacities=capacities, half_life=half_life)
        self.draws = max(16, 10 * workers) if max_rehash is None else 2 * ((max_rehash + 1) // 2)
        shares = [c / sum(self.capacities) for c in self.capacities]
        self.paces = [1.0 / ((1.0 + epsilon) * share) if share else math.inf for share in shares]
        self.totals = [0.0] * sources

    def pace(self, worker: int) -> float:
        """The total up to which a worker is full."""
        return self.seen[self.source][worker] * self.paces[worker]

    def choose(self, key: int) -> int:
        """The first of the row that is not full, or the least full of all."""
        self.totals[self.source] += self.weights[self.source]
        for worker in itertools.islice(self.row(key, self.word), self.draws):
            if self.pace(worker) < self.totals[self.source]:
                return self.take(worker)
        return self.take(min((w for w in range(self.workers) if self.capacities[w]), key=self.pace))


class PlainConsistentGrouping(PlainRouter):
    """CG: PoRC over virtual workers, and every acknowledgement under way in a list."""

    def __init__(
        self,
        workers: int,
        *,
        epsilon: float = 0.01,
        virtual_workers: int = 10,
        ack_delay: int = 0,
        probe: bool = False,
        max_rehash: int | None = None,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | None = None,
        half_life: float | None = None,
    ) -> None:
        super().__init__(workers, sources=sources, seed=seed, capacities=capacities)
        owner = first_owners(np.array(self.capacities), virtual_workers)
        self.porc = PlainRandomChoices(
            owner.size, epsilon=epsilon, max_rehash=max_rehash, sources=sources, seed=seed, half_life=half_life
        )
        self.delegation = Delegation(owner, workers=workers, seed=self.word, probe=probe)
        self.maps: list[list[int]] = [owner.tolist()]
        self.delay = ack_delay
        self.known = [[0 if c else math.inf for c in self.capacities] for _ in range(sources)]
        self.under_way: list[list[tuple[int, int, int]]] = [[] for _ in range(sources)]  # arrival, worker, map number

    def signal(self, busy: BoolArray, idle: BoolArray) -> None:
        """End a time slot."""
        if self.delegation.end_slot(busy, idle):
            self.maps.append(self.delegation.owner.tolist())

    def owners(self, source: int) -> list[int]:
        """A source's map: the newest that every worker has told it of."""
        for arrival, worker, number in self.under_way[source]:
            if arrival <= self.message:
                self.known[source][worker] = max(self.known[source][worker], number)
        self.under_way[source] = [ack for ack in self.under_way[source] if ack[0] > self.message]
        return self.maps[int(min(self.known[source]))]

    def choose(self, key: int) -> int:
        """The worker of the virtual worker."""
        worker = self.owners(self.source)[self.porc.route([key])[0]]
        self.under_way[self.source].append((self.message + 1 + self.delay, worker, len(self.maps) - 1))
        return worker
