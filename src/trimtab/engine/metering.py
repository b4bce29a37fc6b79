"""How long each key took in a batch, for balancing the engines."""

from __future__ import annotations

import numpy as np

from trimtab.engine.columns.arrays import Int64Array


class Meter:
    """Operators that work on one key at a time report here how long each key took; others report nothing.

    A key is identified by the first column of its partition, which on Spark is its slot.

    >>> meter = Meter()
    >>> meter.add(np.array([7, 9]), np.array([100, 300]))
    >>> meter.slots.tolist(), meter.spent_ns.tolist()
    ([7, 9], [100, 300])
    """

    def __init__(self) -> None:
        self._slots: list[Int64Array] = []
        self._spent_ns: list[Int64Array] = []

    def add(self, slots: Int64Array, spent_ns: Int64Array) -> None:
        """Report how long some keys took."""
        self._slots.append(slots)
        self._spent_ns.append(spent_ns)

    @property
    def slots(self) -> Int64Array:
        """Every reported key."""
        return np.concatenate(self._slots) if self._slots else np.empty(0, np.int64)

    @property
    def spent_ns(self) -> Int64Array:
        """How long each of `slots` took."""
        return np.concatenate(self._spent_ns) if self._spent_ns else np.empty(0, np.int64)
