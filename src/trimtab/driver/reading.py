"""From which position to which the next batch reads each partition of trimtab's own source. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.errors import InputError
from trimtab.sources.source import Partition, Range


def beginnings(positions: Mapping[str, int], partitions: Mapping[str, Partition]) -> dict[str, int]:
    """Where each partition is read on: after what was read, or where a new one begins.

    Raises InputError `source.lost` if the source no longer has what comes next: other rows would be wrong answers.
    """
    found = {name: positions.get(name, each.start) for name, each in partitions.items()}
    for name, at in found.items():
        earliest = partitions[name].earliest
        if at < earliest:
            raise InputError(
                "source.lost",
                f"partition {name} is read on at position {at}, but the source begins at {earliest}: "
                f"it has dropped {earliest - at} positions that were not read yet",
                "let the source keep its rows for longer than the job is down; to go on without them, start with a "
                "fresh checkpoint",
            )
    return found


def next_ranges(begin: Mapping[str, int], latest: Mapping[str, int], most: int | None = None) -> tuple[Range, ...]:
    """What the next batch reads: all that there is, or `most` positions at the most, divided evenly.

    What a partition can't use of its share goes to the others.

    >>> next_ranges({"a": 0, "b": 5}, {"a": 100, "b": 8}, 10)
    (Range(partition='a', start=0, end=7), Range(partition='b', start=5, end=8))
    """
    backlog = {name: latest[name] - at for name, at in sorted(begin.items()) if latest.get(name, at) > at}
    left, shares = sum(backlog.values()) if most is None else most, {}
    for number, name in enumerate(sorted(backlog, key=lambda each: backlog[each])):  # the smallest first
        shares[name] = min(backlog[name], -(-left // (len(backlog) - number)))
        left -= shares[name]
    return tuple(Range(name, begin[name], begin[name] + shares[name]) for name in backlog if shares[name])
