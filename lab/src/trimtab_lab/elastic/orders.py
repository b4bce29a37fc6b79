"""What a driver is told to run, and what it answers. Plain values that go through JSON, as they cross processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, pstdev
from typing import Any

KEYS = 1_000
KEY_GROUPS = 256


class Place(Enum):
    """Where jobs run."""

    CLUSTER = "cluster"
    """A standalone cluster of one-core workers, each a process of its own."""

    LOCAL = "local"
    """Eight tasks at a time in one process: engines wait for most of their time, and can do so side by side."""


WORKERS = 4
"""Of the cluster."""
LOCAL_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """Some batches that are alike.

    exponent      the skew of their keys (Zipf)
    wait_us       what an event costs
    slow_wait_us  what it costs on the slow host
    """

    batches: int
    events: int
    exponent: float
    wait_us: int
    slow_wait_us: int

    @classmethod
    def even(cls, batches: int, events: int, exponent: float, wait_us: int) -> Phase:
        """All hosts are equally fast."""
        return cls(batches, events, exponent, wait_us, wait_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOrder:
    """A feed of phases, a file a batch, as fast as it goes.

    balanced     whether key groups move; and by what measure, and how many at most
    split        how hot keys are spread; None: they are not
    slow_engine  the engine whose host is the slow one; None: there is none
    """

    engines: int
    phases: tuple[Phase, ...]
    balanced: bool = True
    measure: str = "busy"
    max_moves: int | None = None
    split: str | None = None
    slow_engine: int | None = None
    seed: int = 1

    @property
    def batches(self) -> int:
        """How many in all."""
        return sum(phase.batches for phase in self.phases)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOrder:
    """A day in so many seconds: its rate goes from `low_per_s` up to `high_per_s` and down again; engines follow.

    Executors are watched for `linger_s` more: those that are told to go take some seconds.
    """

    seconds: float
    low_per_s: float
    high_per_s: float
    wait_us: int
    engines: int
    max_engines: int
    exponent: float = 0.5
    interval_s: float = 1.0
    linger_s: float = 0.0
    seed: int = 1


def deviation(loads: Sequence[float]) -> float:
    """The relative standard deviation, in percent; 0 where nothing was to do."""
    return 100.0 * pstdev(loads) / fmean(loads) if any(loads) else 0.0


@dataclass(frozen=True, slots=True)
class EngineSeen:
    """One engine in a batch; `worked_ms` is the time spent on its key groups."""

    events: int
    worked_ms: float
    host: str


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """One batch. What the coordinator said is of the batch before; None if there is no coordinator."""

    events: int
    batch_ms: float
    finished_s: float
    moved: int
    engines: tuple[EngineSeen, ...]
    utilisation: float | None = None
    least_rstd: float | None = None
    reason: str = ""

    @property
    def rstd(self) -> float:
        """The relative standard deviation of the engines' work, in percent."""
        return deviation([engine.worked_ms for engine in self.engines])

    def share_of(self, host: str) -> float:
        """The part of the events that a host got."""
        return sum(each.events for each in self.engines if each.host == host) / max(1, self.events)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left.

    keys        different keys in the input; for `wrong_keys` of them the counts were not those of the input
    slow_host   the executor that was slow; empty: none
    began_s     when the first rows were there
    sent        rows, and when they were written: of a day
    executors   how many there were, and when: of a day on a cluster
    """

    batches: tuple[BatchSeen, ...]
    keys: int
    wrong_keys: int
    slow_host: str = ""
    began_s: float = 0.0
    sent: tuple[tuple[float, int], ...] = ()
    executors: tuple[tuple[float, int], ...] = ()


Order = FeedOrder | DayOrder


def order_to_json(order: Order) -> dict[str, Any]:
    """The order as JSON has it."""
    return {"kind": type(order).__name__, **dataclasses.asdict(order)}


def order_from_json(values: Mapping[str, Any]) -> Order:
    """What `order_to_json` gave, as an order again.

    >>> order = FeedOrder(engines=2, phases=(Phase.even(3, 100, 1.0, 50),), split="pkg")
    >>> order_from_json(order_to_json(order)) == order
    True
    """
    fields = {name: value for name, value in values.items() if name != "kind"}
    if values["kind"] == DayOrder.__name__:
        return DayOrder(**fields)
    return FeedOrder(**{**fields, "phases": tuple(Phase(**phase) for phase in fields["phases"])})


def outcome_from_json(values: Mapping[str, Any]) -> Outcome:
    """An outcome from its fields as JSON has them.

    >>> seen = BatchSeen(9, 1.5, 2.0, 0, (EngineSeen(9, 1.0, "0"),))
    >>> outcome = Outcome((seen,), 3, 0, sent=((0.5, 9),))
    >>> outcome_from_json(dataclasses.asdict(outcome)) == outcome
    True
    """
    batches = tuple(
        BatchSeen(**{**batch, "engines": tuple(EngineSeen(**each) for each in batch["engines"])})
        for batch in values["batches"]
    )
    pairs = {name: tuple((each[0], each[1]) for each in values[name]) for name in ("sent", "executors")}
    return Outcome(**{**values, **pairs, "batches": batches})
