"""What a driver is told, and what it answers with: everything that passes between `machine.Driver` and its shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.deciding.placement import Placement
from trimtab.driver.batch_plan import BatchPlan, Setup
from trimtab.state.manifest import Manifest, Run, SegmentFile
from trimtab.state.merging import Merged
from trimtab.worker.orders import EngineReport, Output

# What happened ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchCame:
    """Rows are there to be taken, or (`closing`) there are no more.

    `setup` and `placement` are those of a batch that wasn't begun before; a repeated one has its own.
    """

    spark_batch: int | None
    closing: bool
    clock_s: float
    setup: Setup
    placement: Placement


@dataclass(frozen=True, slots=True)
class PlanWritten:
    """The plan of the batch is on disk."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a batch brought, in all rows of the stream, also those that no query wants."""

    events: int
    newest_us: int | None


@dataclass(frozen=True, slots=True)
class EnginesReported:
    """All engines have done their part."""

    reports: Sequence[EngineReport]
    seen: Seen


@dataclass(frozen=True, slots=True)
class PartsMerged:
    """The parts of spread keys are together: what came of them, reported as one more engine would."""

    reports: Sequence[EngineReport]


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The sinks of an output have taken its rows."""

    name: str


@dataclass(frozen=True, slots=True)
class MergesCollected:
    """Merges of state that were done beside the stream."""

    merged: Sequence[Merged]


@dataclass(frozen=True, slots=True)
class Committed:
    """The manifest is on disk: the batch counts."""


Happening = BatchCame | PlanWritten | EnginesReported | PartsMerged | HandedOver | MergesCollected | Committed

# What to do ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Put the plan on disk, for good. Engines may run meanwhile; nothing is handed over before."""

    plan: BatchPlan


@dataclass(frozen=True, slots=True)
class RunEngines:
    """Have the engines take their rows, from this state on."""

    plan: BatchPlan
    runs: Mapping[str, tuple[Run, ...]]
    segments: Mapping[str, SegmentFile]


@dataclass(frozen=True, slots=True)
class MergeParts:
    """Put the parts of spread keys together; `run` is what the engines were told."""

    run: RunEngines
    reports: Sequence[EngineReport]
    newest_us: int | None


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give the rows of an output to its sinks. `may_repeat`: they may have been given before, in part or whole."""

    name: str
    plan: BatchPlan
    outputs: tuple[Output, ...]
    may_repeat: bool


@dataclass(frozen=True, slots=True)
class CollectMerges:
    """Say which merges of the state are done; `known` is the last version of it."""

    known: Manifest | None


@dataclass(frozen=True, slots=True)
class Commit:
    """Put the manifest on disk, which makes the batch count."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Delete:
    """These files are of no use any more. Manifests go before the segments that only they name."""

    manifests: tuple[int, ...] = ()
    plans: tuple[int, ...] = ()
    segments: tuple[str, ...] = ()
    outbox: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanMerges:
    """Merge what is due of this version's state, beside the stream."""

    manifest: Manifest


Instruction = WritePlan | RunEngines | MergeParts | HandOver | CollectMerges | Commit | Delete | PlanMerges
