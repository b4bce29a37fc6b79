"""Varying an action on purpose, so that a model can be fitted to what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]
Action = TypeVar("Action")


def excitation(level: float, swing: float, *, intervals: int, hold: int = 3, seed: int = 0) -> Float64Array:
    """Actions in random steps of up to `swing` around `level`, each held for `hold` intervals on average.

    Steps of varying length show both what an action does and after what delay; a constant action shows neither.

    >>> excitation(100.0, 10.0, intervals=6, hold=2, seed=1).round(1)
    array([106.6, 106.6,  98.2,  98.2, 101. ,  90.6])
    """
    if intervals < 1 or hold < 1:
        raise BalanceError("control.data", f"intervals is {intervals} and hold is {hold}", "1 or more of each")
    random = np.random.default_rng(seed)
    changes = random.random(intervals) < 1.0 / hold
    changes[0] = True
    levels = level + swing * random.uniform(-1.0, 1.0, size=int(changes.sum()))
    return np.asarray(levels[np.cumsum(changes) - 1], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Schedule(Generic[Action]):
    """A controller that ignores measurements: it returns its actions one after another, then keeps the last.

    >>> schedule = Schedule((5.0, 6.0))
    >>> state, action = schedule.step(schedule.start(0.0), 123.0)
    >>> action, schedule.step(state, 123.0)[1]
    (5.0, 6.0)
    """

    actions: Sequence[Action]

    def __post_init__(self) -> None:
        """Raise BalanceError if there are no actions."""
        if len(self.actions) == 0:
            raise BalanceError("control.data", "a schedule needs at least one action")

    def start(self, action: Action) -> int:  # noqa: ARG002 - its actions are given
        """The place in the schedule: its beginning."""
        return 0

    def step(self, state: int, measurement: Any, *, applied: Action | None = None) -> tuple[int, Action]:  # noqa: ARG002
        """The next action."""
        return min(state + 1, len(self.actions) - 1), self.actions[state]
