"""What a job reports of its last batch, for people and for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from trimtab.control.intake import IntakeObserved
from trimtab.state.manifest import Manifest
from trimtab.worker.orders import EngineReport

if TYPE_CHECKING:  # a command that shows progress doesn't have to load the planners
    from trimtab.deciding.coordinator import Decision


@dataclass(frozen=True, slots=True)
class EngineProgress:
    """One engine's part of a batch."""

    engine: int
    events: int
    busy_ms: float  # time in the task, from its first row to its last answer
    groups: int  # key groups it holds
    state_bytes: int  # what it wrote
    stages_ms: Mapping[str, float] = field(default_factory=dict)  # where the time in the task went
    worked_ms: float = 0.0  # time spent on its key groups, as far as it can be measured
    executor: str = ""  # where it ran


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch of one stream, from its trigger to its commit.

    `stages_ms` splits `batch_ms`: plan (driver, before the Spark job), engines (the Spark job), sinks, commit.
    """

    stream: str
    batch: int
    events: int
    late: int
    quarantined: int
    matches: Mapping[str, int]  # by query
    watermark_us: int | None
    batch_ms: float
    stages_ms: Mapping[str, float]
    engines: tuple[EngineProgress, ...]
    moved: int  # key groups that were elsewhere in the batch before
    state_bytes: int  # live state after this batch
    state_bytes_written: int
    finished_at_s: float  # seconds since 1970
    decision: Decision | None = None  # the coordinator's last one when the batch began
    backlog: int | None = None  # about how many rows waited behind it; None: that isn't known
    intake: IntakeObserved | None = None  # what was measured for the control of the intake; None: nothing limits it

    @property
    def rstd(self) -> float:
        """The relative standard deviation of the engines' work in this batch, in percent."""
        return relative_deviation([engine.worked_ms for engine in self.engines])

    @property
    def rstd_of_events(self) -> float:
        """The relative standard deviation of the engines' events in this batch, in percent."""
        return relative_deviation([engine.events for engine in self.engines])


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job stands: the last batch of each stream, and totals since the job was started."""

    streams: Mapping[str, BatchProgress] = field(default_factory=dict)
    batches: int = 0
    events: int = 0
    late: int = 0
    quarantined: int = 0
    matches: Mapping[str, int] = field(default_factory=dict)
    events_per_s: float = 0.0  # over the last ten seconds


def relative_deviation(loads: Sequence[float]) -> float:
    """The standard deviation in percent of the mean; 0 if there is no load.

    >>> relative_deviation([50.0, 150.0])
    50.0
    """
    mean = fmean(loads) if loads else 0.0
    return 100.0 * pstdev(loads) / mean if mean > 0 else 0.0


def progress_of(
    version: Manifest,
    reports: Sequence[EngineReport],
    events: int,
    matches: Mapping[str, int],
    stages_s: Mapping[str, float],
    moved: int,
    finished_at_s: float,
) -> BatchProgress:
    """The progress report of a committed batch; `version` is the state after it."""
    return BatchProgress(
        stream=version.stream,
        batch=version.batch,
        events=events,
        late=sum(report.late for report in reports),
        quarantined=sum(report.quarantined for report in reports),
        matches={name: matches.get(name, 0) for name in version.queries},
        watermark_us=version.watermark_us,
        batch_ms=sum(stages_s.values()) * 1e3,
        stages_ms={name: spent * 1e3 for name, spent in stages_s.items()},
        engines=tuple(
            EngineProgress(
                engine=report.engine,
                events=int(report.loads.events.sum()) + report.hot.spread_events,
                busy_ms=report.busy_ms,
                groups=len(report.loads.groups),
                state_bytes=0 if report.segment is None else report.segment.size_bytes,
                stages_ms=report.stages_ms,
                worked_ms=(int(report.loads.busy_ns.sum()) + report.hot.spread_ns) / 1e6,
                executor=report.executor,
            )
            for report in reports
        ),
        moved=moved,
        state_bytes=sum(run.size_bytes for query in version.queries.values() for run in query.runs),
        state_bytes_written=sum(report.segment.size_bytes for report in reports if report.segment is not None),
        finished_at_s=finished_at_s,
    )
