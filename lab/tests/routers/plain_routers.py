"""The routers of the papers as plain Python loops, beside the twins of trimtab's own (see `tests.support`)."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

import numpy as np

from tests.support.plain_routers import PlainConsistentGrouping, PlainRandomChoices, PlainRouter
from trimtab.routing.hashing import mix_plain, seed_word
from trimtab_lab.routers.bounded_consistent_hash import ring


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
        self.next_look = [(128, 128)] * sources  # messages until then, and from then to the one after it

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
    """The sketch of `hot_keys`: when all counters are taken, the least of them goes to the newcomer.

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
        """How often a key came at least."""
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
