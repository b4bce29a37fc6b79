"""What the driver sends to the engines of a batch, and what they report. Plain values that pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.watermark import BatchTime
from trimtab.errors import TrimtabError
from trimtab.language.compiled import Query
from trimtab.machine_code.missing import Note
from trimtab.machine_code.shelf import Entry, Offer
from trimtab.sources.source import Range
from trimtab.state.files import Folder
from trimtab.state.manifest import SegmentFile, StateRun
from trimtab.state.segment import PartSize
from trimtab.worker.intake import Intake
from trimtab.worker.measures import Measures

BoolArray = npt.NDArray[np.bool_]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
_NONE: Int64Array = np.empty(0, np.int64)
_NO_GROUPS: Int32Array = np.empty(0, np.int32)
_NO_SHARES: Int32Array = np.empty((0, 1), np.int32)

PackedState = Mapping[str, bytes]
"""A state on its way to the driver: its tables by name, as Arrow IPC."""
LATE, QUARANTINE = "__late", "__quarantine"
"""Names of the outputs for rows that were too late, and for rows that no query can take."""
QUERY, REASON = "query", "reason"
"""The columns that are added to quarantined rows: which query can't take them (null: none can), and why."""


INLINE_BYTES = 2 << 20
"""Outputs up to this size travel in the report. Larger ones are left in a file: engines write side by side, and the
driver's memory doesn't depend on how much they put out."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What stays the same while a job runs: the queries, and how rows arrive. Sent as bytes, unpacked once."""

    intake: Intake
    queries: Mapping[str, Query]
    schema: pa.Schema  # of the rows as they arrive
    key_groups: int
    max_threads: int
    keep_original: bool
    event_time: str
    inline_bytes: int = INLINE_BYTES


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of rows without looking at them: how many there are, and the newest time of each partition."""

    events: int = 0
    newest_us: Mapping[str, int] = field(default_factory=dict)
    measures: Measures = field(default_factory=Measures, repr=False, compare=False)  # no two readings have the same


@dataclass(frozen=True, slots=True)
class Orders:
    """One batch's work, the same for every engine; an engine's number is that of its Spark partition."""

    plan: bytes  # an EnginePlan, pickled
    plan_id: str
    batch: int
    engines: int
    owner: Int32Array  # by key group
    time: BatchTime
    runs: Mapping[str, tuple[StateRun, ...]]
    segments: Mapping[str, SegmentFile]
    folder: Folder
    outbox: Folder
    head: Head = field(default_factory=Head)  # of all rows of the batch
    closing: bool = False
    machine_code: Offer = field(default_factory=Offer)
    incarnation: str = ""  # of the stream
    epoch: int = 0  # of the job, as the owner of its checkpoint
    spread: Int64Array = field(default_factory=lambda: _NONE)  # slots whose rows go to several engines, in order
    shares: Int32Array = field(default_factory=lambda: _NO_SHARES)  # the engine of each share of each of these slots
    ranges: tuple[Range, ...] = ()  # what is read of trimtab's own source


@dataclass(frozen=True, slots=True)
class Output:
    """Rows of one query, as Arrow IPC bytes; or none of them, and the name of a parquet file in the outbox."""

    rows: int
    inline: bytes
    file: str = ""


class GroupLoads(NamedTuple):
    """The rows and costs of each key group that an engine owns in a batch, in order of the groups.

    Only of the engine's own groups: for 16,384 groups on 64 engines, reports have a third of a megabyte in all.
    """

    groups: Int32Array = _NO_GROUPS  # the key groups
    events: Int32Array = _NO_GROUPS  # rows that arrived
    busy_ns: Int64Array = _NONE  # time spent; what can't be measured by key is divided by rows
    state_bytes: Int64Array = _NONE  # state written, of the keys that were touched


class HotKeys(NamedTuple):
    """The hottest keys of an engine's split queries, and its part of those that are spread over engines.

    Spread keys are counted only here; the others are also counted in the `GroupLoads` of their group.
    """

    slots: Int64Array = _NONE
    events: Int64Array = _NONE  # rows that arrived
    busy_ns: Int64Array = _NONE  # time spent
    is_spread: BoolArray = _NONE.astype(np.bool_)

    @property
    def spread_events(self) -> int:
        """Rows that arrived of spread keys."""
        return int(self.events[self.is_spread].sum())

    @property
    def spread_ns(self) -> int:
        """Time spent on rows of spread keys."""
        return int(self.busy_ns[self.is_spread].sum())


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What an engine reports after a batch."""

    engine: int
    events: int = 0
    next_due_us: int | None = None  # the lowest watermark at which a key is due; None: no key has a deadline
    late: int = 0
    quarantined: int = 0
    busy_ms: float = 0.0
    stages_ms: Mapping[str, float] = field(default_factory=dict)
    loads: GroupLoads = field(default_factory=GroupLoads)
    executor: str = ""  # where it ran
    free_memory_share: float | None = None  # the least that was free there while it ran
    outputs: Mapping[str, Output] = field(default_factory=dict)
    segment: SegmentFile | None = None
    parts: Mapping[str, PartSize] = field(default_factory=dict)
    hot: HotKeys = field(default_factory=HotKeys)
    partials: Mapping[str, PackedState] = field(default_factory=dict)  # by query: its parts of spread keys
    missed: tuple[Note, ...] = ()  # what ran as plain Python for lack of machine code
    made: Mapping[Entry, bytes] = field(default_factory=dict)  # machine code compiled by a foreign host, with digests
    error: TrimtabError | None = None


def packed(table: pa.Table) -> bytes:
    """A table as Arrow IPC bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
