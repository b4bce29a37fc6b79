"""What is reported to a driver, and what it answers: everything that passes between `machine.Driver` and its shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.deciding.placement import Placement
from trimtab.driver.batch_plan import BatchPlan, Setup
from trimtab.engine.columns.watermark import NO_SILENCE, Silence
from trimtab.sources.source import Range
from trimtab.state.manifest import Manifest, SegmentFile, StateRun
from trimtab.state.merging import Merged
from trimtab.worker.orders import EngineReport, Head, Output

# What happened ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """There are rows to take: those of a Spark batch, or some ranges of trimtab's own source.

    Or there are none, but time has passed, or (`closing`) the input has ended. `setup`, `placement`, `silence` and
    `ranges` are for a batch that wasn't begun before; a repeated one has those of its plan.
    """

    spark_batch: int | None
    closing: bool
    clock_s: float
    setup: Setup
    placement: Placement
    silence: Silence = NO_SILENCE
    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanWritten:
    """The plan of the batch is on disk."""


@dataclass(frozen=True, slots=True)
class EnginesReported:
    """All engines have done their part; `head` is that of all rows of the batch, also of those that no query wants."""

    reports: Sequence[EngineReport]
    head: Head


@dataclass(frozen=True, slots=True)
class PartsMerged:
    """The parts of spread keys are merged; the result is reported like that of one more engine."""

    reports: Sequence[EngineReport]


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The sinks of an output have taken its rows."""

    name: str


@dataclass(frozen=True, slots=True)
class MergesCollected:
    """These merges of state, done in the background, are complete."""

    merged: Sequence[Merged]


@dataclass(frozen=True, slots=True)
class Committed:
    """The manifest is on disk: the batch is final."""


Happening = BatchArrived | PlanWritten | EnginesReported | PartsMerged | HandedOver | MergesCollected | Committed

# What to do ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Write the plan to disk, durably: the engines are done, and nothing was handed over yet."""

    plan: BatchPlan


@dataclass(frozen=True, slots=True)
class RunEngines:
    """Let the engines take their rows, starting from this state."""

    plan: BatchPlan
    runs: Mapping[str, tuple[StateRun, ...]]
    segments: Mapping[str, SegmentFile]


@dataclass(frozen=True, slots=True)
class MergeParts:
    """Merge the parts of spread keys; `run` is the instruction by which the engines ran."""

    run: RunEngines
    reports: Sequence[EngineReport]
    watermark_us: int | None


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give the rows of an output to its sinks. `may_repeat`: sinks may have got some or all of them before."""

    name: str
    plan: BatchPlan
    outputs: tuple[Output, ...]
    may_repeat: bool


@dataclass(frozen=True, slots=True)
class CollectMerges:
    """Report which merges of the state are complete; `known` is the last version of the state."""

    known: Manifest | None


@dataclass(frozen=True, slots=True)
class Commit:
    """Write the manifest to disk, which makes the batch final."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete these files. Manifests are deleted before the segments that only they name."""

    manifests: tuple[int, ...] = ()
    plans: tuple[int, ...] = ()
    segments: tuple[str, ...] = ()
    outbox: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanMerges:
    """Begin the merges that are due in this version's state, in the background."""

    manifest: Manifest


Instruction = WritePlan | RunEngines | MergeParts | HandOver | CollectMerges | Commit | Delete | PlanMerges
