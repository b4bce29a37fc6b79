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
        self.slots, self.spent_ns = np.empty(0, np.int64), np.empty(0, np.int64)

    def add(self, slots: Int64Array, spent_ns: Int64Array) -> None:
        """Report how long some keys took."""
        self.slots = np.concatenate([self.slots, slots])
        self.spent_ns = np.concatenate([self.spent_ns, spent_ns])
