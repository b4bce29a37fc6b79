"""New engines need executors to run on: these are requested first, and the engines start when the executors are there.

If the cluster can't be changed (`local[n]`, or Spark's own dynamic allocation), engines come and go at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.deciding.placement import Placement
from trimtab.spark.where.pinning import Homes

PATIENCE_S = 20.0
"""How long new engines wait for executors; after that they share those that are there."""


class Demand:
    """How many engines the streams of a job have in all."""

    def __init__(self) -> None:
        self._engines: dict[str, int] = {}
        self._lock = threading.Lock()

    def total(self, stream: str, engines: int) -> int:
        """Set the number of a stream's engines; returns the total of all streams."""
        with self._lock:
            self._engines[stream] = engines
            return sum(self._engines.values())


@dataclass(frozen=True, slots=True)
class _Held:
    before: Placement
    wanted: Placement
    until_s: float


class Settler:
    """Applies a placement with more engines when there are slots for them, and releases executors when engines go.

    `is_elastic`: whether executors come and go for this stream at all.
    """

    def __init__(self, homes: Homes, demand: Demand, stream: str, *, is_elastic: bool) -> None:
        self._homes, self._demand, self._stream = homes, demand, stream
        self._is_elastic = is_elastic and homes.executors.is_elastic
        self._held: _Held | None = None
        self._ran_on: int | None = None

    def settled(self, placement: Placement, change: Callable[[Placement], Placement]) -> Placement:
        """What `change` makes of the placement, as soon as there are slots for its engines; until then unchanged."""
        if self._held is None:
            wanted = change(placement)
            if not self._is_elastic or wanted.engines <= placement.engines:
                return wanted
            self._fit(wanted.engines)
            self._held = _Held(placement, wanted, time.monotonic() + PATIENCE_S)
        held = self._held
        if held.before != placement:  # changed by someone else in the meantime
            self._held = None
            return placement
        needed = self._demand.total(self._stream, held.wanted.engines)
        if self._homes.executors.slots < needed and time.monotonic() < held.until_s:
            return placement
        self._held = None
        return held.wanted

    def ran_on(self, engines: int) -> None:
        """A batch ran on this many engines: release the executors that aren't needed any more."""
        if self._is_elastic and self._held is None and engines != self._ran_on:
            self._fit(engines)
            self._ran_on = engines

    def _fit(self, engines: int) -> None:
        self._homes.fit(self._demand.total(self._stream, engines))
