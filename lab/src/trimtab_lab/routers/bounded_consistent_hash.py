"""Consistent hashing with bounded loads: clockwise on a ring to the first worker with room."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.deciding.spreading import mix_plain
from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.counting import CountingRouter, checked_option
from trimtab_lab.routers.decay import HUGE, SHRINK, shrink
from trimtab_lab.routers.hashing import UInt64Array, mixed, seed_word
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array
from trimtab_lab.routers.spare import pace


class BoundedConsistentHash(CountingRouter):
    """Consistent hashing with bounded loads (CH): keys and workers are on a ring, and full workers are skipped.

    The same bound as PoRC: no worker is ever above `(1 + epsilon) * share + 1` messages. What a full worker can't take
    goes to its neighbour on the ring, which then fills up too, so keys spread over more workers than with PoRC. A
    worker that joins or leaves changes only its part of the ring.

    Args:
        workers: how many there are.
        epsilon: how far a worker's load may be above its share, as a fraction of it.
        points: places of each worker on the ring. 1 is the scheme as published; more make the arcs more even.
        seed: decides the ring.
        capacities: how strong each worker is, in any unit. They change how much a worker may take, not its arcs.
        half_life: after how many messages a load counts half.
        count_replicas: keep the set of (key, worker) pairs.

    >>> router = BoundedConsistentHash(4, epsilon=0.1, seed=1)
    >>> _ = router.route(np.zeros(10_000, np.int64))
    >>> router.imbalance <= 0.1 + 4 / router.messages
    True

    References: Mirrokni, Thorup and Zadimoghaddam (2016); Nasir et al. (2017), section III-C.
    """

    def __init__(
        self,
        workers: int,
        *,
        epsilon: float = 0.01,
        points: int = 1,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        super().__init__(workers, seed=seed, capacities=capacities, half_life=half_life, count_replicas=count_replicas)
        checked_option("epsilon", epsilon, 0)
        checked_option("points", points, 1)
        self._points, self._owners = ring(np.flatnonzero(self._capacities), points, int(seed_word(seed, purpose=2)))
        self._guide, self._guide_shift = _guide(self._points)
        self._paces = pace(self._capacities / self._capacities.sum(), epsilon)
        self._known_loads: Float64Array = np.zeros(workers)
        self._total: Float64Array = np.zeros(1)
        self._known_weight: Float64Array = np.ones(1)
        # For each point, how many points from it on are known to be full, and until which total: see `spare`.
        self._skips: Int64Array = np.zeros(self._points.size, np.int64)
        self._skip_until: Float64Array = np.zeros(self._points.size)

    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        _choose(
            keys,
            chosen,
            self._seed,
            self._points,
            self._owners,
            self._guide,
            self._guide_shift,
            self._paces,
            self._known_loads,
            self._total,
            self._known_weight,
            self._growth,
            self._skips,
            self._skip_until,
        )


def ring(workers: Int64Array, points: int, seed: int) -> tuple[UInt64Array, Int32Array]:
    """The points on the ring in clockwise order, and the worker of each.

    >>> places, owners = ring(np.arange(3), 2, seed=1)
    >>> bool((np.diff(places.astype(float)) > 0).all()), sorted(owners.tolist())
    (True, [0, 0, 1, 1, 2, 2])
    """
    placed = sorted((mix_plain(mix_plain(seed ^ int(w)) + p), int(w)) for w in workers for p in range(points))
    return np.array([place for place, _ in placed], np.uint64), np.array([owner for _, owner in placed], np.int32)


def _guide(points: UInt64Array) -> tuple[Int32Array, np.uint64]:
    """For each of 2**k equal arcs the first point at or after its start, so that a search takes a step or two."""
    bits = max(1, (2 * points.size - 1).bit_length())
    shift = 64 - bits
    starts = np.array([arc << shift for arc in range(1 << bits)], np.uint64)
    return np.searchsorted(points, starts).astype(np.int32), np.uint64(shift)


@kernel
def _choose(
    keys: Int64Array,
    chosen: Int32Array,
    seed: np.uint64,
    points: UInt64Array,
    owners: Int32Array,
    guide: Int32Array,
    guide_shift: np.uint64,
    paces: Float64Array,
    known_loads: Float64Array,
    totals: Float64Array,
    weight: Float64Array,
    growth: float,
    skips: Int64Array,
    skip_until: Float64Array,
) -> None:
    now, total, size = weight[0], totals[0], points.size
    for i in range(keys.size):
        now *= growth
        if now > HUGE:
            shrink(known_loads)
            shrink(skip_until)
            now *= SHRINK
            total *= SHRINK
        total += now
        word = mixed(keys[i], seed)
        start = int(guide[word >> guide_shift])
        while start < size and points[start] < word:
            start += 1
        if start == size:
            start = 0
        skip, until = 0, np.inf
        if total <= skip_until[start]:
            skip, until = int(skips[start]), float(skip_until[start])
        place = start + skip
        if place >= size:
            place -= size
        while True:
            worker = owners[place]
            fill = known_loads[worker] * paces[worker]
            if fill < total or skip >= size:
                break
            until = min(until, fill)
            skip += 1
            place += 1
            if place == size:
                place = 0
        skips[start] = skip
        skip_until[start] = until if skip > 0 else 0.0
        known_loads[worker] += now
        chosen[i] = worker
    weight[0] = now
    totals[0] = total
