"""What all routers have in common: checked arguments, counted loads, replicas and imbalance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from trimtab.errors import BalanceError
from trimtab_lab.routers.decay import count, growth_per_message
from trimtab_lab.routers.hashing import seed_word
from trimtab_lab.routers.replicas import ReplicaSet
from trimtab_lab.routers.router import Float64Array, Int32Array, Int64Array

MOST_WORKERS = 1 << 20
"""Workers are drawn by 32 bits of a hash; with more workers the draw would not be even."""


class CountingRouter(ABC):
    """A router that counts what it sends. Subclasses only define how a worker is chosen.

    Args:
        workers: how many there are.
        seed: decides the assignment of keys.
        capacities: how strong each worker is, in any unit; a worker with 0 gets nothing. None: all alike.
        half_life: after how many messages a load counts half. None: loads don't decay.
        count_replicas: keep the exact set of (key, worker) pairs. It costs memory and most of the time.
    """

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        capacities: Sequence[float] | Float64Array | None = None,
        half_life: float | None = None,
        count_replicas: bool = True,
    ) -> None:
        self._capacities = checked_capacities(workers, capacities)
        self._seed = seed_word(seed)
        self._growth = growth_per_message(half_life)
        self._counted: Float64Array = np.zeros(workers)
        self._weight: Float64Array = np.ones(1)
        self._messages = 0
        self._replicas = ReplicaSet(workers) if count_replicas else None

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self._capacities.size

    @property
    def capacities(self) -> Float64Array:
        """How strong the workers are, as given."""
        return self._capacities.copy()

    @property
    def messages(self) -> int:
        """How many messages were routed."""
        return self._messages

    @property
    def loads(self) -> Float64Array:
        """Messages that each worker got; with a half-life, what is left of them."""
        return np.asarray(self._counted / self._weight[0])

    @property
    def imbalance(self) -> float:
        """The excess of the fullest worker: max(load / capacity) / (all load / all capacity) - 1."""
        total = float(self._counted.sum())
        if not total:
            return 0.0
        some = self._capacities > 0
        fullest = float((self._counted[some] / self._capacities[some]).max())
        return fullest * float(self._capacities.sum()) / total - 1.0

    @property
    def replicas(self) -> int:
        """Memory: the number of different (key, worker) pairs so far."""
        return len(self._counted_replicas())

    @property
    def replicas_by_worker(self) -> Int64Array:
        """How many different keys each worker got."""
        return self._counted_replicas().by_worker.copy()

    def route(self, keys: Int64Array) -> Int32Array:
        """Choose a worker for each message, in order; how a column is cut into calls changes nothing."""
        column = _checked_keys(keys)
        chosen = np.empty(column.size, np.int32)
        self._choose(column, chosen)
        self._messages += column.size
        count(chosen, self._counted, self._weight, self._growth)
        if self._replicas is not None:
            self._replicas.add(column, chosen)
        return chosen

    @abstractmethod
    def _choose(self, keys: Int64Array, chosen: Int32Array) -> None:
        """Write the worker of each message; `self._messages` is the number of the first of them."""

    def _counted_replicas(self) -> ReplicaSet:
        if self._replicas is None:
            raise BalanceError("route.replicas", "this router does not count replicas", "give it count_replicas=True")
        return self._replicas


def checked_capacities(workers: int, capacities: Sequence[float] | Float64Array | None) -> Float64Array:
    """The capacities as a new array. Raises BalanceError if they are no capacities of `workers` workers."""
    if not 1 <= workers <= MOST_WORKERS:
        raise BalanceError("route.workers", f"there are {workers} workers", f"1 to {MOST_WORKERS:,} are possible")
    if capacities is None:
        return np.ones(workers)
    checked = np.array(capacities, np.float64)
    if checked.shape != (workers,):
        raise BalanceError(
            "route.capacities",
            f"capacities have the shape {checked.shape} and there are {workers} workers",
            "give one number for each worker",
        )
    if not (np.isfinite(checked).all() and (checked >= 0).all() and checked.any()):
        raise BalanceError(
            "route.capacities",
            f"no router can use the capacities {checked.tolist()[:10]}",
            "none may be negative or infinite, and one at least must be above 0",
        )
    return checked


def checked_option(name: str, value: float, least: float, *, above: bool = False) -> None:
    """Raise BalanceError if an option is too small."""
    if not (value > least if above else value >= least):
        bound = f"above {least}" if above else f"at least {least}"
        raise BalanceError("route.option", f"{name} is {value}", f"it must be {bound}")


def _checked_keys(keys: Int64Array) -> Int64Array:
    column = np.asarray(keys)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise BalanceError(
            "route.keys",
            f"keys are an array of {column.dtype} with {column.ndim} dimension(s)",
            "give one column of 64-bit integers; hash other keys to such first",
        )
    return np.ascontiguousarray(column.astype(np.int64, copy=False))
