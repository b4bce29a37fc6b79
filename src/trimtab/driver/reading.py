"""From which position to which the next batch reads each partition of trimtab's own source. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from trimtab.control.sharing import PartitionBacklog, measured_density, ranges
from trimtab.errors import InputError
from trimtab.sources.source import Partition, Range, positions_of

NOWHERE: Mapping[str, int] = {}
"""No positions are given."""

FASTEST_GROWTH = 4.0
"""A batch reads at most this many times as many positions as the last one, unless they surely are within the limit: how
many rows positions have is only known of those that were read."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a batch reads.

    ranges       at most one of each partition
    ended        the partitions of which nothing is left behind them
    rows         how many rows that probably are; infinite: nothing is known of them
    waiting      how many rows probably wait behind them
    limit_rows   how many it was allowed to read; None: any number
    size_bytes   how large its rows probably are; infinite: nothing is known of them
    """

    ranges: tuple[Range, ...]
    ended: frozenset[str] = frozenset()
    rows: float = math.inf
    waiting: float = 0.0
    limit_rows: int | None = None
    size_bytes: float = math.inf


def beginnings(
    positions: Mapping[str, int], partitions: Mapping[str, Partition], start_at: Mapping[str, int] = NOWHERE
) -> dict[str, int]:
    """Where each partition is read on: after what was read, or at its start.

    start_at   the start of some partitions, if it isn't the one that the source gives

    Raises InputError `source.lost` if the source no longer has what comes next: other rows would be wrong answers.
    """
    found = {name: positions.get(name, start_at.get(name, each.start)) for name, each in partitions.items()}
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


def not_begun(
    partitions: Mapping[str, Partition], positions: Mapping[str, int], part_of: Callable[[str], str]
) -> dict[str, Partition]:
    """The partitions that begin where the user says: nothing was read of their part of the source, such as a topic.

    Others of that part came later, so all of them is new, also to a job that begins at the end of its source.
    """
    known = {part_of(name) for name in positions}
    return {name: each for name, each in partitions.items() if part_of(name) not in known}


def as_first_seen(partitions: Mapping[str, Partition], before: Mapping[str, Partition]) -> dict[str, Partition]:
    """The partitions of a look: they begin where the first look found them, those it lacked at their earliest.

    before   the partitions after the look before; at the first one those of `not_begun`

    A source that begins at its end says at every look where that is now.
    """
    return {
        name: replace(each, start=before[name].start if name in before else each.earliest)
        for name, each in partitions.items()
    }


def beginnings_to_keep(
    partitions: Mapping[str, Partition], ends: Mapping[str, int], start_at: Mapping[str, int] = NOWHERE
) -> Read:
    """Empty ranges, if a job has to commit where it begins to read these before their first rows; or no ranges.

    partitions   those of which nothing was read
    ends         where the partitions ended before the source was asked where they begin
    start_at     the positions that a user has given, if any: a later start may lack them, or find more partitions

    A source that begins at its end would begin elsewhere at the next start, and what came in between would be skipped.
    It is known by that it begins after the earliest row, or that no row waits. Of others the first batch with rows
    commits the beginnings.
    """
    if not partitions:
        return Read((), rows=0.0)
    is_found_again = not start_at and all(each.start == each.earliest for each in partitions.values())
    if is_found_again and any(ends.get(name, each.start) > each.start for name, each in partitions.items()):
        return Read((), rows=0.0)
    begin = {name: start_at.get(name, each.start) for name, each in partitions.items()}
    return Read(tuple(Range(name, at, at) for name, at in sorted(begin.items())), rows=0.0, waiting=math.inf)


def without_waiting(
    latest: Mapping[str, int], begin: Mapping[str, int], real_ends: Callable[[], Mapping[str, int]]
) -> Mapping[str, int]:
    """The ends of partitions, where those that end before they are read on end there, if they really have rows so far.

    latest      where they end, as far as they may be read now
    real_ends   says up to where they have rows; it is only asked if there is such a partition

    >>> without_waiting({"a": 3, "b": 3}, {"a": 5, "b": 5}, lambda: {"a": 5, "b": 4})
    {'a': 5, 'b': 3}
    """
    behind = [name for name, at in begin.items() if latest.get(name, at) < at]
    real = real_ends() if behind else {}
    return {**latest, **{name: begin[name] for name in behind if real.get(name, 0) >= begin[name]}}


def with_beginnings(read: Read, positions: Mapping[str, int], begin: Mapping[str, int]) -> Read:
    """The same, and an empty range of every partition without a position: so its beginning is committed, too."""
    named = {*positions, *(each.partition for each in read.ranges)}
    others = tuple(Range(name, at, at) for name, at in sorted(begin.items()) if name not in named)
    return replace(read, ranges=read.ranges + others) if read.ranges else read


class SourceReader:
    """Decides what the batches of one start read, and learns from them.

    `rows_each`: how many rows a position has; infinite: that isn't known, so the first batch takes one of each.
    `newest_us`: the newest time of each partition in the batches before.

    >>> reader = SourceReader(1.0)
    >>> reader.next_read({"a": 0, "b": 5}, {"a": 100, "b": 8}, 10).ranges
    (Range(partition='a', start=0, end=9), Range(partition='b', start=5, end=6))
    """

    def __init__(self, rows_each: float, newest_us: Mapping[str, int] = NOWHERE) -> None:
        self._rows_each = self._most_rows_each = rows_each
        self._rows_per_s: dict[str, float | None] = {}
        self._newest_us = newest_us
        self._bytes_a_row = math.inf
        self._batches = self._taken = 0

    def next_read(self, begin: Mapping[str, int], latest: Mapping[str, int], limit_rows: int | None) -> Read:
        """What the next batch reads: all that there is, or about `limit_rows` rows, but at least one position.

        Raises InputError `source.lost` if a partition ends before the position at which it is read on.
        """
        for name, at in begin.items():
            if (end := latest.get(name, at)) < at:
                raise _cut_off(name, at, end)
        backlogs = {
            name: PartitionBacklog(
                next=at, latest=latest[name], newest_us=self._newest_us.get(name), rows_per_s=self._rows_per_s.get(name)
            )
            for name, at in begin.items()
            if latest.get(name, at) > at
        }
        waiting = sum(each.rows for each in backlogs.values())
        if not waiting:
            return Read((), frozenset(begin), rows=0.0, limit_rows=limit_rows)
        most = waiting
        if limit_rows is not None:
            most = self._most(limit_rows) if math.isfinite(self._rows_each) else len(backlogs)
        counts = ranges(min(waiting, max(1, most)), backlogs, turn=self._batches)
        found = tuple(Range(name, begin[name], begin[name] + count) for name, count in counts.items() if count)
        taken = positions_of(found)
        left = waiting - taken
        ended = frozenset(name for name in begin if name not in backlogs or counts[name] == backlogs[name].rows)
        rows, behind = taken * self._rows_each, left * self._rows_each if left else 0.0
        return Read(found, ended, rows, behind, limit_rows, rows * self._bytes_a_row)

    def took(self, read: tuple[Range, ...], events: int, newest_us: Mapping[str, int], size_bytes: int = 0) -> None:
        """Learn from a batch: how many rows it had, how large, and the newest time of each partition after it."""
        if events and size_bytes:
            self._bytes_a_row = size_bytes / events
        if taken := positions_of(read):
            self._rows_each, self._taken = max(events, 1) / taken, taken
            self._most_rows_each = max(self._most_rows_each, self._rows_each)
        for each in read:
            if each.partition in newest_us and each.end > each.start:
                after_us, known = newest_us[each.partition], self._rows_per_s.get(each.partition)
                advanced_us = after_us - self._newest_us.get(each.partition, after_us)
                self._rows_per_s[each.partition] = measured_density(known, each.end - each.start, advanced_us)
        self._newest_us, self._batches = dict(newest_us), self._batches + 1

    def _most(self, limit_rows: int) -> int:
        """How many positions probably have that many rows, with `FASTEST_GROWTH`.

        Empty files, tombstones or aborted transactions say nothing about the rows behind them.
        """
        surely = limit_rows / self._most_rows_each
        return int(min(limit_rows / self._rows_each, max(FASTEST_GROWTH * self._taken, surely)))


def _cut_off(name: str, at: int, end: int) -> InputError:
    message = f"positions {end} to {at - 1} were there, but it ends at {end} now"
    hint = (
        "it was made anew, as a topic that is deleted and created again, or servers lost rows: to read what is there, "
        "start with a fresh checkpoint"
    )
    return InputError("source.lost", f"partition {name} is read on at position {at}: {message}", hint)
