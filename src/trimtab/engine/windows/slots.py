"""Slots: one for each key and window, by which an aggregate gathers its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.engine.columns.groups import counting_order


@dataclass(frozen=True)
class Slots:
    """The slot in [0, count) that each of some items goes to."""

    ids: Int64Array
    count: int

    @cached_property
    def ordered(self) -> tuple[Int64Array, Int64Array]:
        """The items sorted by slot, otherwise in their order, and where each slot starts."""
        order, starts = counting_order(self.ids, self.count)
        return order, starts

    def where(self, chosen: BoolArray) -> Slots:
        """The slots of the chosen items only."""
        return self if bool(chosen.all()) else Slots(self.ids[chosen], self.count)

    def then(self, more: Slots) -> Slots:
        """These items followed by `more`."""
        return Slots(np.concatenate([self.ids, more.ids]), self.count)
