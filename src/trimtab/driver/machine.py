"""One stream's batches as a state machine: what happened goes in, what to do comes out. No Spark, no files, no clock.

    BatchArrived     -> RunEngines
    EnginesReported  -> MergeParts                if keys are spread over engines
    PartsMerged      -> WritePlan                 unless the batch is repeated: then its plan is on disk already
    PlanWritten      -> HandOver ...              one for each output; the first effect that is visible outside
    HandedOver (all) -> CollectMerges
    MergesCollected  -> Commit                    the manifest, which makes the batch final
    Committed        -> Delete, PlanMerges

A shell (on Spark: `spark/pipeline.py`; in tests: a bottle) carries the instructions out. It may die between any two of
these steps; the next start builds a driver from the files, which goes on without a visible difference outside. A batch
that fails in the engines leaves no plan, so the user may fix the query and start again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.deciding.placement import Placement, Spread
from trimtab.driver import happenings
from trimtab.driver.batch_plan import BatchPlan, Setup
from trimtab.driver.next_version import Identity, next_version, runs_before
from trimtab.engine.columns.watermark import BatchTime, Silence, StreamTime
from trimtab.errors import JobError, StateError
from trimtab.state.manifest import Manifest
from trimtab.state.sweep import KEEP
from trimtab.worker.orders import LATE, QUARANTINE, EngineReport, Head

VALIDATES = "TRIMTAB_VALIDATE" in os.environ
"""Whether a driver checks itself after every step, as in all tests, processes that they start included."""


@dataclass
class _UnderWay:
    """A batch between its beginning and its commit."""

    run: happenings.RunEngines
    is_repeated: bool
    is_plan_written: bool
    reports: tuple[EngineReport, ...] = ()
    head: Head | None = None  # None: engines are still running
    not_taken: set[str] | None = None  # outputs that sinks have still to take; None: nothing was handed over yet
    manifest: Manifest | None = None  # being written

    @property
    def plan(self) -> BatchPlan:
        return self.run.plan


class Driver:
    """Decides what happens to one stream's batches.

    Args:
        identity: The job and stream that the batches belong to.
        known: The last committed version.
        unfinished: The plan of the batch after it, if that was begun before the job last ended.
        kept: The versions whose files are kept, oldest first; `known` is the last of them.
    """

    def __init__(
        self,
        identity: Identity,
        known: Manifest | None = None,
        unfinished: BatchPlan | None = None,
        kept: Iterable[Manifest] = (),
    ) -> None:
        self.identity, self.known, self.unfinished = identity, known, unfinished
        self._kept = {each.batch: each for each in kept}
        if known is not None:
            self._kept[known.batch] = known
        self._under_way: _UnderWay | None = None

    # Where it stands ---------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """The number of the batch that is under way, or else of the next one."""
        return 0 if self.known is None else self.known.batch + 1

    @property
    def next_of_spark(self) -> int:
        """The number of the Spark batch whose rows come next."""
        last = None if self.known is None else self.known.spark_batch
        return 0 if last is None else last + 1

    @property
    def is_of_spark(self) -> bool:
        """Whether Spark may go on with its log: not if trimtab itself has read the stream since."""
        if self.unfinished is not None and self.unfinished.spark_batch is not None:
            return True
        return self.known is None or not self.known.reads_itself

    def positions(self, source: str) -> Mapping[str, int]:
        """The position at which each partition of this source is read on; none if another one was read so far."""
        return {} if self.known is None or not self.known.is_of(source) else self.known.positions

    @property
    def placement(self) -> Placement | None:
        """Where key groups were in the last committed batch."""
        if self.known is None:
            return None
        spread = tuple(Spread(slot, engines) for slot, engines in self.known.spread)
        return Placement(self.known.engines, self.known.placement, spread)

    def is_due(self, silence: Silence, setup: Setup) -> bool:
        """Whether something is due now, without further rows, because partitions are silent."""
        known = self.known
        if known is None or known.closed or self._under_way is not None or known.next_due_us is None:
            return False
        after = StreamTime(known.watermark_us, _newest_before(known, setup, None)).after({}, setup.rule, silence)
        return after.watermark_us is not None and after.watermark_us >= known.next_due_us

    # Steps -------------------------------------------------------------------------------------

    def handle(self, happened: happenings.Happening) -> tuple[happenings.Instruction, ...]:
        """What to do next, in this order.

        Raises StateError `state.missing-version` if Spark's next batch doesn't follow the last one in the state.
        """
        to_do = self._handle(happened)
        if VALIDATES:
            self.validate()
        return to_do

    def _handle(self, happened: happenings.Happening) -> tuple[happenings.Instruction, ...]:
        if isinstance(happened, happenings.BatchArrived):
            return self._begin(happened)
        batch = self._under_way
        assert batch is not None, "only a new batch may come while none is under way"
        match happened:
            case happenings.PlanWritten():
                batch.is_plan_written = True
                return self._hand_over(batch)
            case happenings.EnginesReported(reports, head):
                self._check_complete(batch, reports)
                batch.reports, batch.head = tuple(reports), head
                if batch.plan.placement.spread:
                    watermark_us = batch.plan.time.after(head.newest_us).watermark_us
                    return (happenings.MergeParts(batch.run, batch.reports, watermark_us),)
                return self._plan_or_hand_over(batch)
            case happenings.PartsMerged(reports):
                batch.reports += tuple(reports)
                return self._plan_or_hand_over(batch)
            case happenings.HandedOver(name):
                assert batch.not_taken is not None
                batch.not_taken.remove(name)
                return () if batch.not_taken else (happenings.CollectMerges(self.known),)
            case happenings.MergesCollected(merged):
                assert batch.head is not None
                batch.manifest = next_version(self.identity, self.known, batch.plan, batch.reports, batch.head, merged)
                return (happenings.Commit(batch.manifest),)
            case happenings.Committed():
                return self._committed(batch)

    def _begin(self, arrived: happenings.BatchArrived) -> tuple[happenings.Instruction, ...]:
        assert self._under_way is None, "one batch at a time"
        if arrived.spark_batch is not None and arrived.spark_batch < self.next_of_spark:
            return ()  # committed already; the job ended before Spark recorded that
        plan = self._plan(arrived)
        segments = {} if self.known is None else self.known.segments
        run = happenings.RunEngines(plan, runs_before(self.known, plan), segments)
        is_repeated = plan is self.unfinished
        self._under_way = _UnderWay(run, is_repeated, is_plan_written=is_repeated)
        return (run,)

    def _plan(self, arrived: happenings.BatchArrived) -> BatchPlan:
        if arrived.spark_batch is not None and arrived.spark_batch != self.next_of_spark:
            raise out_of_step(
                f"Spark goes on with batch {arrived.spark_batch} of stream {self.identity.stream}, "
                f"but the state ends before {self.next_of_spark}"
            )
        if self.unfinished is not None:
            plan = self.unfinished
            if (plan.spark_batch, plan.closing) != (arrived.spark_batch, arrived.closing):
                raise out_of_step(
                    f"batch {plan.number} of stream {self.identity.stream} was begun with {_rows_of(plan)}, "
                    "and other rows come"
                )
            return plan
        return self.new_plan(arrived)

    def new_plan(self, arrived: happenings.BatchArrived) -> BatchPlan:
        """The plan of the batch after the last committed one."""
        known, setup = self.known, arrived.setup
        reads_itself = None if arrived.spark_batch is None and not arrived.ranges else bool(arrived.ranges)
        before = StreamTime()
        if known is not None:
            before = StreamTime(known.watermark_us, _newest_before(known, setup, reads_itself))
        latest_us = None if setup.max_ahead_us is None else int(arrived.clock_s * 1e6) + setup.max_ahead_us
        reported_us = None if known is None else known.previous_watermark_us
        return BatchPlan(
            incarnation=self.identity.incarnation,
            number=self.next_number,
            spark_batch=arrived.spark_batch,
            closing=arrived.closing,
            clock_s=arrived.clock_s,
            time=BatchTime(setup.rule, before, arrived.silence, reported_us, latest_us, setup.max_ahead_us),
            placement=arrived.placement,
            setup=setup,
            ranges=arrived.ranges,
        )

    def _check_complete(self, batch: _UnderWay, reports: Sequence[EngineReport]) -> None:
        engines = batch.plan.placement.engines
        if [report.engine for report in reports] != list(range(engines)):
            message = f"{len(reports)} of {engines} engines reported in batch {batch.plan.number}"
            raise JobError("job.engines", message, "this is a mistake in trimtab: please report it")

    def _plan_or_hand_over(self, batch: _UnderWay) -> tuple[happenings.Instruction, ...]:
        return self._hand_over(batch) if batch.is_plan_written else (happenings.WritePlan(batch.plan),)

    def _hand_over(self, batch: _UnderWay) -> tuple[happenings.Instruction, ...]:
        """The first effects outside: all reports are there, and the plan is on disk."""
        found = []
        for name in (*batch.plan.setup.queries, LATE, QUARANTINE):
            outputs = tuple(report.outputs[name] for report in batch.reports if name in report.outputs)
            # Repeated, also without rows: the first try may have handed over rows that the sinks must now drop.
            if outputs or batch.is_repeated:
                found.append(happenings.HandOver(name, batch.plan, outputs, batch.is_repeated))
        batch.not_taken = {each.name for each in found}
        return tuple(found) if found else (happenings.CollectMerges(self.known),)

    def _committed(self, batch: _UnderWay) -> tuple[happenings.Instruction, ...]:
        now = batch.manifest
        assert now is not None
        outbox = tuple(output.file for report in batch.reports for output in report.outputs.values() if output.file)
        # The plan stays until the next commit, because a copy of the checkpoint may be one version older.
        old = sorted(number for number in self._kept if number <= now.batch - KEEP)
        gone = [self._kept.pop(number) for number in old]
        self._kept[now.batch] = now
        named = {name for each in self._kept.values() for name in each.segments}
        dropped = {name for each in gone for name in each.segments if name not in named}
        self.known, self.unfinished, self._under_way = now, None, None
        delete = happenings.Delete(
            manifests=tuple(each.batch for each in gone),
            plans=(now.batch - 1,) if now.batch else (),
            segments=tuple(sorted(dropped)),
            outbox=outbox,
        )
        return (delete, happenings.PlanMerges(now))

    # Invariants --------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise AssertionError if an invariant is broken; for tests, after every step."""
        for manifest in self._kept.values():
            named = {run.segment for query in manifest.queries.values() for run in query.runs}
            assert named == set(manifest.segments), "a version names exactly the files that it needs"
            assert manifest.incarnation == self.identity.incarnation
        if self.known is not None:
            assert self._kept[self.known.batch] is self.known
            assert len(self.known.placement) == self.identity.key_groups
        assert len(self._kept) <= KEEP
        if self.unfinished is not None:
            assert self.unfinished.number == self.next_number
        if self._under_way is not None:
            self._validate_batch(self._under_way)

    def _validate_batch(self, batch: _UnderWay) -> None:
        plan, known = batch.plan, self.known
        assert plan.number == self.next_number
        assert plan.time.before.watermark_us == (None if known is None else known.watermark_us)
        assert plan.placement.engines > max(plan.placement.owner), "every key group has an engine"
        assert len(plan.placement.owner) == self.identity.key_groups
        assert all(max(each.engines) < plan.placement.engines for each in plan.placement.spread)
        assert batch.is_repeated == (plan is self.unfinished)
        assert len({each.partition for each in plan.ranges}) == len(plan.ranges), "one range of each partition"
        assert all(each.start <= each.end for each in plan.ranges)
        positions = self.positions(plan.setup.source)
        read = [each for each in plan.ranges if each.partition in positions]
        assert all(each.start >= positions[each.partition] for each in read), "no row is read twice"
        if batch.not_taken is not None:
            assert batch.is_plan_written, "a batch has no effect outside before its plan is on disk"
            assert batch.head is not None
        if batch.manifest is not None:
            before_us, after_us = plan.time.before.watermark_us, batch.manifest.watermark_us
            assert before_us is None or (after_us is not None and before_us <= after_us), "the watermark never falls"
            assert not batch.not_taken, "a batch is not committed before all sinks have taken its rows"


def _newest_before(known: Manifest, setup: Setup, reads_itself: bool | None) -> Mapping[str, int]:
    """The newest time of each partition before a batch; `reads_itself` as of `BatchPlan`.

    Partitions that a source no longer names would hold the watermark back for ever, so they are forgotten; the
    watermark itself stays. The same goes for all of a stream that is read otherwise than before.
    """
    if not known.is_of(setup.source):
        return {}  # a partition of the same name is another one
    if setup.source or (reads_itself is not None and known.reads_itself not in (None, reads_itself)):
        return {name: at_us for name, at_us in known.newest_us.items() if name in setup.rule.partitions}
    return known.newest_us


def out_of_step(message: str) -> StateError:
    """The error for a Spark log and a state that don't belong together."""
    hint = "the checkpoint's `spark` and `streams` folders don't belong together: restore both from the same time"
    return StateError("state.missing-version", message, hint)


def _rows_of(plan: BatchPlan) -> str:
    if plan.spark_batch is not None:
        return f"the rows of Spark's batch {plan.spark_batch}"
    if plan.ranges:
        return f"ranges of {len(plan.ranges)} partitions"
    return "the end of the input" if plan.closing else "no rows, because time had passed"
