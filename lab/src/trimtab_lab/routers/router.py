"""What every router does: a column of keys in, a column of workers out, loads counted."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
Float64Array = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


class Router(Protocol):
    """A way of spreading messages over workers. Stateful: each message counts for the ones after it.

    How a column is cut into calls never changes the answer.
    """

    @property
    def workers(self) -> int:
        """How many workers there are."""
        ...

    @property
    def loads(self) -> Float64Array:
        """Messages that each worker got, decayed if the router has a half-life."""
        ...

    @property
    def imbalance(self) -> float:
        """The excess of the fullest worker: max(load / capacity) / (all load / all capacity) - 1.

        0 is even; with equal workers it is max / mean - 1, which PoRC keeps below epsilon (and one message).
        """
        ...

    @property
    def replicas(self) -> int:
        """Memory: the number of different (key, worker) pairs so far. Key grouping's is the number of keys."""
        ...

    def route(self, keys: Int64Array) -> Int32Array:
        """Choose a worker for each message, in order."""
        ...
