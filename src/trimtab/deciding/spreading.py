"""Spreading hot keys: over which engines, in which shares. Pure: loads in, shares out.

The papers' routers decide for each message by the messages before it. Here loads are known from the last batches, so
the same rules give shares directly, as if messages were a fluid:

    pkg             the two engines that the key is hashed to, filled to one level (Nasir et al. 2015)
    random-choices  the key's own sequence of engines: each takes what it has room for, up to (1 + epsilon) of its share
                    of all load, and the rest flows on to the next (PoRC, Nasir et al. 2017, section V-A)
    consistent      the same over virtual workers; an engine has a number of them in proportion to its capacity, each
                    with room for an equal part (consistent grouping, section V-B)

A key keeps its sequence of engines whatever the loads are; when an engine comes or goes, the others keep their order.
Shares stay as they are as long as they are nearly as good as new ones: each change means a new table for the splitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from trimtab.deciding.observation import Float64Array
from trimtab.deciding.placement import MOST_SPREAD, SHARES, Int32Array, Int64Array, Spread

EPSILON = 0.01
"""How far above its share of all load an engine may be filled."""
VIRTUAL_WORKERS = 10
"""How many virtual workers an engine has, on average."""
SPREAD_FROM, LEAVING = 0.5, 0.6
"""A key is spread if its load is more than the first part of an engine's mean load, and goes back to one engine when
its load is below the second part of that."""
TOLERANCE = 0.05
"""Shares stay as they are while new ones would relieve the fullest engine by at most this part of its fair share."""

MULTIPLIERS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SHIFTS = 30, 27, 31
_ALL_BITS = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class HotLoads:
    """The hot keys of a batch, and the engines' other load.

    slots     (n,) the keys, each once
    loads     (n,) the total load of each key, in any unit
    homes     (n,) the engine that owns its key group
    base      (engines,) the load of each engine without these keys, in the same unit
    """

    slots: Int64Array
    loads: Float64Array
    homes: Int32Array
    base: Float64Array


def spread_keys(
    scheme: str, hot: HotLoads, capacities: Float64Array | None = None, *, before: Sequence[Spread] = ()
) -> tuple[Spread, ...]:
    """Which keys to spread, and how: in order of their slots, as in a `Placement`.

    Args:
        scheme: One of `placement.SCHEMES`.
        hot: Loads of hot keys and of engines.
        capacities: How strong each engine is, in any unit; an engine of 0 takes nothing. None: all the same.
        before: The keys that are spread now.

    >>> even = HotLoads(np.array([7]), np.array([60.0]), np.array([0], np.int32), np.full(4, 10.0))
    >>> [spread] = spread_keys("random-choices", even)
    >>> sorted(spread.engines.count(engine) for engine in range(4))
    [15, 16, 16, 17]
    >>> len(set(spread_keys("pkg", even)[0].engines))
    2
    """
    strength = np.ones(len(hot.base)) if capacities is None else np.asarray(capacities, np.float64)
    total = float(hot.base.sum() + hot.loads.sum())
    usable = int(np.count_nonzero(strength > 0))
    if usable < 2 or total <= 0:
        return ()
    least = SPREAD_FROM * total / usable
    wanted = np.where(np.isin(hot.slots, [each.slot for each in before]), LEAVING * least, least)
    order = np.lexsort((hot.slots, -hot.loads))  # the heaviest keys first, as in any packing
    order = order[(hot.loads > wanted)[order]][:MOST_SPREAD]
    whole = np.delete(np.arange(len(hot.slots)), order)
    held = hot.base.copy()
    np.add.at(held, hot.homes[whole], hot.loads[whole])
    room = _Room(scheme, strength, total)
    found: dict[int, Spread] = {}
    taken = held.copy()
    for number in order.tolist():
        slot, load = int(hot.slots[number]), float(hot.loads[number])
        parts = room.fill(slot, load, taken)
        counts = _whole(parts * (SHARES / parts.sum()), SHARES)
        taken += counts * (load / SHARES)
        found[slot] = Spread.of_counts(slot, counts.tolist())
    same_keys = bool(before) and {each.slot for each in before} == set(found)
    if same_keys and _is_good_enough(before, hot, held, taken, room):
        return tuple(sorted(before, key=lambda each: each.slot))
    at_home = {int(slot): int(home) for slot, home in zip(hot.slots, hot.homes, strict=True)}
    return tuple(found[slot] for slot in sorted(found) if set(found[slot].engines) != {at_home[slot]})


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """How much engines may take, and in which order a key tries them."""

    scheme: str
    strength: Float64Array
    total: float

    @property
    def fair(self) -> Float64Array:
        """Each engine's share of all load."""
        return np.asarray(self.strength * (self.total / self.strength.sum()))

    def candidates(self, slot: int) -> list[int]:
        """The engines that may have parts of a key, in the order in which it tries them."""
        usable = np.flatnonzero(self.strength > 0).tolist()
        order = [engine for engine, _ in hashed_order(slot, tuple((engine, 0) for engine in usable))]
        return order[:2] if self.scheme == "pkg" else order

    def fill(self, slot: int, load: float, held: Float64Array) -> Float64Array:
        """How much of a key's load each engine takes in addition to what it holds."""
        if self.scheme == "pkg":
            return _levelled(self.candidates(slot), load, held, self.strength)
        taken = np.zeros(len(held))
        for engine, most in self._rooms(slot, held):
            part = min(most, load - float(taken.sum()))
            if part <= 0:
                break
            taken[engine] += part
        rest = load - float(taken.sum())  # more than 0 only by rounding: together, engines have room for all load
        return taken if rest <= 0 else taken + _levelled(self.candidates(slot), rest, held + taken, self.strength)

    def _rooms(self, slot: int, held: Float64Array) -> list[tuple[int, float]]:
        """The engines that a key tries, in order, and how much each may take."""
        if self.scheme == "random-choices":
            free = np.maximum((1 + EPSILON) * self.fair - held, 0.0)
            return [(engine, float(free[engine])) for engine in self.candidates(slot)]
        workers = count_virtual_workers(self.strength, VIRTUAL_WORKERS)
        free = np.maximum((1 + EPSILON) * self.total / workers.sum() - held / np.maximum(workers, 1), 0.0)
        # A virtual worker is identified by its engine and its number there, so others can come and go without effect.
        virtual = [(engine, number) for engine, count in enumerate(workers.tolist()) for number in range(count)]
        return [(engine, float(free[engine])) for engine, _ in hashed_order(slot, tuple(virtual))]


def _levelled(engines: Sequence[int], load: float, held: Float64Array, strength: Float64Array) -> Float64Array:
    """Divide a load over engines so that the fullest of them, relative to its strength, is as low as possible."""
    order = sorted(engines, key=lambda engine: held[engine] / strength[engine])
    level = 0.0
    for count in range(1, len(order) + 1):
        own = order[:count]
        level = float((load + held[own].sum()) / strength[own].sum())
        if count == len(order) or level <= held[order[count]] / strength[order[count]]:
            break
    taken = np.zeros(len(held))
    taken[order] = np.maximum(level * strength[order] - held[order], 0.0)
    return taken


def _whole(wanted: Float64Array, total: int, least: Int64Array | int = 0) -> Int64Array:
    """Whole numbers with such a sum, by largest remainders, none below `least`, even if that makes the sum larger."""
    counts = np.maximum(np.floor(wanted), least).astype(np.int64)
    missing = max(0, total - int(counts.sum()))
    counts[np.argsort(counts - wanted, kind="stable")[:missing]] += 1
    return counts


def _is_good_enough(
    before: Sequence[Spread], hot: HotLoads, held: Float64Array, taken: Float64Array, room: _Room
) -> bool:
    """Whether the current shares are allowed by the scheme, and nearly as even as new ones that lead to `taken`."""
    loads = {int(slot): float(load) for slot, load in zip(hot.slots, hot.loads, strict=True)}
    now = held.copy()
    for each in before:
        if not set(each.engines) <= set(room.candidates(each.slot)):
            return False
        np.add.at(now, list(each.engines), loads[each.slot] / SHARES)
    fair = np.where(room.fair > 0, room.fair, np.inf)
    return bool((now / fair).max() <= (taken / fair).max() + TOLERANCE)


def mix_plain(word: int) -> int:
    """Scramble 64 bits so that each depends on all: a bijection (the finaliser of splitmix64)."""
    word &= _ALL_BITS
    for shift, multiplier in zip(SHIFTS[:2], MULTIPLIERS, strict=True):
        word = ((word ^ (word >> shift)) * multiplier) & _ALL_BITS
    return word ^ (word >> SHIFTS[2])


@lru_cache(maxsize=4 * MOST_SPREAD)
def hashed_order(slot: int, workers: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """Workers, each an engine and a number there, in the order of a key's own: by a hash of both (rendezvous)."""
    word = mix_plain(slot)
    engines = {engine: mix_plain(word + engine + 1) for engine, _ in workers}
    return sorted(workers, key=lambda worker: mix_plain(engines[worker[0]] + worker[1]))


def count_virtual_workers(capacities: Float64Array, on_average: int) -> Int64Array:
    """How many virtual workers each worker has, in proportion to the capacities, by largest remainders.

    Every worker with any capacity gets one at least.

    >>> count_virtual_workers(np.array([2.0, 1.0, 0.0]), 2).tolist()
    [4, 2, 0]
    """
    total = on_average * capacities.size
    wanted = capacities * (total / capacities.sum())
    held = _whole(wanted, total, (capacities > 0).astype(np.int64))
    while held.sum() > total:  # the ones that every worker gets were too many
        held[np.argmax(np.where(held > 1, held - wanted, -np.inf))] -= 1
    return held
