"""Balance: when key groups move by themselves, on what grounds, and what that may cost. A description, no logic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from trimtab.errors import JobError

POLICIES = ("milp", "dlb-heavy", "dlb-light", "lptf", "flux", "albic")
"""What `Job(balance=...)` takes as a name."""


class Measure(Enum):
    """What counts as load."""

    BUSY = "busy"
    """Time spent on a key group: right wherever events differ in cost."""

    EVENTS = "events"
    """Events of a key group: steadier, and enough where each costs the same."""

    STATE = "state"
    """Bytes of state that were written: where memory is what runs out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """A policy: a planner, and a rule for when to act on it.

    Args:
        planner: How placements are found: one of `POLICIES`.
        measure: What counts as load.
        threshold: Act when the relative standard deviation of the engines' loads is above this, in percent.
        patience: For so many batches in a row, so that a short spike moves nothing.
        period_batches: At most once in so many batches.
        period_s: And at most once in so many seconds.
        max_moves: Key groups that may move at once; None: a quarter of all.
        max_state_bytes: State that may move at once; None: any amount, as trimtab moves a number and not the state.
        half_life_batches: Loads are averaged over batches; after so many, one counts half.
        min_gain: A plan is carried out if it takes away at least this share of the deviation: nothing moves in vain
            where one hot key is all there is to it.
        time_limit_s: What planning may take.

    >>> Balance(planner="dlb-heavy", threshold=10.0).patience
    2
    """

    planner: str = "milp"
    measure: Measure = Measure.BUSY
    threshold: float = 15.0
    patience: int = 2
    period_batches: int = 3
    period_s: float = 0.0
    max_moves: int | None = None
    max_state_bytes: int | None = None
    half_life_batches: float = 2.0
    min_gain: float = 0.1
    time_limit_s: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what can't be."""
        if self.planner not in POLICIES:
            message = f"there is no way of balancing called {self.planner!r}"
            raise JobError("job.balance", message, f"there are {', '.join(POLICIES)}; None balances nothing")
        least = {
            "threshold": (self.threshold, 0.0),
            "patience": (self.patience, 1),
            "period_batches": (self.period_batches, 1),
            "period_s": (self.period_s, 0.0),
            "max_moves": (self.max_moves, 0),
            "max_state_bytes": (self.max_state_bytes, 0),
            "min_gain": (self.min_gain, 0.0),
        }
        for name, (value, limit) in least.items():
            if value is not None and not value >= limit:
                raise JobError("job.balance", f"{name} is {value}", f"it is {limit} or more")
        for name, length in {"half_life_batches": self.half_life_batches, "time_limit_s": self.time_limit_s}.items():
            if not length > 0:
                raise JobError("job.balance", f"{name} is {length}", "it is above 0")
