"""Routers as plain Python loops, one message at a time: slow and obvious.

The compiled routers are tested against them, worker by worker, and benchmarked with them. They share the tables that
are made once (the alias table), but no code per message.
"""

from __future__ import annotations

import bisect
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from trimtab.deciding.spreading import count_virtual_workers, mix_plain
from trimtab_lab.routers.bounded_consistent_hash import ring
from trimtab_lab.routers.counting import checked_capacities
from trimtab_lab.routers.delegation import Delegation
from trimtab_lab.routers.hashing import GOLDEN, alias_table, seed_word
from trimtab_lab.routers.router import BoolArray


class PlainRouter(ABC):
    """Numbers the messages, assigns them to sources, and weighs them."""

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
        """The unbounded row of a key's workers."""
        first = mix_plain(key ^ word)
        for salt in itertools.count():
            mixed = first if salt == 0 else mix_plain(first + salt * int(GOLDEN))
            for half in (mixed >> 32, mixed & 0xFFFFFFFF):
                scaled = half * len(self.table)
                slot = scaled >> 32
                threshold, alias = self.table[slot]
                yield slot if scaled & 0xFFFFFFFF < threshold else alias

    def fill(self, worker: int) -> float:
        """How full a worker is, by what the current source knows."""
        return self.seen[self.source][worker] * self.emptiness[worker]

    def take(self, worker: int) -> int:
        """Send the current message to a worker."""
        self.seen[self.source][worker] += self.weights[self.source]
        return worker


class PlainKeyGrouping(PlainRouter):
    """KG."""

    def choose(self, key: int) -> int:
        """The first of the row."""
        return next(self.row(key, self.word))


class PlainShuffleGrouping(PlainRouter):
    """SG."""

    def choose(self, key: int) -> int:  # noqa: ARG002 - the key does not matter
        """In turn; by capacity the one that would be the least full."""
        if len(set(self.capacities)) == 1:
            return (self.word + self.message) % self.workers
        turns = self.seen[0]
        strong = [w for w in range(self.workers) if self.capacities[w]]
        worker = min(strong, key=lambda w: (turns[w] + 0.5) * self.emptiness[w])
        turns[worker] += 1
        return worker


class PlainPartialKeyGrouping(PlainRouter):
    """PKG."""

    def choose(self, key: int) -> int:
        """The less loaded of the first two of the row."""
        return self.take(min(itertools.islice(self.row(key, self.word), 2), key=self.fill))


class PlainTwoChoices(PlainRouter):
    """PoTC."""

    def choose(self, key: int) -> int:  # noqa: ARG002 - the number of the message is drawn by
        """The less loaded of two that the message's number draws."""
        draws = self.row(self.message, int(seed_word(self.seed, purpose=1)))
        return self.take(min(itertools.islice(draws, 2), key=self.fill))


class PlainRandomChoices(PlainRouter):
    """PoRC, as in Algorithm 1, with a cap."""

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


class PlainBoundedConsistentHash(PlainRandomChoices):
    """CH."""

    def __init__(
        self,
        workers: int,
        *,
        epsilon: float = 0.01,
        points: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | None = None,
        half_life: float | None = None,
    ) -> None:
        super().__init__(workers, epsilon=epsilon, seed=seed, capacities=capacities, half_life=half_life)
        places, owners = ring(np.flatnonzero(self.capacities), points, int(seed_word(seed, purpose=2)))
        self.places, self.owners = places.tolist(), owners.tolist()

    def choose(self, key: int) -> int:
        """Clockwise from the key's place to the first worker that is not full."""
        self.totals[0] += self.weights[0]
        start = bisect.bisect_left(self.places, mix_plain(key ^ self.word))
        clockwise = itertools.chain(range(start, len(self.places)), range(start))
        owners = (self.owners[place] for place in clockwise)
        return self.take(next(worker for worker in owners if self.pace(worker) < self.totals[0]))


class PlainConsistentGrouping(PlainRouter):
    """CG: PoRC over virtual workers, with all outstanding acknowledgements in a list."""

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
        counts = count_virtual_workers(np.array(self.capacities), virtual_workers)
        owner = np.repeat(np.arange(workers, dtype=np.int32), counts)
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
        """A source's map: the newest that every worker has reported to it."""
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


class PlainDChoices(PlainRouter):
    """D-Choices, with a sketch in a dictionary for each source."""

    every_worker = False

    def __init__(
        self,
        workers: int,
        *,
        hot_share: float | None = None,
        epsilon: float = 1e-4,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | None = None,
        half_life: float | None = None,
    ) -> None:
        super().__init__(workers, sources=sources, seed=seed, capacities=capacities, half_life=half_life)
        self.hot_share = 1 / (5 * workers) if hot_share is None else hot_share
        self.epsilon = epsilon
        halving = None if half_life is None else max(1, round(half_life / sources))
        self.sketches = [PlainSpaceSaving(max(64, math.ceil(2 / self.hot_share)), halving) for _ in range(sources)]
        self.choices = [workers if self.every_worker else min(2, workers)] * sources
        self.next_look = [(128, 128)] * sources  # messages until then, and between that and the next time

    def choose(self, key: int) -> int:
        """The least loaded of two, d or all."""
        source, sketch = self.source, self.sketches[self.source]
        sketch.see(key)
        least = self.hot_share * max(sketch.total, math.ceil(10 / self.hot_share))
        hot = sketch.sure(key) >= least
        d, row = self.choices[source], self.row(key, self.word)
        if not hot:
            worker = min(itertools.islice(row, 2), key=self.fill)
        elif d >= self.workers:
            worker = min((w for w in range(self.workers) if self.capacities[w]), key=self.fill)
        else:
            distinct = math.ceil(self.workers * (1 - ((self.workers - 1) / self.workers) ** d) - 1e-9)
            different = list(dict.fromkeys(itertools.islice(row, 4 * d)))
            worker = min(different[:distinct], key=self.fill)
        self.take(worker)
        wait, pause = self.next_look[source]
        self.next_look[source] = (wait - 1, pause)
        if wait == 1 and not self.every_worker:
            pause = min(2 * pause, 1 << 14)
            self.next_look[source] = (pause, pause)
            shares = [sketch.sure(k) / sketch.total for k in sketch.counts if sketch.sure(k) >= least]
            self.choices[source] = self.needed(sorted(shares, reverse=True))
        return worker

    def needed(self, shares: list[float]) -> int:
        """The least d that can balance keys of these shares."""
        if not shares:
            return min(2, self.workers)
        n, others = self.workers, 1 - sum(shares)
        for d in range(max(2, math.ceil(shares[0] * n)), n):
            parts = [1 - ((n - 1) / n) ** (h * d) for h in range(1, len(shares) + 1)]
            falls = [
                sum(shares[: h + 1]) + part**d * sum(shares[h + 1 :]) + part**2 * others for h, part in enumerate(parts)
            ]
            if all(fall <= part * (1 + self.epsilon * n) for fall, part in zip(falls, parts, strict=True)):
                return d
        return n


class PlainWChoices(PlainDChoices):
    """W-Choices."""

    every_worker = True

    def __init__(
        self,
        workers: int,
        *,
        hot_share: float | None = None,
        sources: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | None = None,
        half_life: float | None = None,
    ) -> None:
        super().__init__(
            workers, hot_share=hot_share, sources=sources, seed=seed, capacities=capacities, half_life=half_life
        )


class PlainSpaceSaving:
    """The sketch of `hot_keys`: when all counters are in use, a new key takes over the least of them.

    >>> sketch = PlainSpaceSaving(2, None)
    >>> for key in (1, 1, 1, 2, 3):
    ...     sketch.see(key)
    >>> sketch.counts
    {1: [3, 0, 0], 3: [2, 1, 1]}
    """

    def __init__(self, counters: int, halving: int | None) -> None:
        self.counters, self.halving = counters, halving
        self.counts: dict[int, list[int]] = {}  # key: count, error, number of the counter
        self.total, self.cursor, self.next_halving = 0, 0, halving or 0

    def see(self, key: int) -> None:
        """Count a message."""
        if self.halving and self.total >= self.next_halving:
            self.total //= 2
            self.counts = {k: [count // 2, error // 2, number] for k, (count, error, number) in self.counts.items()}
            self.next_halving = self.total + self.halving
        self.total += 1
        if key not in self.counts:
            if len(self.counts) < self.counters:
                self.counts[key] = [0, 0, len(self.counts)]
            else:
                least = min(count for count, _, _ in self.counts.values())
                victims = {entry[2]: k for k, entry in self.counts.items() if entry[0] == least}
                number = min(victims, key=lambda n: (n - self.cursor) % self.counters)
                del self.counts[victims[number]]
                self.counts[key] = [least, least, number]
                self.cursor = (number + 1) % self.counters
        self.counts[key][0] += 1

    def sure(self, key: int) -> int:
        """The least possible number of messages of a key."""
        return self.counts[key][0] - self.counts[key][1] if key in self.counts else 0


PLAIN: dict[str, type[PlainRouter]] = {
    "KG": PlainKeyGrouping,
    "SG": PlainShuffleGrouping,
    "PKG": PlainPartialKeyGrouping,
    "PoTC": PlainTwoChoices,
    "PoRC": PlainRandomChoices,
    "CH": PlainBoundedConsistentHash,
    "CG": PlainConsistentGrouping,
    "D-C": PlainDChoices,
    "W-C": PlainWChoices,
}
"""The twins of `ROUTERS`."""
