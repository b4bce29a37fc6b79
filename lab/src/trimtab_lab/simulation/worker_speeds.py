"""How fast workers are, and when that changes: constant pieces in time, known before the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trimtab.errors import BalanceError

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WorkerSpeeds:
    """Messages a second that each worker can serve, piece by piece; the last piece never ends.

    starts_s  (pieces,) when each piece starts, rising, the first at 0
    per_s     (workers, pieces)

    >>> speeds = WorkerSpeeds.constant([4.0, 2.0]).changed(10.0, [2.0, 4.0]).slowed(0, 12.0, 15.0, factor=0.5)
    >>> speeds.starts_s.tolist()
    [0.0, 10.0, 12.0, 15.0]
    >>> speeds.per_s.tolist()
    [[4.0, 2.0, 1.0, 2.0], [2.0, 4.0, 4.0, 4.0]]
    >>> speeds.work_by_s([0.0, 5.0, 13.0]).tolist()  # messages each could have served by then
    [[0.0, 20.0, 45.0], [0.0, 10.0, 32.0]]
    """

    starts_s: Float64Array
    per_s: Float64Array

    def __post_init__(self) -> None:
        """Raise BalanceError for speeds or pieces of time that are out of range."""
        if self.per_s.ndim != 2 or self.per_s.shape[0] == 0 or self.per_s.shape[1] != self.starts_s.size:
            raise BalanceError("simulate.speeds", "speeds need one row a worker and one column a piece of time")
        if not np.isfinite(self.per_s).all() or (self.per_s < 0).any():
            raise BalanceError("simulate.speeds", "a worker's speed must be >= 0 and finite")
        if self.starts_s[0] != 0.0 or (np.diff(self.starts_s) <= 0).any():
            raise BalanceError("simulate.speeds", "pieces of time must start at 0 and rise")

    @classmethod
    def constant(cls, per_s: npt.ArrayLike) -> WorkerSpeeds:
        """Speeds that never change."""
        return cls(np.zeros(1), np.array(per_s, dtype=np.float64).reshape(-1, 1))

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return int(self.per_s.shape[0])

    def changed(self, at_s: float, per_s: npt.ArrayLike) -> WorkerSpeeds:
        """The same speeds up to `at_s`, new ones from then on."""
        cut = self._cut_at(at_s)
        new = np.array(per_s, dtype=np.float64)
        if new.shape != (self.workers,):
            raise BalanceError("simulate.speeds", f"{self.workers} workers need as many speeds, got {new.shape}")
        from_then_on = cut.starts_s >= at_s
        return WorkerSpeeds(cut.starts_s, np.where(from_then_on, new[:, None], cut.per_s))

    def slowed(self, worker: int, from_s: float, to_s: float, *, factor: float) -> WorkerSpeeds:
        """A disturbance: `worker` runs at `factor` times its speed from `from_s` until `to_s`."""
        if not 0 <= worker < self.workers or to_s <= from_s:
            raise BalanceError(
                "simulate.speeds", f"worker {worker} of {self.workers} from {from_s} s to {to_s} s is no disturbance"
            )
        cut = self._cut_at(from_s)._cut_at(to_s)
        per_s = cut.per_s.copy()
        per_s[worker, (cut.starts_s >= from_s) & (cut.starts_s < to_s)] *= factor
        return WorkerSpeeds(cut.starts_s, per_s)

    def work_at_starts(self) -> Float64Array:
        """(workers, pieces) what each worker could have served by the start of each piece."""
        done = self.per_s[:, :-1] * np.diff(self.starts_s)
        return np.concatenate((np.zeros((self.workers, 1)), np.cumsum(done, axis=1)), axis=1)

    def work_by_s(self, times_s: npt.ArrayLike) -> Float64Array:
        """(workers, times) messages that each worker could have served by each time."""
        times = np.asarray(times_s, dtype=np.float64)
        piece = np.searchsorted(self.starts_s, times, side="right") - 1
        work: Float64Array = self.work_at_starts()[:, piece] + self.per_s[:, piece] * (times - self.starts_s[piece])
        return work

    def _cut_at(self, at_s: float) -> WorkerSpeeds:
        """The same speeds, with a piece that starts at `at_s`."""
        if not 0.0 <= at_s < np.inf:
            raise BalanceError("simulate.speeds", f"speeds can't change at {at_s} s: a run starts at 0 s")
        if at_s in self.starts_s:
            return self
        after = int(np.searchsorted(self.starts_s, at_s))
        return WorkerSpeeds(
            np.insert(self.starts_s, after, at_s), np.insert(self.per_s, after, self.per_s[:, after - 1], axis=1)
        )
