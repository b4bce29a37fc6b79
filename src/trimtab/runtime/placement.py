"""Placement: which engine holds each key group. Plain values; every change gives a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.errors import JobError
from trimtab.state.checkpoint import MAX_KEY_GROUPS

Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Placement:
    """The splitter's table: `owner[group]` is the engine of a key group, from 0 to `engines - 1`."""

    engines: int
    owner: tuple[int, ...]

    @classmethod
    def even(cls, engines: int, key_groups: int) -> Placement:
        """Key groups dealt out in turn.

        >>> Placement.even(2, 5).owner
        (0, 1, 0, 1, 0)
        """
        check_engines(engines, key_groups)
        return cls(engines, tuple(group % engines for group in range(key_groups)))

    def moved(self, moves: Mapping[int, int]) -> Placement:
        """The placement after some key groups changed their engine.

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
        return Placement(self.engines, tuple(owner))

    def resized(self, engines: int) -> Placement:
        """The placement on another number of engines, level, and with as few moves as that takes.

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
            share[engine] += 1  # where most can stay
        owner: list[int] = []
        homeless: list[int] = []
        for group, engine in enumerate(self.owner):
            if engine < engines and share[engine] > 0:
                share[engine] -= 1
                owner.append(engine)
            else:
                owner.append(-1)
                homeless.append(group)
        room = [engine for engine, free in enumerate(share) for _ in range(free)]
        for group, engine in zip(homeless, room, strict=True):
            owner[group] = engine
        return Placement(engines, tuple(owner))

    def groups_of(self, engine: int) -> npt.NDArray[np.bool_]:
        """Which key groups an engine holds, as a mask."""
        return np.asarray(self.array() == engine)

    def array(self) -> Int32Array:
        """The owners as an array."""
        return np.array(self.owner, np.int32)

    def moves_from(self, before: Placement) -> int:
        """How many key groups are elsewhere than before."""
        return sum(a != b for a, b in zip(self.owner, before.owner, strict=True))


def check_engines(engines: int, key_groups: int) -> None:
    """Raise unless there can be so many engines."""
    if not isinstance(engines, int) or isinstance(engines, bool) or engines < 1:
        raise JobError("job.engines", f"engines must be a positive whole number, not {engines!r}")
    if engines > key_groups:
        message = f"{engines} engines can't share {key_groups} key groups"
        raise JobError("job.engines", message, "an engine needs at least one; ask for fewer engines")


def check_key_groups(key_groups: int) -> None:
    """Raise unless there can be so many key groups."""
    if not isinstance(key_groups, int) or isinstance(key_groups, bool) or not 1 <= key_groups <= MAX_KEY_GROUPS:
        message = f"key_groups must be a whole number from 1 to {MAX_KEY_GROUPS}, not {key_groups!r}"
        raise JobError("job.key-groups", message)
