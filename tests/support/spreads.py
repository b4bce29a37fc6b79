"""Hot keys over several engines, as tests want them."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.deciding.placement import SHARES, Spread


def spread_over(slot: int, engines: Sequence[int]) -> Spread:
    """A key whose shares are assigned to these engines in turn."""
    return Spread(slot, tuple(engines[share % len(engines)] for share in range(SHARES)))
