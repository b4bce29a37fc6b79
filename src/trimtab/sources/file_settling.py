"""Which new files have settled: nobody writes them any more, as far as two looks at them can tell."""

from __future__ import annotations

import math
from collections.abc import Iterable

from trimtab.sources.file_store import Found


class Settling:
    """What was seen of files that have not settled yet; forgotten with the process, which costs them a short wait.

    `complete_s`: all files that had come by then have settled.
    """

    def __init__(self, settled_after_s: float) -> None:
        self._after_s = settled_after_s
        # As it was last seen, since when it has been like that, and when the look before that began.
        self._waiting: dict[str, tuple[Found, float, float]] = {}
        self._began_s = self.complete_s = -math.inf

    @property
    def waiting(self) -> frozenset[str]:
        """The paths of those that had not settled at the last look."""
        return frozenset(self._waiting)

    def settled(self, files: Iterable[Found], began_s: float, now_s: float) -> list[Found]:
        """Those of the new files that have settled, in the order of modification times and names.

        The look at them began at `began_s`: what came later, it may have missed.

        A file has settled if it is old enough, and hasn't changed since the look before. Its age is that of its
        modification time, or of our first look at it as it is now: the clock of a file server may be ahead of ours.
        """
        waiting, settled = dict[str, tuple[Found, float, float]](), list[Found]()
        for found in files:
            before, since_s, after_s = self._waiting.get(found.path, (found, now_s, self._began_s))
            has_changed = before != found
            if has_changed:
                since_s, after_s = now_s, self._began_s
            oldest_s = min(since_s, found.modified_us / 1e6)
            if not has_changed and now_s - oldest_s >= self._after_s:
                settled.append(found)
            else:
                waiting[found.path] = found, since_s, after_s
        self._waiting, self._began_s = waiting, began_s
        self.complete_s = min((after_s for _, _, after_s in waiting.values()), default=began_s)
        return sorted(settled, key=lambda found: (found.modified_us, found.path))
