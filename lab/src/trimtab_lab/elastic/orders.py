"""What a driver is to run, and its outcome. Plain values that can be written as JSON, to be sent between processes."""

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
    """A standalone cluster of one-core workers, each in its own process."""

    LOCAL = "local"
    """Eight tasks at a time in one process: engines wait for most of their time, and need no core for that."""


WORKERS = 4
"""The workers of the cluster."""
LOCAL_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """A number of batches with the same settings.

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
    """A feed of phases, one file per batch, processed as fast as possible.

    balanced     whether key groups move; `measure` and `max_moves` are settings of the policy
    split        how hot keys are split; None: they are not
    slow_engine  the engine on the slow host; None: no host is slow
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
        """The number of all batches."""
        return sum(phase.batches for phase in self.phases)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOrder:
    """A day of `seconds` seconds: its rate rises from `low_per_s` to `high_per_s` and falls again; engines follow.

    Executors are counted for `linger_s` more, as their removal takes some seconds.
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
    """The relative standard deviation, in percent; 0 if all loads are 0."""
    return 100.0 * pstdev(loads) / fmean(loads) if any(loads) else 0.0


@dataclass(frozen=True, slots=True)
class MeasuredEngine:
    """The measures of one engine in a batch; `worked_ms` is the time spent on its key groups."""

    events: int
    worked_ms: float
    host: str


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """The measures of one batch. The coordinator's are of the batch before; None without a coordinator."""

    events: int
    batch_ms: float
    finished_s: float
    moved: int
    engines: tuple[MeasuredEngine, ...]
    utilisation: float | None = None
    least_rstd: float | None = None
    reason: str = ""

    @property
    def rstd(self) -> float:
        """The relative standard deviation of the engines' work, in percent."""
        return deviation([engine.worked_ms for engine in self.engines])

    def share_of(self, host: str) -> float:
        """The share of the events that a host got."""
        return sum(each.events for each in self.engines if each.host == host) / max(1, self.events)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    keys        different keys in the input; for `wrong_keys` of them the counts were not those of the input
    slow_host   the executor that was slow; empty: none
    began_s     when the first rows were written
    sent        of a day: when rows were written, and how many
    executors   of a day on a cluster: times, and how many executors there were
    """

    batches: tuple[MeasuredBatch, ...]
    keys: int
    wrong_keys: int
    slow_host: str = ""
    began_s: float = 0.0
    sent: tuple[tuple[float, int], ...] = ()
    executors: tuple[tuple[float, int], ...] = ()


Order = FeedOrder | DayOrder


def order_to_json(order: Order) -> dict[str, Any]:
    """The order as JSON values."""
    return {"kind": type(order).__name__, **dataclasses.asdict(order)}


def order_from_json(values: Mapping[str, Any]) -> Order:
    """The order that `order_to_json` wrote.

    >>> order = FeedOrder(engines=2, phases=(Phase.even(3, 100, 1.0, 50),), split="pkg")
    >>> order_from_json(order_to_json(order)) == order
    True
    """
    fields = {name: value for name, value in values.items() if name != "kind"}
    if values["kind"] == DayOrder.__name__:
        return DayOrder(**fields)
    return FeedOrder(**{**fields, "phases": tuple(Phase(**phase) for phase in fields["phases"])})


def outcome_from_json(values: Mapping[str, Any]) -> Outcome:
    """The outcome from its fields as JSON values.

    >>> batch = MeasuredBatch(9, 1.5, 2.0, 0, (MeasuredEngine(9, 1.0, "0"),))
    >>> outcome = Outcome((batch,), 3, 0, sent=((0.5, 9),))
    >>> outcome_from_json(dataclasses.asdict(outcome)) == outcome
    True
    """
    batches = tuple(
        MeasuredBatch(**{**batch, "engines": tuple(MeasuredEngine(**each) for each in batch["engines"])})
        for batch in values["batches"]
    )
    pairs = {name: tuple((each[0], each[1]) for each in values[name]) for name in ("sent", "executors")}
    return Outcome(**{**values, **pairs, "batches": batches})
