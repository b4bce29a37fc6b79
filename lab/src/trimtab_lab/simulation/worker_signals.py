"""What workers signal at the end of a time slot: that they are busy, or idle, one bit each (Nasir 2017, V.C).

A rule uses what a worker knows about itself. Which virtual worker moves where is decided by the router.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

BoolArray = npt.NDArray[np.bool_]
Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


class SignalRule(Protocol):
    """When a worker signals that it is busy or idle."""

    def busy_and_idle(self, utilisation: Float64Array, queue_length: Int64Array) -> tuple[BoolArray, BoolArray]:
        """Two arrays (workers,), from each worker's measures of the slot that ends; no worker is both."""
        ...


class ListensToWorkers(Protocol):
    """A router that takes workers' signals."""

    def signal(self, busy: BoolArray, idle: BoolArray) -> object:
        """Receive the workers' signals at the end of a slot."""
        ...


def _check_order(idle_below: float, busy_above: float) -> None:
    if not 0 <= idle_below <= busy_above:
        raise BalanceError(
            "simulate.signals", f"idle below {idle_below} and busy above {busy_above} overlap: 0 <= idle <= busy"
        )


@dataclass(frozen=True, slots=True)
class ByUtilisation:
    """Messages assigned in the slot over what the worker could serve in it: the paper's rule in simulation (VII.A).

    >>> busy, idle = ByUtilisation().busy_and_idle(np.array([0.7, 0.8, 1.2]), np.array([0, 0, 50]))
    >>> busy.tolist(), idle.tolist()
    ([False, False, True], [True, False, False])
    """

    idle_below: float = 0.75
    busy_above: float = 0.85

    def __post_init__(self) -> None:
        """Raise BalanceError for thresholds that overlap."""
        _check_order(self.idle_below, self.busy_above)

    def busy_and_idle(self, utilisation: Float64Array, queue_length: Int64Array) -> tuple[BoolArray, BoolArray]:  # noqa: ARG002 - the protocol has it
        """Busy above one threshold, idle below the other."""
        return utilisation > self.busy_above, utilisation < self.idle_below


@dataclass(frozen=True, slots=True)
class ByQueueLength:
    """Messages waiting over what the queue is meant to hold: the paper's rule on Storm (VII.A).

    >>> busy, idle = ByQueueLength(100).busy_and_idle(np.array([0.7, 0.8, 1.2]), np.array([0, 80, 250]))
    >>> busy.tolist(), idle.tolist()
    ([False, False, True], [True, False, False])
    """

    queue_capacity: int
    idle_below: float = 0.75
    busy_above: float = 0.85

    def __post_init__(self) -> None:
        """Raise BalanceError for thresholds that overlap."""
        _check_order(self.idle_below, self.busy_above)
        if self.queue_capacity < 1:
            raise BalanceError("simulate.signals", f"a queue must hold a message, got {self.queue_capacity}")

    def busy_and_idle(self, utilisation: Float64Array, queue_length: Int64Array) -> tuple[BoolArray, BoolArray]:  # noqa: ARG002 - the protocol has it
        """Busy above one threshold, idle below the other."""
        filled = queue_length / self.queue_capacity
        return filled > self.busy_above, filled < self.idle_below
