"""What the driver sends to the engines of a batch, and what they report. Plain values that pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.errors import TrimtabError
from trimtab.language.compiled import Query
from trimtab.machine_code.offer import Offer
from trimtab.machine_code.shelf import Entry
from trimtab.machine_code.wanted import Note
from trimtab.state.files import Folder
from trimtab.state.manifest import Run, SegmentFile
from trimtab.state.segment import PartSize
from trimtab.worker.intake_plan import IntakePlan

BoolArray = npt.NDArray[np.bool_]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

PackedState = Mapping[str, bytes]
"""A state on its way to the driver: its tables by name, as Arrow IPC."""
LATE, QUARANTINE = "__late", "__quarantine"
"""Names of the outputs for rows that were too late, and for rows that no query can take."""
REASON = "reason"
"""The column that is added to quarantined rows: why they are there."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What stays the same while a job runs: the queries, and how rows arrive. Sent as bytes, unpacked once."""

    intake: IntakePlan
    queries: Mapping[str, Query]
    schema: pa.Schema  # of the rows as they arrive
    delay_us: int
    key_groups: int
    max_threads: int
    keep_original: bool
    event_time: str
    spills: frozenset[str]  # queries whose large outputs may be left in files


@dataclass(frozen=True, slots=True)
class Orders:
    """One batch's work, the same for every engine; an engine's number is that of its Spark partition."""

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
    machine_code: Offer = field(default_factory=Offer)
    incarnation: str = ""  # of the stream
    spread: bytes = b""  # int64: the slots of split queries whose rows go to several engines, in order

    def spread_slots(self) -> Int64Array:
        """The slots of split queries that are on several engines, in order."""
        return np.frombuffer(self.spread, np.int64)


@dataclass(frozen=True, slots=True)
class Output:
    """Rows of one query: Arrow IPC bytes, or the name of a parquet file in the outbox."""

    rows: int
    inline: bytes = b""
    file: str = ""


@dataclass(frozen=True, slots=True)
class GroupLoads:
    """The rows and costs of each key group that an engine owns in a batch, in order of the groups.

    As bytes and only for the engine's own groups: for 16,384 groups on 64 engines, a third of a megabyte in all.
    """

    groups: bytes  # int32: the key groups
    events: bytes  # int32: rows that arrived
    busy_ns: bytes  # int64: time spent; what can't be measured by key is divided by rows
    state_bytes: bytes  # int64: state written, of the keys that were touched

    @classmethod
    def of(cls, owned: BoolArray, events: Int32Array, busy_ns: Int64Array, state_bytes: Int64Array) -> GroupLoads:
        """From columns over all key groups."""
        return cls(
            np.flatnonzero(owned).astype(np.int32).tobytes(),
            events[owned].astype(np.int32).tobytes(),
            busy_ns[owned].astype(np.int64).tobytes(),
            state_bytes[owned].astype(np.int64).tobytes(),
        )

    @property
    def count(self) -> int:
        """How many key groups the engine has."""
        return len(self.groups) // 4

    def columns(self) -> tuple[Int32Array, Int32Array, Int64Array, Int64Array]:
        """Groups, events, busy_ns, state_bytes."""
        return (
            np.frombuffer(self.groups, np.int32),
            np.frombuffer(self.events, np.int32),
            np.frombuffer(self.busy_ns, np.int64),
            np.frombuffer(self.state_bytes, np.int64),
        )


@dataclass(frozen=True, slots=True)
class HotKeys:
    """The hottest keys of an engine's split queries, and its part of those that are spread over engines.

    Spread keys are counted only here; the others are also counted in the `GroupLoads` of their group.
    """

    slots: bytes = b""  # int64
    events: bytes = b""  # int64: rows that arrived
    busy_ns: bytes = b""  # int64: time spent
    is_spread: bytes = b""  # bool

    @classmethod
    def of(cls, slots: Int64Array, events: Int64Array, busy_ns: Int64Array, is_spread: BoolArray) -> HotKeys:
        """From columns."""
        return cls(slots.tobytes(), events.tobytes(), busy_ns.tobytes(), is_spread.tobytes())

    def columns(self) -> tuple[Int64Array, Int64Array, Int64Array, BoolArray]:
        """Slots, events, busy_ns, is_spread."""
        return (
            np.frombuffer(self.slots, np.int64),
            np.frombuffer(self.events, np.int64),
            np.frombuffer(self.busy_ns, np.int64),
            np.frombuffer(self.is_spread, np.bool_),
        )

    @property
    def spread_events(self) -> int:
        """Rows that arrived of spread keys."""
        _, events, _, is_spread = self.columns()
        return int(events[is_spread].sum())

    @property
    def spread_ns(self) -> int:
        """Time spent on rows of spread keys."""
        _, _, busy_ns, is_spread = self.columns()
        return int(busy_ns[is_spread].sum())


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What an engine reports after a batch."""

    engine: int
    events: int
    newest_us: int | None
    late: int
    quarantined: int
    busy_ms: float
    stages_ms: Mapping[str, float]
    loads: GroupLoads
    executor: str = ""  # where it ran
    outputs: Mapping[str, Output] = field(default_factory=dict)
    segment: SegmentFile | None = None
    parts: Mapping[str, PartSize] = field(default_factory=dict)
    hot: HotKeys = field(default_factory=HotKeys)
    partials: Mapping[str, PackedState] = field(
        default_factory=dict
    )  # by query: the state of this engine's parts of spread keys
    missed: tuple[Note, ...] = ()  # what ran as plain Python for lack of machine code
    made: Mapping[Entry, bytes] = field(default_factory=dict)  # machine code compiled by a foreign host, with digests
    error: TrimtabError | None = None
