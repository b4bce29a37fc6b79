"""Carries out a driver's instructions that concern files; a subclass provides the engines and sinks.

The instructions of `happenings` are carried out one after another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.driver import happenings
from trimtab.driver.batch_plan import Setup, read_plan, write_plan
from trimtab.driver.machine import Driver
from trimtab.driver.next_version import Identity
from trimtab.driver.partials import Merger
from trimtab.machine_code.shelf import Offer
from trimtab.state import manifest as manifests
from trimtab.state.checkpoint import StreamFolders
from trimtab.state.manifest import Manifest, manifest_name
from trimtab.state.merging import Merged
from trimtab.state.sweep import KEEP
from trimtab.worker.orders import EnginePlan, EngineReport, Head, Orders


def resumed(folders: StreamFolders, identity: Identity, known: Manifest | None) -> Driver:
    """The driver that goes on from the files in these folders; changes none of them."""
    unfinished = read_plan(folders.plans, 0 if known is None else known.batch + 1, identity.incarnation)
    numbers = manifests.batches(folders.manifests)[-KEEP:]
    return Driver(identity, known, unfinished, [manifests.read(folders.manifests, batch) for batch in numbers])


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """The queries of a setup, ready to run: the plan for the engines, and the merger of spread keys' parts."""

    setup: Setup
    plan: EnginePlan
    packed: bytes  # the plan, pickled
    plan_id: str
    merger: Merger


class Shell(ABC):
    """Runs the batches of one stream; see `machine` for the order of the steps.

    `epoch` is that of the job as the owner of its checkpoint.
    """

    epoch = 0

    def __init__(self, folders: StreamFolders, driver: Driver) -> None:
        self.folders, self.driver = folders, driver
        self._ready: Ready | None = None

    def run_batch(self, arrived: happenings.BatchArrived) -> None:
        """Run a whole batch. If it raises, the batch is not committed and has to be repeated."""
        to_do = deque(self.driver.handle(arrived))
        while to_do:
            outputs: list[happenings.HandOver] = []
            while to_do and isinstance(following := to_do[0], happenings.HandOver):
                outputs.append(following)
                to_do.popleft()
            if outputs:
                self.hand_over(outputs)
                for each in outputs:
                    to_do.extend(self.driver.handle(happenings.HandedOver(each.name)))
            elif (happened := self.perform(to_do.popleft())) is not None:
                to_do.extend(self.driver.handle(happened))

    def perform(self, instruction: happenings.Instruction) -> happenings.Happening | None:
        """Carry out one instruction, and return what happened."""
        match instruction:
            case happenings.WritePlan(plan):
                write_plan(self.folders.plans, plan)
                self.before_commit()  # a successor that doesn't know this plan must not see the batch twice
                return happenings.PlanWritten()
            case happenings.RunEngines(plan):
                reports, head = self.run_engines(self.ready(plan.setup), self.orders(instruction))
                return happenings.EnginesReported(reports, head)
            case happenings.MergeParts(run, reports, watermark_us):
                merger = self.ready(run.plan.setup).merger
                return happenings.PartsMerged(merger.merge(self.orders(run), reports, watermark_us))
            case happenings.HandOver():
                raise AssertionError("outputs are handed over together")
            case happenings.CollectMerges(known):
                return happenings.MergesCollected(self.collect_merges(known))
            case happenings.Commit(manifest):
                self.before_commit()
                manifests.write(self.folders.manifests, manifest, epoch=self.epoch)
                return happenings.Committed()
            case happenings.Delete():
                self._delete(instruction)
                return None
            case happenings.PlanMerges(manifest):
                self.plan_merges(manifest)
                return None

    def ready(self, setup: Setup) -> Ready:
        """The queries of a setup, ready to run; cached until a batch has another setup."""
        if self._ready is None or not self._ready.setup.runs_like(setup):
            self._ready = self.make_ready(setup)
        return self._ready

    def orders(self, run: happenings.RunEngines) -> Orders:
        """The orders to the engines of a batch."""
        plan, ready, placement = run.plan, self.ready(run.plan.setup), run.plan.placement
        return Orders(
            plan=ready.packed,
            plan_id=ready.plan_id,
            batch=plan.number,
            engines=placement.engines,
            owner=placement.array(),
            time=plan.time,
            runs=run.runs,
            segments=run.segments,
            folder=self.folders.segments,
            outbox=self.folders.outbox,
            closing=plan.closing,
            incarnation=plan.incarnation,
            epoch=self.epoch,
            machine_code=self.machine_code(),
            spread=placement.spread_slots(),
            shares=placement.share_table(),
            ranges=plan.ranges,
        )

    def _delete(self, gone: happenings.Delete) -> None:
        for number in gone.manifests:
            self.folders.manifests.delete(manifest_name(number))
        for number in gone.plans:
            self.folders.plans.delete(manifest_name(number))
        for name in gone.segments:
            self.folders.segments.delete(name)
        for name in gone.outbox:
            self.folders.outbox.delete(name)

    # For subclasses ----------------------------------------------------------------------------

    @abstractmethod
    def make_ready(self, setup: Setup) -> Ready:
        """Compile the queries of a setup."""

    @abstractmethod
    def run_engines(self, ready: Ready, orders: Orders) -> tuple[Sequence[EngineReport], Head]:
        """Let every engine take its rows of the batch; gives the reports in order, and the head of all rows."""

    @abstractmethod
    def hand_over(self, outputs: Sequence[happenings.HandOver]) -> None:
        """Give rows to their sinks, one output after another or side by side."""

    def machine_code(self) -> Offer:
        """The machine code that engines may run; without it they run plain Python."""
        return Offer()

    @abstractmethod
    def collect_merges(self, known: Manifest | None) -> Sequence[Merged]:
        """The merges that are complete; `known` is the last version."""

    @abstractmethod
    def plan_merges(self, manifest: Manifest) -> None:
        """Begin the merges that are due."""

    @abstractmethod
    def before_commit(self) -> None:
        """Raise if this job no longer holds the checkpoint's lock."""
