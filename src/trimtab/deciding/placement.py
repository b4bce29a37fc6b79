"""Placement: which engine holds each key group. Plain values; every change returns a new one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.errors import JobError
from trimtab.state.checkpoint import MAX_KEY_GROUPS

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

SHARES = 64
"""A key that is spread over engines is divided into this many equal shares."""
SCHEMES = ("pkg", "random-choices", "consistent")
"""Ways to choose the shares: see `spreading`."""
MOST_SPREAD = 64
"""How many keys may be spread at once: a row is compared with each of them."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A key over several engines: `engines` has the engine of each of its `SHARES` shares.

    >>> Spread.of_counts(7, [32, 0, 32]).engines == (0,) * 32 + (2,) * 32
    True
    """

    slot: int
    engines: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check that every share has an engine."""
        assert len(self.engines) == SHARES

    @classmethod
    def of_counts(cls, slot: int, counts: Sequence[int]) -> Spread:
        """`counts[engine]` shares for each engine."""
        return cls(slot, tuple(engine for engine, count in enumerate(counts) for _ in range(count)))

    def within(self, engines: int) -> Spread | None:
        """The same key on the first `engines` engines, which take over the others' shares; None: it has none of them.

        >>> spread = Spread.of_counts(7, [0, 32, 32])
        >>> spread.within(2) == Spread.of_counts(7, [0, 64]), spread.within(1)
        (True, None)
        """
        left = sorted({engine for engine in self.engines if engine < engines})
        if not left or max(self.engines) < engines:
            return self if left else None
        heirs = itertools.cycle(left)
        return Spread(self.slot, tuple(sorted(e if e < engines else next(heirs) for e in self.engines)))


@dataclass(frozen=True, slots=True)
class Placement:
    """The splitter's table: `owner[group]` is the engine of a key group, from 0 to `engines - 1`.

    Hot keys of split queries may be `spread` over several engines, whichever engine owns their key group.
    """

    engines: int
    owner: tuple[int, ...]
    spread: tuple[Spread, ...] = ()  # in order of their slots

    @classmethod
    def even(cls, engines: int, key_groups: int) -> Placement:
        """Key groups assigned to engines in turn.

        >>> Placement.even(2, 5).owner
        (0, 1, 0, 1, 0)
        """
        check_engines(engines, key_groups)
        return cls(engines, tuple(group % engines for group in range(key_groups)))

    def moved(self, moves: Mapping[int, int]) -> Placement:
        """The placement with some key groups on other engines; `moves` maps key group to engine.

        >>> Placement.even(2, 4).moved({0: 1}).owner
        (1, 1, 0, 1)
        """
        owner = list(self.owner)
        for group, engine in moves.items():
            if not 0 <= int(group) < len(owner):
                message = f"there is no key group {group}"
                raise JobError("job.move", message, f"key groups are 0 to {len(owner) - 1}")
            if not 0 <= int(engine) < self.engines:
                message = f"key group {group} can't move to engine {engine}"
                raise JobError("job.move", message, f"engines are 0 to {self.engines - 1}; resize first to have more")
            owner[int(group)] = int(engine)
        return replace(self, owner=tuple(owner))

    def resized(self, engines: int) -> Placement:
        """The placement on another number of engines: even, and with as few moves as possible.

        >>> Placement.even(2, 6).resized(3).owner
        (0, 1, 0, 1, 2, 2)
        >>> Placement.even(3, 6).resized(2).owner
        (0, 1, 0, 0, 1, 1)
        """
        check_engines(engines, len(self.owner))
        least, extra = divmod(len(self.owner), engines)
        share = [least] * engines
        held = [self.owner.count(engine) for engine in range(engines)]
        for engine in sorted(range(engines), key=lambda engine: -held[engine])[:extra]:
            share[engine] += 1  # the larger shares go where most key groups can stay
        owner = list(self.owner)
        for group, engine in enumerate(owner):
            if engine < engines and share[engine] > 0:
                share[engine] -= 1
            else:
                owner[group] = -1
        room = iter([engine for engine, free in enumerate(share) for _ in range(free)])
        owner = [next(room) if engine < 0 else engine for engine in owner]
        return Placement(engines, tuple(owner), within(self.spread, engines))

    def with_spread(self, spread: Iterable[Spread]) -> Placement:
        """The placement with exactly these keys spread, over engines that exist; every other key is on one engine.

        >>> Placement.even(2, 4).with_spread([Spread.of_counts(7, [32, 32])]).spread_slots().tolist()
        [7]
        """
        ordered = sorted(spread, key=lambda each: each.slot)
        assert len(ordered) <= MOST_SPREAD
        assert len({each.slot for each in ordered}) == len(ordered)
        # The number of engines may have shrunk since this was decided.
        return replace(self, spread=within(ordered, self.engines))

    def spread_slots(self) -> Int64Array:
        """The keys that are spread, in order."""
        return np.array([each.slot for each in self.spread], np.int64)

    def share_table(self) -> Int32Array:
        """The engine of each share of each key that is spread, in order of `spread_slots`."""
        return np.array([each.engines for each in self.spread], np.int32).reshape(len(self.spread), SHARES)

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers that `from_json` reads."""
        spread = [[each.slot, list(each.engines)] for each in self.spread]
        return {"engines": self.engines, "owner": list(self.owner), "spread": spread}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Placement:
        """The placement that `as_json` wrote, also by builds that had no spread keys.

        >>> placement = Placement.even(2, 4).with_spread([Spread.of_counts(7, [32, 32])])
        >>> Placement.from_json(placement.as_json()) == placement
        True
        """
        spread = tuple(Spread(slot, tuple(engines)) for slot, engines in kept.get("spread", ()))
        return cls(kept["engines"], tuple(kept["owner"]), spread)

    def array(self) -> Int32Array:
        """The owners as an array."""
        return np.array(self.owner, np.int32)

    def moves_from(self, before: Placement) -> int:
        """How many key groups are on another engine than before."""
        return sum(a != b for a, b in zip(self.owner, before.owner, strict=True))


def within(spread: Iterable[Spread], engines: int) -> tuple[Spread, ...]:
    """These keys on the first `engines` engines, except those that have no share there."""
    return tuple(kept for each in spread if (kept := each.within(engines)) is not None)


def check_engines(engines: int, key_groups: int) -> None:
    """Raise JobError `job.engines` unless this can be the number of engines."""
    if not isinstance(engines, int) or isinstance(engines, bool) or engines < 1:
        raise JobError("job.engines", f"engines must be a positive whole number, not {engines!r}")
    if engines > key_groups:
        message = f"{engines} engines can't share {key_groups} key groups"
        raise JobError("job.engines", message, "an engine needs at least one; ask for fewer engines")


def check_key_groups(key_groups: int) -> None:
    """Raise JobError `job.key-groups` unless this can be the number of key groups."""
    if not isinstance(key_groups, int) or isinstance(key_groups, bool) or not 1 <= key_groups <= MAX_KEY_GROUPS:
        message = f"key_groups must be a whole number from 1 to {MAX_KEY_GROUPS}, not {key_groups!r}"
        raise JobError("job.key-groups", message)
