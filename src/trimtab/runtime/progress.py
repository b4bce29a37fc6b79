"""What a job says of its last batch: for people, for tests, and for whoever balances the engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EngineProgress:
    """One engine's part of a batch."""

    engine: int
    events: int
    busy_ms: float  # time in the task, from its first row to its last answer
    groups: int  # key groups it holds
    state_bytes: int  # what it wrote
    stages_ms: Mapping[str, float] = field(default_factory=dict)  # where the time in the task went
    host: str = ""  # Spark's id of the executor that it ran on


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
