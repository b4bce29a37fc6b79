"""Which executor each engine runs on, and how many executors are needed. Pure decisions; `executors` carries them out.

An engine stays on its executor from batch to batch, so that the speed measured there stays valid and the caches there
stay useful.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Executor:
    """A Spark process that runs up to `slots` tasks at a time."""

    id: str
    host: str
    slots: int


def assign(
    engines: int, executors: Sequence[Executor], before: Sequence[str] = (), *, first: int = 0
) -> tuple[str, ...]:
    """The executor of each engine: the one it had before, if that is still running and not beyond its share of engines.

    Other engines go to the executor with the smallest part of its slots taken; if several are equal, the search begins
    with number `first`. If there are more engines than slots, every executor gets a share in proportion to its slots.

    >>> two = [Executor("0", "a", 1), Executor("1", "b", 1)]
    >>> assign(3, two)
    ('0', '1', '0')
    >>> assign(3, [*two, Executor("2", "b", 1)], before=("0", "1", "0"))
    ('0', '1', '2')
    >>> assign(3, [Executor("1", "b", 1)], before=("0", "1", "0"))
    ('1', '1', '1')
    """
    rounds = max(1, engines // sum(each.slots for each in executors))
    held = {each.id: 0 for each in executors}
    share = {each.id: each.slots * rounds for each in executors}
    homes: list[str | None] = []
    for engine in range(engines):
        home = before[engine] if engine < len(before) else None
        stays = home is not None and held.get(home, 0) < share.get(home, 0)
        homes.append(home if stays else None)
        if home is not None and stays:
            held[home] += 1
    order = [executors[(first + number) % len(executors)] for number in range(len(executors))]
    for engine in range(engines):
        if homes[engine] is None:
            known = before[engine] if engine < len(before) else None
            chosen = min(order, key=lambda each: ((held[each.id] + 1) / each.slots, each.id != known)).id
            homes[engine] = chosen
            held[chosen] += 1
    return tuple(home for home in homes if home is not None)


def wanted(engines: int, executors: Sequence[Executor]) -> int:
    """How many executors are needed so that every engine has a slot; at least those that are running.

    New executors are assumed to be as large as the last one.

    >>> wanted(5, [Executor("0", "a", 2)])
    3
    """
    missing = engines - sum(each.slots for each in executors)
    if missing <= 0 or not executors:
        return len(executors)
    return len(executors) + math.ceil(missing / executors[-1].slots)


def surplus(engines: int, executors: Sequence[Executor], homes: Sequence[str] = ()) -> tuple[str, ...]:
    """The executors that can be released with a slot left for every engine: first idle ones, then the last engines'.

    `homes` is the executor of each engine, including engines that have been dropped.

    >>> three = [Executor("0", "a", 1), Executor("1", "b", 1), Executor("2", "c", 1)]
    >>> surplus(2, three, homes=("2", "0", "1"))
    ('1',)
    """
    last = {home: engine for engine, home in enumerate(homes)}
    newest = {each.id: number for number, each in enumerate(executors)}
    free = sum(each.slots for each in executors) - engines
    going: list[str] = []
    for each in sorted(executors, key=lambda e: (last.get(e.id, len(homes)), newest[e.id]), reverse=True):
        if each.slots <= free and len(going) + 1 < len(executors):
            going.append(each.id)
            free -= each.slots
    return tuple(going)
