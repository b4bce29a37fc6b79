"""Which new files have settled: nobody writes them any more, as far as two looks at them can tell."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.sources.file_store import Found


class Settling:
    """What was seen of files that have not settled yet; forgotten with the process, which costs them a short wait."""

    def __init__(self, settled_after_s: float) -> None:
        self._after_s = settled_after_s
        self._waiting: dict[str, tuple[Found, float]] = {}  # as it was last seen, and since when it has been like that

    @property
    def waiting(self) -> frozenset[str]:
        """The paths of those that had not settled at the last look."""
        return frozenset(self._waiting)

    def settled(self, files: Iterable[Found], now_s: float) -> list[Found]:
        """Those of the new files that have settled, in the order of modification times and names.

        A file has settled if it is old enough, and hasn't changed since the look before. Its age is that of its
        modification time, or of our first look at it as it is now: the clock of a file server may be ahead of ours.
        """
        waiting, settled = dict[str, tuple[Found, float]](), list[Found]()
        for found in files:
            before, since_s = self._waiting.get(found.path, (found, now_s))
            has_changed = before != found
            since_s = now_s if has_changed else since_s
            oldest_s = min(since_s, found.modified_us / 1e6)
            if not has_changed and now_s - oldest_s >= self._after_s:
                settled.append(found)
            else:
                waiting[found.path] = found, since_s
        self._waiting = waiting
        return sorted(settled, key=lambda found: (found.modified_us, found.path))
