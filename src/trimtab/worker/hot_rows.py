"""The hot keys of an engine's batch: which rows belong to spread keys, which keys are hottest, and what they cost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.keyed_state import GROUP_SHIFT
from trimtab.worker.orders import BoolArray, HotKeys, Int32Array, Int64Array

HOT_SHARE = 0.01
"""Keys with more than this share of an engine's rows are reported."""
MOST_HOT = 32
"""At most this many hot keys are reported."""
SAMPLE = 1 << 15
"""Hot keys are found in a sample of this many rows, accurate to a few percent; counting a million rows would take tens
of milliseconds."""


class HotRows:
    """Counts the rows of split queries by key. `spread`: the keys that are spread over several engines, sorted."""

    def __init__(self, spread: Int64Array) -> None:
        self.spread = spread
        self._values = pa.array(spread)
        self.spread_events = np.zeros(len(spread), np.int64)
        self._spread_ns = np.zeros(len(spread))
        self._slots: Int64Array = np.empty(0, np.int64)
        self._events: Int64Array = np.empty(0, np.int64)

    def is_spread(self, slots: Int64Array) -> BoolArray:
        """Which rows belong to keys that are spread."""
        return np.asarray(pc.is_in(pa.array(slots), value_set=self._values), np.bool_)

    def count(self, slots: Int64Array) -> BoolArray | None:
        """Count rows, and return which of them belong to spread keys; None: none does."""
        parts: BoolArray | None = None
        if len(self.spread) and (found := self.is_spread(slots)).any():
            parts = found
            places = np.searchsorted(self.spread, slots[parts])
            self.spread_events += np.bincount(places, minlength=len(self.spread))
        self._count_hot(slots if parts is None else slots[~parts], len(slots))
        return parts

    def _count_hot(self, slots: Int64Array, rows: int) -> None:
        scale = 1.0
        if len(slots) > 2 * SAMPLE:  # drawn at random, because every n-th row of a regular stream may have the same key
            scale = len(slots) / SAMPLE
            slots = slots[np.random.default_rng(len(slots)).integers(0, len(slots), SAMPLE)]
        counted = pc.value_counts(pa.array(slots))
        found, counts = (counted.field(name).to_numpy() for name in ("values", "counts"))
        often = counts * scale > HOT_SHARE * rows
        self._slots, numbers = np.unique(np.concatenate([self._slots, found[often]]), return_inverse=True)
        weights = np.concatenate([self._events, counts[often] * scale])
        self._events = np.rint(np.bincount(numbers, weights=weights, minlength=len(self._slots))).astype(np.int64)

    def charge(self, slots: Int64Array, spent_ns: float) -> None:
        """Divide the time spent on rows of spread keys among these keys."""
        rows = np.bincount(np.searchsorted(self.spread, slots), minlength=len(self.spread))
        self._spread_ns += spent_ns * rows / max(1, len(slots))

    def report(self, by_group: Int32Array, busy_ns: Int64Array, common_ns: float) -> HotKeys:
        """The hottest keys and the spread ones.

        by_group   (groups,) rows that arrived, without those of spread keys
        busy_ns    (groups,) time spent on them
        common_ns  the time per row of the stages that all rows share
        """
        hottest = np.sort(np.argsort(-self._events, kind="stable")[:MOST_HOT])
        slots, events = self._slots[hottest], self._events[hottest]
        groups = slots >> GROUP_SHIFT
        own_ns = busy_ns[groups] * events / np.maximum(by_group[groups], 1)
        spread_ns = self._spread_ns + common_ns * self.spread_events
        return HotKeys(
            np.concatenate([slots, self.spread]),
            np.concatenate([events, self.spread_events]),
            np.rint(np.concatenate([own_ns, spread_ns])).astype(np.int64),
            np.arange(len(slots) + len(self.spread)) >= len(slots),
        )
