"""The placement of the next batch: the last one, changed by what users and the coordinator asked for since."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from trimtab.deciding.placement import Placement

Change = Callable[[Placement], Placement]


class Placing:
    """Gathers changes of a stream's placement from any thread, and gives each batch its own.

    Args:
        placement: The placement of the last batch, or for the first one.
        decide: Applies the coordinator's decisions to a placement.
        may_spread: Whether keys may be on several engines; False if no query is split any more.
    """

    def __init__(self, placement: Placement, decide: Change = lambda placement: placement, *, may_spread: bool) -> None:
        self._placement, self._decide = placement, decide
        self._may_spread = may_spread
        self._changes: list[Change] = []
        self._lock = threading.Lock()

    def change(self, change: Change) -> None:
        """Apply a change to the placement at the next batch."""
        with self._lock:
            self._changes.append(change)

    def expected(self) -> Placement:
        """The placement that the next batch will have, as things stand."""
        with self._lock:
            return self._changed()

    def next_placement(self) -> Placement:
        """The placement of the next batch, which begins now."""
        with self._lock:
            self._placement = self._decide(self._changed())
            self._changes = []
            return self._placement

    def _changed(self) -> Placement:
        placement = self._placement if self._may_spread else replace(self._placement, spread=())
        for change in self._changes:
            placement = change(placement)
        return placement
