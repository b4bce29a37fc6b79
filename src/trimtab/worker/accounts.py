"""What an engine's batch costs: time by stage and by key group, rows and state by key group, and the hottest keys."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.engine.metering import Meter
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.state.bundle import Bundle
from trimtab.state.segment import PartSize
from trimtab.worker.hot_rows import HotRows
from trimtab.worker.orders import BoolArray, GroupLoads, HotKeys, Int64Array

COMMON = ("sort_out", "write")
"""Stages whose time is divided evenly over all rows; the driver divides the time of receiving rows."""


class Accounts:
    """One engine's accounts of one batch. `spread`: the keys that are spread over several engines, sorted."""

    def __init__(self, key_groups: int, spread: Int64Array) -> None:
        self._key_groups = key_groups
        self.stages_ms: dict[str, float] = {}
        self.hot = HotRows(spread)
        self._rows = np.zeros(key_groups, np.int32)
        self._busy_ns = np.zeros(key_groups)
        self._shares: dict[int, tuple[Int64Array, npt.NDArray[np.float64]]] = {}  # of arrays that are charged for

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of the block to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.stages_ms[stage] = self.stages_ms.get(stage, 0.0) + (time.perf_counter() - began) * 1e3

    def count(self, slots: Int64Array, *, is_split: bool) -> None:
        """Count rows; `is_split`: their keys may be spread, and spread keys have accounts of their own."""
        parts = self.hot.count(slots) if is_split else None
        whole = slots if parts is None else slots[~parts]
        self._rows += np.bincount(whole >> GROUP_SHIFT, minlength=self._key_groups).astype(np.int32)

    def charge(self, slots: Int64Array, meter: Meter, spent_ns: float) -> None:
        """Charge the time of a query to key groups: as metered by key, and the rest by rows."""
        groups = self._key_groups
        if len(meter.slots):
            metered = np.bincount(meter.slots >> GROUP_SHIFT, weights=meter.spent_ns, minlength=groups)
            self._busy_ns += metered
            spent_ns -= metered.sum()
        if id(slots) not in self._shares:  # queries that read the same rows come with the same array
            self._shares[id(slots)] = slots, _shares(np.bincount(slots >> GROUP_SHIFT, minlength=groups))
        self._busy_ns += spent_ns * self._shares[id(slots)][1]

    def loads(
        self, owned: BoolArray, parts: Mapping[str, Bundle], sizes: Mapping[str, PartSize]
    ) -> tuple[GroupLoads, HotKeys]:
        """The rows and costs of each key group and of the hottest keys; `parts` and `sizes` are the state written."""
        common_ms = sum(self.stages_ms.get(stage, 0.0) for stage in COMMON)
        row_ns = common_ms * 1e6 / max(1, int(self._rows.sum()) + int(self.hot.spread_events.sum()))
        busy_ns = np.rint(self._busy_ns + row_ns * self._rows).astype(np.int64)
        state_bytes = self._state_bytes(parts, sizes)
        groups = np.flatnonzero(owned).astype(np.int32)
        loads = GroupLoads(groups, self._rows[owned], busy_ns[owned], state_bytes[owned])
        return loads, self.hot.report(self._rows, busy_ns, row_ns)

    def _state_bytes(self, parts: Mapping[str, Bundle], sizes: Mapping[str, PartSize]) -> Int64Array:
        """State written, by key group: each part's bytes divided by how many keys it holds of each group."""
        total = np.zeros(self._key_groups)
        for name, size in sizes.items():
            bundle = parts[name]
            keys = np.diff(bundle.key_starts)
            total += size.size_bytes * _shares(
                np.bincount(bundle.slots >> GROUP_SHIFT, weights=keys, minlength=self._key_groups)
            )
        return np.rint(total).astype(np.int64)


def _shares(amounts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Each amount's share of the total; zeros if the total is 0."""
    total = float(amounts.sum())
    return amounts / total if total else np.zeros(len(amounts))
