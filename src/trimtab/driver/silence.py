"""Which partitions of a stream are silent. Pure: it gets what was read, and when, as arguments, and reads no clock.

A partition is idle if it was read to its end and nothing has come from it for a while. Unread rows don't make a
partition idle: only the moments count at which the source is known to have had nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from trimtab.engine.columns.watermark import NO_SILENCE, Silence


class SilenceWatch:
    """Watches one start of a stream; times are in seconds since 1970.

    `idle_after_s`: how long a partition must be silent to be idle; None: it never is. `since_s`: when the last batch of
    the start before was read. What came while the job was down is read before the source has nothing more, so that
    time counts.

    >>> watch = SilenceWatch(10.0, since_s=100.0)
    >>> watch.took(["a"], 105.0)
    >>> watch.caught_up(112.0)
    >>> watch.verdict({"a", "b"})  # a has been silent for 7 seconds, b for 12
    Silence(idle=frozenset({'b'}), is_unseen_idle=True, quiet_us=0)
    >>> watch.caught_up(115.0)
    >>> watch.verdict({"a", "b"}).quiet_us
    10000000

    A partition that is read to its end is idle, whatever waits in others:

    >>> watch = SilenceWatch(10.0, since_s=100.0)
    >>> watch.caught_up(112.0, ["b"])
    >>> watch.verdict({"a", "b"})
    Silence(idle=frozenset({'b'}), is_unseen_idle=False, quiet_us=0)

    Also if it never had a row:

    >>> watch.verdict({"a"}, listed={"a", "b"})
    Silence(idle=frozenset({'b'}), is_unseen_idle=True, quiet_us=0)
    """

    def __init__(self, idle_after_s: float | None, since_s: float) -> None:
        self._idle_after_s, self._since_s = idle_after_s, since_s
        self._took_s: dict[str, float] = {}
        self._met_s: dict[str, float] = {}
        self._caught_up_s: float | None = None  # all partitions
        self._caught_up_of: dict[str, float] = {}  # single ones

    def took(self, partitions: Iterable[str], at_s: float) -> None:
        """Rows of these partitions were read."""
        self._took_s |= dict.fromkeys(partitions, at_s)

    def met(self, partitions: Iterable[str], before: Collection[str], at_s: float) -> None:
        """Those that weren't there before are new: they can't have been silent until then.

        If none was there before, this is the first look, and they may have been there for long.
        """
        if before:
            self._met_s |= dict.fromkeys(set(partitions).difference(before), at_s)

    def caught_up(self, at_s: float, partitions: Iterable[str] | None = None) -> None:
        """At that moment, everything that had come to these partitions was read, or was about to be; None: to all."""
        if partitions is None:
            self._caught_up_s = at_s if self._caught_up_s is None else max(self._caught_up_s, at_s)
        else:
            self._caught_up_of |= dict.fromkeys(partitions, at_s)

    def verdict(self, heard: Iterable[str], listed: Iterable[str] = ()) -> Silence:
        """The silence of the next batch.

        heard    the partitions that have had rows
        listed   the names of all partitions, if they are known
        """
        if self._idle_after_s is None:
            return NO_SILENCE
        never = -math.inf
        of_all = never if self._caught_up_s is None else self._caught_up_s
        silent_s = {
            each: max(of_all, self._caught_up_of.get(each, never)) - self._heard_s(each) for each in {*heard, *listed}
        }
        idle = frozenset(each for each, seconds in silent_s.items() if seconds >= self._idle_after_s)
        quiet_s = min(silent_s.values()) if silent_s and len(idle) == len(silent_s) else 0.0
        unseen = frozenset(listed).difference(heard)
        is_unseen_idle = unseen <= idle if listed else of_all - self._since_s >= self._idle_after_s
        return Silence(idle, is_unseen_idle, int(quiet_s * 1e6))

    def _heard_s(self, partition: str) -> float:
        """Since when it may be silent."""
        return self._took_s.get(partition, self._met_s.get(partition, self._since_s))
