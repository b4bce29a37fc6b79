"""Intake: how many rows a batch may take, as users describe it. What is observed of a batch, and the limit it leads to.

These are plain values without logic: `IntakeController` acts on them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from trimtab.control.loop import PIGains
from trimtab.errors import BalanceError, JobError

MOST_EXCITED = 1_000
"""As many batches as the log of decisions goes back."""


class Held(Enum):
    """What the intake holds at a reference. The values are the names of the settings."""

    BATCH_TIME = "batch_s"
    LATENCY = "latency_s"
    BACKLOG = "backlog_rows"
    FREE_MEMORY = "free_memory_share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """How many rows a batch may take: as many as hold one measure at its reference.

    At most one reference is given; without one it is a batch time: the trigger's interval, or a second.

    Args:
        batch_s: How long a batch should take.
        latency_s: How long it should take from the arrival of a row to the commit of its batch. More rows than can be
            read in time make it longer whatever the limit is; it is held once the backlog is read.
        backlog_rows: How many rows should wait to be read.
        free_memory_share: Which share of the memory should stay free, from 0 to 1, as in the paper.
        min_rows: Never fewer, however slow batches are.
        max_rows: Never more.
        max_bytes: And never more than this many bytes, by the size of the rows in the last batches.
        first_rows: How many rows the first batch may take: few, because nothing is known then.
        gains: The controller's gains, in rows per unit of the reference; None: they are derived from what a row is
            estimated to cost. `trimtab tune` finds gains from a job's log.
        excite: So many batches, after the first ones, take up to 30 % more or fewer rows at random, so that `trimtab
            tune` sees what rows do to the measure. 0: none.

    >>> Intake(batch_s=0.5).held
    <Held.BATCH_TIME: 'batch_s'>
    """

    batch_s: float | None = None
    latency_s: float | None = None
    backlog_rows: int | None = None
    free_memory_share: float | None = None
    min_rows: int = 1_000
    max_rows: int = 10_000_000
    max_bytes: int = 256 * 1024 * 1024
    first_rows: int = 10_000
    gains: PIGains | tuple[float, float] | None = None
    excite: int = 0

    def __post_init__(self) -> None:
        """Raise JobError `job.intake` for impossible values."""
        given = [each.value for each in Held if getattr(self, each.value) is not None]
        if len(given) > 1:
            raise JobError(
                "job.intake", f"{' and '.join(given)} are given", "one measure can be held: give one of them"
            )
        self._check(("batch_s", "latency_s"), "above 0", lambda value: 0 < value < math.inf)
        self._check(("backlog_rows",), "0 or more", lambda value: 0 <= value < math.inf)
        self._check(("free_memory_share",), "between 0 and 1", lambda value: 0 < value < 1)
        self._check(("min_rows", "max_rows", "max_bytes", "first_rows"), "1 or more", lambda value: value >= 1)
        self._check(("excite",), f"from 0 to {MOST_EXCITED}", lambda value: 0 <= value <= MOST_EXCITED)
        if self.min_rows > self.max_rows:
            message = f"min_rows is {self.min_rows} and max_rows {self.max_rows}"
            raise JobError("job.intake", message, "min_rows must be the smaller one")
        if self.gains is not None and not isinstance(self.gains, PIGains):
            try:
                object.__setattr__(self, "gains", PIGains(*self.gains))  # a pair stands for its gains
            except (TypeError, BalanceError) as error:
                message = f"gains are {self.gains!r}"
                raise JobError("job.intake", message, "a proportional and an integral gain, which isn't 0") from error

    @property
    def held(self) -> Held:
        """What is held at its reference."""
        return next((each for each in Held if getattr(self, each.value) is not None), Held.BATCH_TIME)

    def reference(self, interval_s: float = 1.0) -> float:
        """The reference; `interval_s`: the trigger's interval, which is the reference if none is given."""
        value = getattr(self, self.held.value)
        return interval_s if value is None else float(value)

    def as_json(self) -> dict[str, Any]:
        """The settings as plain values, for the log; `Intake(**...)` makes them again."""
        gains = list(dataclasses.astuple(self.gains)) if isinstance(self.gains, PIGains) else None
        return {**dataclasses.asdict(self), "gains": gains}

    def _check(self, names: tuple[str, ...], wanted: str, holds: Callable[[float], bool]) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and not holds(value):
                raise JobError("job.intake", f"{name} is {value}", f"it must be {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeObserved:
    """What is known of a committed batch.

    rows               how many rows it took
    bytes              how large they were; None: unknown
    batch_s            how long it took, without the wait for the decision on the batch before
    limit_rows         the limit when it was planned; None: the last one that was decided. With fewer `rows` than that
                       it has read all there was
    latency_s          from the arrival of its rows to its commit; None: unknown
    backlog_rows       how many rows wait now, those of batches that are planned left out; None: unknown
    free_memory_share  the least share of the memory that was free while it ran; None: unknown
    reading_s          by executor: how long it read, as an average over the tasks that it runs at a time; None: it
                       didn't. Empty: there are not several executors
    is_plain           whether engines ran plain Python for lack of machine code: its time says nothing about later ones
    """

    rows: int
    batch_s: float
    bytes: int | None = None
    limit_rows: int | None = None
    latency_s: float | None = None
    backlog_rows: int | None = None
    free_memory_share: float | None = None
    reading_s: Mapping[str, float | None] = field(default_factory=dict)
    is_plain: bool = False

    def measure(self, held: Held) -> float | None:
        """What was measured of what is to be held; None: nothing."""
        value = getattr(self, held.value)
        return None if value is None or not math.isfinite(value) else float(value)

    def as_json(self) -> dict[str, Any]:
        """The observation as plain values, for the log."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> IntakeObserved:
        """The observation that `as_json` returned."""
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeLimit:
    """How many rows the next batch may take, and why; and who reads them.

    rows          the limit
    held          the name of what is held, such as "batch_s"
    reference     what it should be
    measure       what it was; None: that isn't known
    error         the reference minus the measure; None: as above
    is_saturated  whether the limit is at a bound: min_rows, max_rows or max_bytes
    reason        why, as text for people
    shares        the part of the rows that each executor reads; empty: as tasks become free
    """

    rows: int
    held: str
    reference: float
    measure: float | None = None
    error: float | None = None
    is_saturated: bool = False
    reason: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The limit as plain values, for the log."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> IntakeLimit:
        """The limit that `as_json` returned."""
        return cls(**values)
