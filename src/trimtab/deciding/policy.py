"""Balance and scale: when key groups move and engines come and go by themselves, and how much may move at once.

These are descriptions without logic: the coordinator acts on them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from trimtab.errors import JobError
from trimtab.planning.registry import POLICIES, no_policy


class Measure(Enum):
    """What counts as load."""

    BUSY = "busy"
    """Time spent on a key group: for events that differ in cost, and executors that differ in speed."""

    EVENTS = "events"
    """Events of a key group: steadier, and enough if each costs the same."""

    STATE = "state"
    """Bytes of state that were written: if memory is the bottleneck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """A policy: a planner, and a rule for when to act on it.

    Args:
        planner: What finds new placements: one of `trimtab.planning.registry.POLICIES`.
        measure: What counts as load: "busy", "events" or "state", or a `Measure`.
        max_rstd: Act if the engines' loads have a relative standard deviation above this, in percent; None: ignore it.
        max_load_distance: Act when an engine's utilisation is further than this from the mean, in percentage points.
        patience: Act only if this was so for `patience` batches in a row, so that a short spike moves nothing.
        period_batches: Act at most once in this many batches.
        period_s: And at most once in this many seconds.
        max_moves: Key groups that may move at once; None: an eighth of all, and more while engines come and go. With
            "dlb-light" as many as needed, because it moves only the lightest ones.
        max_state_bytes: State that may move at once; None: any amount, because a move copies no state.
        half_life_batches: Rates are averaged over batches; after this many batches, a rate counts half.
        min_gain: The share of the deviation that a plan has to remove: no moves that gain nothing because of a hot key.
        time_limit_s: How long planning may take.

    >>> Balance(planner="dlb-heavy", max_rstd=10.0).patience
    2
    """

    planner: str = "milp"
    measure: Measure | Literal["busy", "events", "state"] = Measure.BUSY
    max_rstd: float | None = 15.0
    max_load_distance: float | None = None
    patience: int = 2
    period_batches: int = 3
    period_s: float = 0.0
    max_moves: int | None = None
    max_state_bytes: int | None = None
    half_life_batches: float = 2.0
    min_gain: float = 0.1
    time_limit_s: float = 0.1

    def __post_init__(self) -> None:
        """Raise JobError `job.balance` for impossible values."""
        if self.planner not in POLICIES:
            raise JobError("job.balance", *no_policy(self.planner))
        try:
            object.__setattr__(self, "measure", Measure(self.measure))  # a name and its measure are the same policy
        except ValueError:
            message = f"load can't be measured as {self.measure!r}"
            raise JobError("job.balance", message, "there are busy, events and state") from None
        not_negative = ("max_rstd", "max_load_distance", "period_s", "max_moves", "max_state_bytes", "min_gain")
        _check("job.balance", self, not_negative, "0 or more", lambda value: value >= 0)
        _check("job.balance", self, ("patience", "period_batches"), "1 or more", lambda value: value >= 1)
        _check("job.balance", self, ("half_life_batches", "time_limit_s"), "above 0", lambda value: value > 0)

    @property
    def measured(self) -> Measure:
        """What counts as load."""
        return Measure(self.measure)

    def as_json(self) -> dict[str, Any]:
        """The policy as plain values, for the log."""
        return {**dataclasses.asdict(self), "measure": self.measured.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """When engines come and go. Utilisations are percentages of the time that a batch leaves to the engines.

    Args:
        min_engines: Never fewer.
        max_engines: Never more.
        target: The mean utilisation of the engines that scaling aims for.
        low: Engines are dropped when the mean is below this.
        high: Engines are added when one is above this and balancing can't help.
        cool_down_batches: How many batches pass after a change before the next one.
        cool_down_s: And how many seconds.
        interval_s: How long a batch should take; None: the job's trigger interval, or a second.

    >>> Scale(max_engines=8).target
    60.0
    """

    min_engines: int = 1
    max_engines: int
    target: float = 60.0
    low: float = 40.0
    high: float = 80.0
    cool_down_batches: int = 5
    cool_down_s: float = 5.0
    interval_s: float | None = None

    def __post_init__(self) -> None:
        """Raise JobError `job.scale` for impossible values."""
        if not 0 <= self.low < self.target < self.high:
            message = f"low {self.low}, target {self.target}, high {self.high}"
            raise JobError("job.scale", message, "they must rise in this order")
        if not 1 <= self.min_engines <= self.max_engines:
            message = f"min_engines {self.min_engines}, max_engines {self.max_engines}"
            raise JobError("job.scale", message, "at least one engine, and at most as many as max_engines")
        _check("job.scale", self, ("cool_down_batches", "cool_down_s"), "0 or more", lambda value: value >= 0)
        _check("job.scale", self, ("interval_s",), "above 0", lambda value: value > 0)

    def as_json(self) -> dict[str, Any]:
        """The rule as plain values, for the log."""
        return dataclasses.asdict(self)


def balance_of(balance: str | Balance | None) -> Balance | None:
    """The policy that a name stands for; a `Balance` stands for itself.

    >>> balance_of("flux").planner
    'flux'
    """
    return balance if balance is None or isinstance(balance, Balance) else Balance(planner=balance)


def check_scale(scale: Scale, balance: Balance | None, engines: int | None) -> None:
    """Raise JobError `job.scale` if it contradicts the rest of the job."""
    if engines is not None and not scale.min_engines <= engines <= scale.max_engines:
        message = f"engines is {engines}, and scale goes from {scale.min_engines} to {scale.max_engines}"
        raise JobError("job.scale", message, "give a number in that range, or none")
    if balance is not None and balance.measured is not Measure.BUSY:
        message = f"scale needs utilisations, but load is measured as {balance.measured.value}"
        raise JobError("job.scale", message, 'measure busy time: Balance(measure="busy")')


def _check(code: str, rule: object, names: Sequence[str], wanted: str, holds: Callable[[float], bool]) -> None:
    """Raise JobError unless these fields hold what is wanted, or None."""
    for name in names:
        value = getattr(rule, name)
        if value is not None and not holds(value):
            raise JobError(code, f"{name} is {value}", f"it must be {wanted}")


DEFAULT = Balance()
"""The policy of a job that names none."""
