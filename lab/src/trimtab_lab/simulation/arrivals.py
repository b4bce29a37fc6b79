"""When messages arrive: a number in each time slot, evenly spaced or at random times inside it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

WIKIPEDIA_DAY: tuple[float, ...] = (
    1.02, 0.98, 0.94, 0.90, 0.87, 0.85, 0.85, 0.87, 0.90, 0.92, 0.94, 0.95,
    0.96, 0.97, 0.98, 1.00, 1.05, 1.15, 1.22, 1.24, 1.23, 1.18, 1.12, 1.06,
)  # fmt: skip
"""Messages an hour over a day, relative to the mean: few in the morning, many in the evening.

Nasir (2017) draws the curve of a day of Wikipedia in figure 5 and prints no numbers. This one is ours, shaped after the
one thing that the text says: a cluster whose mean utilisation is 80 % is overloaded after 17 h, not before.
Other curves fit that too; the lab's figure 13 shows one on which its claim fails.
"""


class Spacing(Enum):
    """How messages are spread inside a slot."""

    EVEN = "even"
    RANDOM = "random"
    """As in a Poisson process whose count in each slot is given."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The messages of a run, slot by slot.

    counts   (slots,) messages that arrive in each slot
    slot_s   the length of a slot, at whose end workers signal
    spacing  how messages are spread inside a slot

    >>> arrivals = Arrivals.steady(10, slots=4, slot_s=2.0)
    >>> arrivals.counts.tolist(), arrivals.messages, arrivals.duration_s
    ([2, 3, 2, 3], 10, 8.0)
    >>> arrivals.times_s(1, np.random.default_rng(1)).tolist()
    [2.0, 2.6666666666666665, 3.333333333333333]
    """

    counts: Int64Array
    slot_s: float
    spacing: Spacing = Spacing.EVEN

    def __post_init__(self) -> None:
        """Raise BalanceError for negative counts and for slots without length."""
        if self.counts.ndim != 1 or (self.counts < 0).any():
            raise BalanceError("simulate.arrivals", "counts must be one number >= 0 for each slot")
        if not 0 < self.slot_s < np.inf:
            raise BalanceError("simulate.arrivals", f"a slot must last more than 0 s, got {self.slot_s}")

    @classmethod
    def steady(cls, messages: int, *, slots: int, slot_s: float, spacing: Spacing = Spacing.EVEN) -> Arrivals:
        """The same rate all the time; counts differ by one at most."""
        return cls.following(np.ones(1), messages, slots=slots, slot_s=slot_s, spacing=spacing)

    @classmethod
    def following(
        cls, curve: npt.ArrayLike, messages: int, *, slots: int, slot_s: float, spacing: Spacing = Spacing.EVEN
    ) -> Arrivals:
        """Rates in proportion to `curve`, which is stretched over the whole run in equal steps.

        >>> Arrivals.following([1, 3], 40, slots=4, slot_s=1.0).counts.tolist()
        [5, 5, 15, 15]
        """
        shares = np.asarray(curve, dtype=np.float64)
        if slots < 1 or messages < 0 or shares.size == 0 or (shares < 0).any() or not 0 < shares.sum() < np.inf:
            raise BalanceError(
                "simulate.arrivals",
                f"{messages} messages over {slots} slots along a curve of {shares.size} shares",
                "at least one slot, no negative message, and shares >= 0 of which one is not 0",
            )
        # The integral of a step function is a polygon: slots need not divide the curve's steps evenly.
        corners = np.concatenate(([0.0], np.cumsum(shares) / shares.sum()))
        edges = np.interp(np.linspace(0.0, shares.size, slots + 1), np.arange(shares.size + 1), corners)
        # Rounding the running total and not each count keeps the sum exact; the small shift undoes float noise.
        totals = np.floor(edges * messages + 1e-6).astype(np.int64)
        return cls(np.diff(totals), slot_s, spacing)

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return int(self.counts.size)

    @property
    def messages(self) -> int:
        """How many messages arrive in all."""
        return int(self.counts.sum())

    @property
    def duration_s(self) -> float:
        """The length of the run."""
        return self.slots * self.slot_s

    @property
    def slot_ends_s(self) -> Float64Array:
        """(slots,) when each slot ends."""
        return np.arange(1, self.slots + 1, dtype=np.float64) * self.slot_s

    def times_s(self, slot: int, rng: np.random.Generator) -> Float64Array:
        """When the messages of a slot arrive, in order; none at the slot's end, which belongs to the next."""
        count, start_s = int(self.counts[slot]), slot * self.slot_s
        if self.spacing is Spacing.EVEN:
            return start_s + np.arange(count, dtype=np.float64) * (self.slot_s / max(count, 1))
        # Sums of exponential gaps, scaled, are sorted uniform times: no sort is needed.
        gaps = rng.standard_exponential(count + 1)
        times_s: Float64Array = start_s + np.cumsum(gaps[:-1]) / gaps.sum() * self.slot_s
        np.minimum(times_s, np.nextafter((slot + 1) * self.slot_s, start_s), out=times_s)
        return times_s

    def time_of_s(self, message: int) -> float:
        """When the slot in which a message (counted from 0) arrives starts.

        >>> Arrivals.steady(10, slots=4, slot_s=2.0).time_of_s(5)
        4.0
        """
        slot = int(np.searchsorted(np.cumsum(self.counts), message, side="right"))
        return slot * self.slot_s
