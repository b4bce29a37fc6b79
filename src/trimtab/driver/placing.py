"""The placement of the next batch: the last one, changed by what users and the coordinator asked for since."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from trimtab.deciding.placement import Placement

Change = Callable[[Placement], Placement]


class Placing:
    """Takes changes of a stream's placement from any thread, and gives each batch its placement.

    Args:
        placement: The placement of the last batch, or for the first one.
        decide: Applies the coordinator's decisions to a placement.
        may_spread: Whether keys may be on several engines; False if no query is split any more.
    """

    def __init__(self, placement: Placement, decide: Change = lambda placement: placement, *, may_spread: bool) -> None:
        self._expected = placement if may_spread else replace(placement, spread=())
        self._decide = decide
        self._lock = threading.Lock()

    def change(self, change: Change) -> None:
        """Apply a change to the placement of the next batch; see `change_all`."""
        change_all([self], change)

    def expected(self) -> Placement:
        """The placement that the next batch will have, as things stand."""
        with self._lock:
            return self._expected

    def next_placement(self) -> Placement:
        """The placement of the next batch, which begins now."""
        with self._lock:
            self._expected = self._decide(self._expected)
            return self._expected


def change_all(streams: Sequence[Placing], change: Change) -> None:
    """Apply a change to the placements of several streams, each in its next batch.

    Raises what the change raises for one of them; then none is changed. No other change comes between the check and
    the change, because both are one step under the locks of all these streams. All callers name streams in the same
    order, so they don't wait for each other for ever.
    """
    with ExitStack() as locks:
        for stream in streams:
            locks.enter_context(stream._lock)
        changed = [change(stream._expected) for stream in streams]
        for stream, placement in zip(streams, changed, strict=True):
            stream._expected = placement
