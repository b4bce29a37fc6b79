"""Which windows a row belongs to: fixed ones by the clock, or sessions between pauses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.signature import signed


@signed("clock-window")
@dataclass(frozen=True, slots=True)
class ClockWindow:
    """`window(ts, size, slide, offset)`: half-open windows that start every `slide` from the epoch.

    A row is in every window that covers it: in one, if `slide` equals `size`.
    """

    size_us: int
    slide_us: int
    offset_us: int = 0

    def starts(self, times: Int64Array, scale: int) -> tuple[Int64Array, Int64Array]:
        """Pairs of a row and the start of a window that it is in, by row; `scale`: ticks per µs."""
        size, slide = self.size_us * scale, self.slide_us * scale
        latest = _latest(times, slide, self.offset_us * scale)
        rows = np.arange(len(times))
        count = -(-size // slide)
        if count == 1:
            inside = times < latest + size
            return (rows, latest) if bool(inside.all()) else (rows[inside], latest[inside])
        starts = (latest[:, None] - np.arange(count) * slide).reshape(-1)
        rows = np.repeat(rows, count)
        inside = times[rows] < starts + size
        return rows[inside], starts[inside]


@column_kernel
def _latest(times: Int64Array, slide: int, offset: int) -> Int64Array:
    """The start of the last window that covers each time.

    Neighbouring rows mostly share it, and a comparison is cheaper than a division.
    """
    out = np.empty(times.size, np.int64)
    start = offset
    for i in range(times.size):
        if not start <= times[i] < start + slide:
            start = times[i] - (times[i] - offset) % slide
        out[i] = start
    return out


@signed("session-window")
@dataclass(frozen=True, slots=True)
class SessionWindow:
    """`session_window(ts, gap)`: rows closer to each other than `gap` share a window.

    It starts at its first row and ends `gap` after its last.
    """

    gap_us: int


@column_kernel
def join_spans(
    order: Int64Array, keys: Int64Array, starts: Int64Array, lasts: Int64Array, gap: int
) -> tuple[Int64Array, int]:
    """The number of the session that each span (a row, or a session so far) belongs to; `order` is by key and start."""
    ids = np.empty(order.size, np.int64)
    session, reach = -1, 0
    for place in range(order.size):
        i = order[place]
        fresh = place == 0 or keys[i] != keys[order[place - 1]]
        if fresh or starts[i] - reach > gap:  # a pause of exactly the gap doesn't end one, as in Spark
            session += 1
            reach = lasts[i]
        else:
            reach = max(reach, lasts[i])
        ids[i] = session
    return ids, session + 1
