"""What the coordinator learns from a batch: loads by key group and by engine. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trimtab.control.intake import IntakeObserved
from trimtab.deciding.placement import Placement
from trimtab.worker.orders import EngineReport

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

_NONE = np.empty(0, np.int64)


class ObservedHotKeys(NamedTuple):
    """Keys of split queries that stood out in a batch, over all engines, in order of their slots."""

    slots: Int64Array = _NONE
    events: Int64Array = _NONE
    busy_ns: Int64Array = _NONE

    @classmethod
    def of(cls, reports: Sequence[EngineReport], receive_ns: Mapping[str, float]) -> ObservedHotKeys:
        """Add up what the engines reported of each key."""
        reported = [(*report.hot, receive_ns[report.executor]) for report in reports]
        if not any(len(each[0]) for each in reported):
            return cls()
        slots, numbers = np.unique(np.concatenate([each[0] for each in reported]), return_inverse=True)
        events, busy_ns = np.zeros(len(slots), np.int64), np.zeros(len(slots))
        np.add.at(events, numbers, np.concatenate([arrived for _, arrived, _, _, _ in reported]))
        np.add.at(busy_ns, numbers, np.concatenate([spent + each * arrived for _, arrived, spent, _, each in reported]))
        return cls(slots, events, np.rint(busy_ns).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """One committed batch.

    batch         its number
    span_s        from the end of the batch before to the end of this one: the time that was available
    batch_s       the part of that in which the batch ran
    placement     where key groups were while it ran
    events        (groups,) rows that arrived
    busy_ns       (groups,) time spent on them
    state_bytes   (groups,) state written for them
    engine_ns     (engines,) time in each engine's task
    executors     (engines,) where each engine's task ran
    hot           the hottest keys of split queries; a key that is spread is counted here and in no key group's columns
    is_planner_compiled  whether the policy's planner is compiled; a plain one decides until then
    intake        what the batch took in; None: nothing limits the intake
    """

    batch: int
    span_s: float
    batch_s: float
    placement: Placement
    events: Int64Array
    busy_ns: Int64Array
    state_bytes: Int64Array
    engine_ns: Int64Array
    executors: tuple[str, ...]
    hot: ObservedHotKeys = field(default_factory=ObservedHotKeys)
    is_planner_compiled: bool = True
    intake: IntakeObserved | None = None

    @classmethod
    def of_events(cls, batch: int, placement: Placement, events: Sequence[int]) -> Observation:
        """A batch of one second, in which every event took a millisecond: for examples and tests."""
        counts = np.asarray(events, np.int64)
        busy_ns, state_bytes = counts * 1_000_000, np.zeros(len(counts), np.int64)
        engine_ns = np.bincount(placement.array(), busy_ns, placement.engines).astype(np.int64)
        executors = ("",) * placement.engines
        return cls(batch, 1.0, 1.0, placement, counts, busy_ns, state_bytes, engine_ns, executors)

    @property
    def overhead_s(self) -> float:
        """The part of the batch in which not even the slowest engine worked: Spark's, the sinks', the commit's."""
        slowest_s = float(self.engine_ns.max(initial=0)) / 1e9
        return max(0.0, self.batch_s - slowest_s)


def observe(
    batch: int, span_s: float, batch_s: float, placement: Placement, reports: Sequence[EngineReport]
) -> Observation:
    """Gather the engines' reports of a batch."""
    groups = len(placement.owner)
    events, busy_ns, state_bytes = (np.zeros(groups, np.int64) for _ in range(3))
    receive_ns = _receive_ns(reports)
    for report in reports:
        own, arrived, spent, written = report.loads
        events[own], state_bytes[own] = arrived, written
        busy_ns[own] = np.rint(spent + receive_ns[report.executor] * arrived)
    engine_ns = np.array([round(report.busy_ms * 1e6) for report in reports], np.int64)
    executors, hot = tuple(report.executor for report in reports), ObservedHotKeys.of(reports, receive_ns)
    return Observation(batch, span_s, batch_s, placement, events, busy_ns, state_bytes, engine_ns, executors, hot)


def _receive_ns(reports: Sequence[EngineReport]) -> dict[str, float]:
    """The time to receive a row on each executor.

    It is averaged over an executor's engines: those whose tasks start first also wait until the others' rows are read,
    and would look busier than they are.
    """
    spent: dict[str, float] = {}
    rows: dict[str, int] = {}
    for report in reports:
        spent[report.executor] = spent.get(report.executor, 0.0) + report.stages_ms.get("receive", 0.0) * 1e6
        own = int(report.loads.events.sum()) + report.hot.spread_events
        rows[report.executor] = rows.get(report.executor, 0) + own
    return {executor: spent[executor] / max(1, rows[executor]) for executor in spent}
