"""Which task reads what of a batch's ranges. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from trimtab.sources.source import Range, positions_of

NEAR = 0.05
"""A task's part may be this much larger or smaller than it should be, if no range is cut for it."""


def pieces(ranges: Sequence[Range], tasks: int) -> list[Range]:
    """The ranges, cut further so that there is work for this many tasks; a position is never cut.

    >>> pieces([Range("a", 0, 9), Range("b", 5, 6)], 4)
    [Range(partition='a', start=0, end=4), Range(partition='a', start=4, end=9), Range(partition='b', start=5, end=6)]
    """
    some = [part for part in ranges if part.end > part.start]
    cuts = max(1, tasks // max(1, len(some)))
    found = []
    for part in some:
        count = min(cuts, part.end - part.start)
        edges = [part.start + (part.end - part.start) * number // count for number in range(count + 1)]
        found += [Range(part.partition, start, end) for start, end in itertools.pairwise(edges)]
    return found


def shared_out(parts: Sequence[Range], tasks: int) -> list[list[Range]]:
    """The ranges for each of at most this many tasks: the largest ones first, each to the task that has least.

    >>> [[part.partition for part in own] for own in shared_out([Range(n, 0, len(n)) for n in ("a", "bbb", "cc")], 2)]
    [['bbb'], ['a', 'cc']]
    """
    loads = [0] * min(tasks, len(parts))
    shares: list[list[int]] = [[] for _ in loads]
    for number in sorted(range(len(parts)), key=lambda number: parts[number].start - parts[number].end):
        task = loads.index(min(loads))
        loads[task] += parts[number].end - parts[number].start
        shares[task].append(number)
    return [[parts[number] for number in sorted(own)] for own in shares]


def in_proportion(ranges: Sequence[Range], weights: Sequence[float]) -> list[list[Range]]:
    """What each task reads, in proportion to the weights: one part after another, and a position is never cut.

    >>> in_proportion([Range("a", 0, 8), Range("b", 5, 9)], [1.0, 1.0, 4.0])
    [[Range(partition='a', start=0, end=2)], [Range(partition='a', start=2, end=4)], \
[Range(partition='a', start=4, end=8), Range(partition='b', start=5, end=9)]]
    """
    left = [part for part in ranges if part.end > part.start]
    total, scale = positions_of(left), sum(weights)
    shares: list[list[Range]] = [[] for _ in weights]
    given, due = 0, 0.0
    for number, weight in enumerate(weights):
        own, is_last = total * weight / scale, number == len(weights) - 1
        due += own
        while left and (is_last or given + 0.5 <= due):
            part = left.pop(0)
            count = part.end - part.start
            if not is_last and given + count > due + NEAR * own:
                count = max(1, round(due - given))
                left.insert(0, Range(part.partition, part.start + count, part.end))
            shares[number].append(Range(part.partition, part.start, part.start + count))
            given += count
    return shares


def for_executors(ranges: Sequence[Range], weights: Sequence[tuple[str, float]]) -> list[tuple[str, list[Range]]]:
    """What the tasks of executors read, in proportion to their weights; tasks that would read nothing are left out.

    >>> for_executors([Range("a", 0, 2)], [("x", 1.0), ("y", 0.1), ("y", 0.1), ("z", 1.0)])
    [('x', [Range(partition='a', start=0, end=1)]), ('z', [Range(partition='a', start=1, end=2)])]
    """
    shares = in_proportion(ranges, [weight for _, weight in weights])
    return [(name, own) for (name, _), own in zip(weights, shares, strict=True) if own]
