"""The watermark: the time before which no more rows are expected. This is the only place with its rule.

A stream has one or more partitions, whose rows come in order of time, up to the delay. The watermark is the smallest of
their newest times, less the delay, and never falls: a partition that is read more slowly than the others holds it back,
so that none of its rows are late. A partition that is idle doesn't.

Whether a row is late is decided by the watermark at the beginning of its batch, so that no row makes another one of its
batch late; operators get the watermark at the end of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

BEGINNING_US = -(2**53)
"""The watermark that operators get while there is none: in the year 1684, about as early as nanoseconds can count."""
ONLY = ""
"""The name of the partition of a stream that has only one."""


@dataclass(frozen=True, slots=True)
class TimeRule:
    """How a stream's watermark follows from its rows.

    delay_us     how much older a row may be than the newest one before it in its partition
    partitions   the names of the partitions; empty: only their `count` is known
    """

    delay_us: int
    partitions: tuple[str, ...] = ()
    count: int = 1

    def is_complete(self, known: frozenset[str]) -> bool:
        """Whether these are all partitions."""
        return known.issuperset(self.partitions) if self.partitions else len(known) >= self.count

    def with_partitions(self, names: Iterable[str]) -> TimeRule:
        """The rule that waits for these, too; no others exist."""
        known = tuple(sorted({*self.partitions, *names}))
        return replace(self, partitions=known, count=len(known))


@dataclass(frozen=True, slots=True)
class Silence:
    """Which partitions are silent in a batch.

    idle             partitions that were read to their end, and from which nothing has come for a while
    is_unseen_idle   whether this also holds for partitions that never had a row
    quiet_us         how long the whole stream has been silent, if it is
    """

    idle: frozenset[str] = frozenset()
    is_unseen_idle: bool = False
    quiet_us: int = 0


NO_SILENCE = Silence()


@dataclass(frozen=True, slots=True)
class StreamTime:
    """How far a stream's time has come: the watermark, and the newest time of each partition that had rows.

    >>> rule = TimeRule(delay_us=10, count=2)
    >>> StreamTime().after({"a": 100}, rule).watermark_us  # waits for the second partition
    >>> both = StreamTime().after({"a": 100, "b": 70}, rule)
    >>> both.watermark_us, both.after({"b": 90}, rule).watermark_us
    (60, 80)
    >>> both.after({}, rule, Silence(frozenset("b"))).watermark_us  # b is idle and doesn't hold a back
    90
    >>> both.after({}, rule, Silence(frozenset("ab"), quiet_us=500)).watermark_us  # time goes on by itself
    590
    """

    watermark_us: int | None = None
    newest_us: Mapping[str, int] = field(default_factory=dict)

    def after(self, newest_us: Mapping[str, int], rule: TimeRule, silence: Silence = NO_SILENCE) -> StreamTime:
        """The time after a batch whose rows have these newest times, by partition."""
        assert rule.delay_us >= 0, f"a delay of {rule.delay_us} us"
        merged = dict(self.newest_us)
        for partition, time_us in newest_us.items():
            merged[partition] = max(time_us, merged.get(partition, time_us))
        idle = silence.idle.difference(newest_us)
        watermark_us = self.watermark_us
        if merged and (silence.is_unseen_idle or rule.is_complete(idle.union(merged))):
            active = [time_us for partition, time_us in merged.items() if partition not in idle]
            now_us = min(active) if active else max(merged.values()) + silence.quiet_us
            watermark_us = now_us - rule.delay_us if watermark_us is None else max(watermark_us, now_us - rule.delay_us)
        is_kept = self.watermark_us is None or (watermark_us is not None and watermark_us >= self.watermark_us)
        assert is_kept, f"the watermark fell from {self.watermark_us} to {watermark_us}"
        return StreamTime(watermark_us, merged)


@dataclass(frozen=True, slots=True)
class BatchTime:
    """All that a batch's plan says about time: with its rows, it decides which of them are late and what is due.

    before        the stream's time when the batch begins: rows older than its watermark are late
    silence       which partitions are idle
    reported_us   the watermark up to which time-outs have been reported; None: there were none
    latest_us     rows after this are too far ahead of the clock, and don't move the watermark; None: no row is
    max_ahead_us  how far ahead of its appending a row may be, where its source knows when that was; None: the clock
                  decides for all rows
    """

    rule: TimeRule
    before: StreamTime = StreamTime()
    silence: Silence = NO_SILENCE
    reported_us: int | None = None
    latest_us: int | None = None
    max_ahead_us: int | None = None

    def after(self, newest_us: Mapping[str, int]) -> StreamTime:
        """The stream's time at the end of the batch, whose rows have these newest times, by partition."""
        return self.before.after(newest_us, self.rule, self.silence)


def is_late(times_us: npt.NDArray[np.int64], watermark_us: int) -> npt.NDArray[np.bool_]:
    """Which rows are too late. A row exactly at the watermark is not.

    >>> is_late(np.array([89, 90, 91]), 90)
    array([ True, False, False])
    """
    return times_us < watermark_us
