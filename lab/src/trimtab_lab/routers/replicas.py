"""Which keys are on which workers: an exact set of (key, worker) pairs, the memory that a router costs."""

# mypy: disable-error-code="misc,untyped-decorator"
from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.machine_code.kernel import kernel
from trimtab_lab.routers.hashing import GOLDEN, mix
from trimtab_lab.routers.router import Int32Array, Int64Array

_FIRST_SLOTS = 1024


class ReplicaSet:
    """The different (key, worker) pairs so far, in an open-addressing table that doubles when it is 70 % full.

    >>> pairs = ReplicaSet(workers=2)
    >>> pairs.add(np.array([7, 7, 8, 7]), np.array([0, 1, 1, 0], np.int32))
    >>> pairs.by_worker.tolist()
    [1, 2]
    """

    def __init__(self, workers: int) -> None:
        self.by_worker: Int64Array = np.zeros(workers, np.int64)
        self._table: Int64Array = np.zeros((_FIRST_SLOTS, 2), np.int64)

    def __len__(self) -> int:
        """How many pairs there are."""
        return int(self.by_worker.sum())

    def add(self, keys: Int64Array, chosen: Int32Array) -> None:
        """Add the pairs of a column of messages."""
        done = 0
        while True:
            done = _add(keys, chosen, done, self._table, self.by_worker, len(self))
            if done == keys.size:
                return
            grown = np.zeros((2 * len(self._table), 2), np.int64)
            _move(self._table, grown)
            self._table = grown

    def pairs(self) -> Int64Array:
        """The pairs as rows of key and worker, in arbitrary order."""
        used: Int64Array = self._table[self._table[:, 1] != 0]
        used[:, 1] -= 1
        return used

    def __getstate__(self) -> dict[str, Any]:
        """The state without empty slots, which are at least 30 % of the table."""
        return {"workers": self.by_worker.size, "pairs": self.pairs()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put the pairs back."""
        self.__init__(state["workers"])
        self.add(np.ascontiguousarray(state["pairs"][:, 0]), state["pairs"][:, 1].astype(np.int32))


@kernel
def _slot_of(key: np.int64, tag: np.int64, table: Int64Array) -> int:
    """Where the pair is, or the empty slot where it belongs. `tag` is worker + 1, as 0 marks an empty slot.

    Key and tag are in one row, so that an access to a large table is one cache miss.
    """
    mask = len(table) - 1
    slot = int(mix(np.uint64(key) + np.uint64(tag) * GOLDEN)) & mask
    while table[slot, 1] != 0 and (table[slot, 0] != key or table[slot, 1] != tag):
        slot = (slot + 1) & mask
    return slot


@kernel
def _add(keys: Int64Array, chosen: Int32Array, start: int, table: Int64Array, by_worker: Int64Array, size: int) -> int:
    """Insert the messages from `start` on; return where it stopped because the table is full."""
    room = table.shape[0] * 7 // 10 - size
    for i in range(start, keys.size):
        tag = np.int64(chosen[i]) + 1
        slot = _slot_of(keys[i], tag, table)
        if table[slot, 1] == 0:
            if room == 0:
                return i
            room -= 1
            table[slot, 0] = keys[i]
            table[slot, 1] = tag
            by_worker[chosen[i]] += 1
    return keys.size


@kernel
def _move(old: Int64Array, new: Int64Array) -> None:
    """Put the pairs of one table into a larger one."""
    for row in range(old.shape[0]):
        if old[row, 1] != 0:
            slot = _slot_of(old[row, 0], old[row, 1], new)
            new[slot, 0] = old[row, 0]
            new[slot, 1] = old[row, 1]
