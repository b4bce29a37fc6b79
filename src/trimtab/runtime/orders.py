"""What the driver tells the engines of a batch, and what they answer. Plain values that pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from trimtab.errors import TrimtabError
from trimtab.language.compiled import Query
from trimtab.runtime.intake_plan import IntakePlan
from trimtab.state.files import Folder
from trimtab.state.manifest import Run, SegmentFile
from trimtab.state.segment import PartSize

LATE, QUARANTINE = "__late", "__quarantine"
"""Names of the outputs with rows that were too late, and with rows that no query can take."""
REASON = "reason"
"""The column that quarantined rows have besides their own: why they are there."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What stays the same for the job's life: the queries, and how rows arrive. Sent as bytes, unpacked once."""

    intake: IntakePlan
    queries: Mapping[str, Query]
    schema: pa.Schema  # of the rows as they arrive
    delay_us: int
    key_groups: int
    max_threads: int
    keep_original: bool
    event_time: str
    spills: frozenset[str]  # queries whose large outputs may be left in files
    warm: bool = False  # whether workers load machine code before their first row


@dataclass(frozen=True, slots=True)
class Orders:
    """One batch's work, the same for every engine; the number of its partition tells an engine which it is."""

    plan: bytes  # an EnginePlan, pickled
    plan_id: str
    batch: int
    engines: int
    owner: bytes  # int32 per key group
    watermark_us: int | None
    previous_watermark_us: int | None
    runs: Mapping[str, tuple[Run, ...]]
    segments: Mapping[str, SegmentFile]
    folder: Folder
    outbox: Folder
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """Rows of one query: Arrow IPC bytes, or the name of a parquet file in the outbox."""

    rows: int
    inline: bytes = b""
    file: str = ""


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What an engine says after a batch."""

    engine: int
    events: int
    newest_us: int | None
    late: int
    quarantined: int
    busy_ms: float
    stages_ms: Mapping[str, float]
    events_by_group: bytes  # int32 per key group
    groups: int
    outputs: Mapping[str, Output] = field(default_factory=dict)
    segment: SegmentFile | None = None
    parts: Mapping[str, PartSize] = field(default_factory=dict)
    error: TrimtabError | None = None
