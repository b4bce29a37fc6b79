"""One stream's batches: from Spark's micro-batch to a committed manifest.

    plan      tier 1, the splitter and the orders to the engines
    engines   one Spark job: rows to their engines, one report from each
    sinks     matches of all engines in event-time order, handed over
    commit    the manifest, which makes all of it count

Everything before the commit can happen again, and does after a crash: with the same placement, because a changed one
is written down before the sinks are handed anything.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession

from trimtab.deciding.balancer import Balancer
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.observation import observe
from trimtab.deciding.placement import Placement, Spread
from trimtab.deciding.policy import Balance, Scale
from trimtab.driver.machine_code import StreamMachineCode
from trimtab.driver.partials import Merger
from trimtab.driver.progress import BatchProgress, EngineProgress
from trimtab.engine.columns.watermark import raised
from trimtab.errors import JobError, StateError
from trimtab.machine_code.compiler import shared_compiler
from trimtab.machine_code.policy import Missing, if_missing
from trimtab.spark import lost_workers
from trimtab.spark.compactor import Compactor
from trimtab.spark.intake import Intake, Ran, Routed
from trimtab.spark.settings import copy_for_jobs, on_session, set_for_jobs
from trimtab.spark.sinks import Delivery, Sink, combine
from trimtab.spark.where.pinning import Homes
from trimtab.spark.where.settling import Demand, Settler
from trimtab.state import manifest as manifests
from trimtab.state.checkpoint import Checkpoint, safe_name
from trimtab.state.files import storage_errors
from trimtab.state.lock import CheckpointLock
from trimtab.state.manifest import Manifest, QueryState, Run
from trimtab.state.merging import Merged, take_up
from trimtab.state.sweep import KEEP, sweep
from trimtab.worker.engine import run_engine
from trimtab.worker.orders import LATE, QUARANTINE, EnginePlan, EngineReport, Orders

Change = Callable[[Placement], Placement]


class StoppingError(Exception):
    """A batch was not begun because the job is being stopped; Spark repeats it at the next start."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What a pipeline needs to know of its stream."""

    name: str
    plan: EnginePlan
    fingerprints: Mapping[str, str]
    sinks: Mapping[str, Sequence[Sink]]  # by query; also LATE and QUARANTINE
    engines: int | None  # None: as many as the checkpoint has
    split: str | None = None  # how hot keys of its split queries are spread; None: it has no such queries
    balance: Balance | None = None
    scale: Scale | None = None
    interval_s: float = 1.0  # how long a batch should take
    warm: bool = True  # whether machine code is made before engines miss it


class Pipeline:
    """Runs the batches of one stream; `take_batch` is what Spark calls."""

    def __init__(
        self,
        spark: SparkSession,
        spec: StreamSpec,
        intake: Callable[[], Intake],
        checkpoint: Checkpoint,
        manifest: Manifest | None,
        lock: CheckpointLock,
        on_progress: Callable[[BatchProgress], None],
        demand: Demand | None = None,
    ) -> None:
        self.spec, self._make_intake, self._checkpoint, self._lock = spec, intake, checkpoint, lock
        self._on_progress = on_progress
        self._folders = checkpoint.stream(spec.name)
        self._folders.make()
        self._incarnation = self._folders.incarnation()
        home = self._folders.home
        self._placements, self._outbox = home.child("placements"), home.child("outbox")
        self._placements.make()
        self._outbox.make()
        self._empty_outbox(self._outbox.names())  # what a crash left: its batch is done again
        self._turn = threading.Lock()  # held while a batch runs
        self._batch_thread: int | None = None
        self._changes: list[Change] = []
        self._changes_lock = threading.Lock()
        self._dropped: dict[int, set[str]] = {}  # files that a commit ceased to name, by its batch
        self._is_first = True
        self.stopping = False
        self.error: BaseException | None = None
        self.manifest = manifest  # the last committed one
        self._first = 0 if self.manifest is None else self.manifest.batch + 1
        self._repeated = self._begun_before()
        self._settle_queries()
        self._kept = self._kept_placement()
        self._latest = self._kept or self.placement  # of the batch under way, or the last one
        self._compactor = Compactor(spark, self._folders.segments, self._incarnation)
        self.homes = Homes(spark, spec.name)
        self._send = spark.sparkContext.broadcast
        self._balancer: Balancer | None = None
        if spec.balance is not None or spec.scale is not None:
            coordinator = Coordinator(spec.balance, spec.scale, split=spec.split, interval_s=spec.interval_s)
            self._balancer = Balancer(coordinator, home.child("decisions"), shared_compiler("planners"))
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="trimtab-placement")
        self._written: Future[None] | None = None
        self._settler = Settler(self.homes, demand or Demand(), spec.name, is_elastic=spec.scale is not None)
        self._ended = 0.0  # when the last batch did; 0: there was none

    # Starting ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """What takes Spark or a disk longer than a start may: needed before the first batch, and called once.

        Raises StateError for damaged files of the state, before anything is changed, and QueryError `query.spark`.
        """
        self._verify()
        self._sweep_leftovers()
        self._intake = self._make_intake()
        self.spec = replace(self.spec, plan=replace(self.spec.plan, schema=self._intake.schema))
        self._packed: bytes = cloudpickle.dumps(self.spec.plan)  # type: ignore[no-untyped-call]
        self._plan_id = hashlib.sha256(self._packed).hexdigest()
        self._merger = Merger(self.spec.plan)
        compiler = shared_compiler("engines")
        self._machine_code = StreamMachineCode(compiler, self._packed, self._send, warm=self.spec.warm)

    def _settle_queries(self) -> None:
        """Meet the checkpoint: fresh state for added queries, none for removed ones."""
        groups = self.spec.plan.key_groups
        if self.manifest is None:
            self.placement = Placement.even(self.spec.engines or 2, groups)
            return
        spread = tuple(Spread(slot, engines) for slot, engines in self.manifest.spread) if self._splits else ()
        placement = Placement(self.manifest.engines, self.manifest.placement, spread)
        self.placement = placement
        if self.spec.engines is not None and self.spec.engines != placement.engines:
            self.change(lambda now: now.resized(self.spec.engines or now.engines))

    @property
    def _splits(self) -> bool:
        """Whether keys may be spread: a query that was split before may not be any more."""
        return bool(self.spec.plan.intake.split_readings)

    def _sweep_leftovers(self) -> None:
        """Delete what a crash left, and note what goes with the versions that are still kept."""
        sweep(self._folders, at_start=True)
        kept = [manifests.read(self._folders.manifests, batch) for batch in manifests.batches(self._folders.manifests)]
        for earlier, now in itertools.pairwise(kept):
            self._dropped[now.batch] = set(earlier.segments) - set(now.segments)

    def _begun_before(self) -> int | None:
        """The batch that was begun but not committed when the job last ended, if there is one: it comes again."""
        logs = self._checkpoint.folder.child("spark").child(safe_name(self.spec.name)).child("offsets")
        known = self.manifest
        last = self._spark_batch
        if last is not None and known is not None and not known.closed and not logs.exists(str(last)):
            # Spark would begin anew, and its first batches would be taken for those that are committed already.
            raise _out_of_step(
                f"the state of stream {self.spec.name} ends with Spark's batch {last}, which {logs.shown} lacks"
            )
        return self._first if logs.exists(str(self._next_of_spark)) else None

    @property
    def _spark_batch(self) -> int | None:
        """The last batch of Spark's that is committed."""
        return None if self.manifest is None else self.manifest.spark_batch

    @property
    def _next_of_spark(self) -> int:
        return 0 if self._spark_batch is None else self._spark_batch + 1

    def _verify(self) -> None:
        """Check every live file against its checksum, before anything is built on it."""
        from trimtab.state.local_copies import check_content

        if self.manifest is None or not self._folders.segments.is_local:
            return  # copies of remote files are checked when they are fetched
        for file in self.manifest.segments.values():
            if self.stopping:
                return
            shown = self._folders.segments.shown_path(file.name)
            with storage_errors(shown):
                check_content(self._folders.segments.path_of(file.name), file, shown)

    # Changing under way ------------------------------------------------------------------------

    def change(self, change: Change) -> None:
        """Have the placement changed at the next batch."""
        with self._changes_lock:
            self._changes.append(change)

    def expected(self) -> Placement:
        """The placement that the next batch will have, as things stand."""
        with self._changes_lock:
            placement = self._latest
            for each in self._changes:
                placement = each(placement)
            return placement

    def _kept_placement(self) -> Placement | None:
        """Of the batch that comes again: the placement of its first try."""
        if self._repeated is None:
            return None
        name = f"{self._repeated:012d}.json"
        if self._placements.exists(name):
            kept = Placement.from_json(json.loads(self._placements.read(name)))
            return kept if self._splits else replace(kept, spread=())
        return None if self.manifest is None else self.placement

    def _placement_for(self, batch: int) -> Placement:
        """The placement of a batch; a change is on disk before its sinks begin, where a repeated one finds it."""
        if batch == self._repeated and self._kept is not None:
            return self._kept  # changes wait for the next one
        with self._changes_lock:
            for each in self._changes:
                self._latest = each(self._latest)
            self._changes = []
            if self._balancer is not None:
                self._latest = self._settler.settled(self._latest, self._balancer.changed)
            placement = self._latest
        if placement != self.placement or self.manifest is None:
            kept = json.dumps(placement.as_json()).encode()
            self._written = self._writer.submit(self._placements.write, f"{batch:012d}.json", kept)
        return placement

    def _await_placement(self) -> None:
        """Go on when the batch's placement is on disk. Until a sink has seen something, nobody minds where it was."""
        if self._written is not None:
            self._written.result()
            self._written = None

    # A batch -----------------------------------------------------------------------------------

    def take_batch(self, frame: DataFrame, spark_batch: int) -> None:
        """Everything that happens to a micro-batch; raises if it can't be done, and then nothing of it counts."""
        with self._turn:
            if self.stopping:
                raise StoppingError
            self._batch_thread = threading.get_ident()
            if spark_batch < self._next_of_spark:
                return  # committed already; Spark had not got to writing that down
            try:
                if self._is_first:  # the session is Spark's own copy for this stream, and stays the same
                    set_for_jobs(frame.sparkSession._jsparkSession)
                    self._is_first = False
                self._check_sequence(spark_batch)
                with if_missing(Missing.PLAIN):
                    self._run(frame, spark_batch)
            except BaseException as error:
                self.error = error
                raise
            finally:
                self._batch_thread = None

    def close(self, spark: SparkSession, schema: Any) -> None:
        """The input ends: one more batch, without rows, in which everything open is decided."""
        with self._turn, if_missing(Missing.PLAIN):
            self._run(on_session(_no_rows(spark, schema), copy_for_jobs(spark)), None)

    @property
    def is_in_my_batch(self) -> bool:
        """Whether who asks is called by the batch under way, and must not wait for its end."""
        return self._batch_thread == threading.get_ident()

    def wait_until_idle(self) -> None:
        """Return once no batch is under way."""
        with self._turn:
            pass

    def stop(self) -> None:
        """Give back what the pipeline holds."""
        self._compactor.stop()
        self._writer.shutdown()
        if self._balancer is not None:
            self._balancer.stop()

    def _check_sequence(self, spark_batch: int) -> None:
        expected = self._next_of_spark
        if spark_batch != expected:
            stream = self.spec.name
            raise _out_of_step(
                f"Spark goes on with batch {spark_batch} of stream {stream}, but the state ends before {expected}"
            )

    def _run(self, frame: DataFrame, spark_batch: int | None) -> None:
        """Run a batch of Spark's, or (None) the one with which the input ends."""
        began = time.perf_counter()
        batch = 0 if self.manifest is None else self.manifest.batch + 1
        closing = spark_batch is None
        before = self.placement
        placement = self._placement_for(batch)
        decision = None if self._balancer is None else self._balancer.latest
        orders = self._orders(batch, placement, closing)
        routed = self._intake.apply(frame, placement)
        planned = time.perf_counter()
        reports, observed = self._engines(frame, placement, routed, orders)
        if not reports:
            # Spark saw that the batch is empty and ran nothing; the engines have their turn all the same.
            frame = _no_rows(frame.sparkSession, frame.schema)
            routed = self._intake.apply(frame, placement)
            reports, observed = self._engines(frame, placement, routed, orders)
        _check_complete(reports, orders)
        seen = _seen(reports, observed)
        told = [*reports, *self._merger.merge(orders, reports, seen.newest_us)]
        done = time.perf_counter()
        # Its first batch may have been tried before the job was started, also if Spark doesn't know: as the end of the
        # input, which is no batch of Spark's, and was not committed.
        may_repeat = closing or batch == self._first
        self._await_placement()
        matches = self._deliver(told, batch, frame.sparkSession, may_repeat=may_repeat)
        delivered = time.perf_counter()
        merged = self._compactor.finished(self.manifest)
        manifest = self._next_manifest(batch, spark_batch, placement, told, seen, matches, merged)
        self._lock.check()
        manifests.write(self._folders.manifests, manifest)
        earlier, self.manifest, self.placement = self.manifest, manifest, placement
        self._tidy_up(earlier, manifest)
        self._empty_outbox([output.file for report in reports for output in report.outputs.values() if output.file])
        self._compactor.consider(manifest)
        self._settler.ran_on(placement.engines)
        self._machine_code.take_reports(reports)
        committed = time.perf_counter()
        stages = {
            "plan": planned - began,
            "engines": done - planned,
            "sinks": delivered - done,
            "commit": committed - delivered,
        }
        moved = placement.moves_from(before)
        progress = _progress(self.spec.name, manifest, reports, matches, stages, moved, seen.events)
        self._on_progress(replace(progress, decision=decision))
        if self._balancer is not None and not closing:
            span_s = committed - (self._ended or began)
            self._balancer.saw(observe(batch, span_s, committed - began, placement, reports))
        self._ended = committed

    def _orders(self, batch: int, placement: Placement, closing: bool) -> Orders:
        known = self.manifest
        queries = {} if known is None else known.queries
        return Orders(
            plan=self._packed,
            plan_id=self._plan_id,
            batch=batch,
            engines=placement.engines,
            owner=placement.array().tobytes(),
            watermark_us=None if known is None else known.watermark_us,
            previous_watermark_us=None if known is None else known.previous_watermark_us,
            runs={name: queries[name].runs for name in self._kept_queries(known)},
            segments={} if known is None else known.segments,
            folder=self._folders.segments,
            outbox=self._outbox,
            closing=closing,
            incarnation=self._incarnation,
            machine_code=self._machine_code.offer(),
            spread=placement.spread_slots().tobytes() if self._splits else b"",
        )

    def _engines(
        self, frame: DataFrame, placement: Placement, routed: Routed, orders: Orders
    ) -> tuple[list[EngineReport], Mapping[str, Any] | None]:
        """The one Spark job of the batch; a lost worker or executor costs a retry."""
        tries = [routed]

        def engine(batches: Any) -> Any:
            context = TaskContext.get()
            assert context is not None
            return run_engine(orders, context.partitionId(), batches)

        def pinned(job: DataFrame) -> DataFrame:
            return self.homes.pinned(job, placement.engines)

        def work() -> Ran:
            # What was observed adds up over the jobs of a plan, and one may have failed half way: a retry has its own.
            mine = tries.pop() if tries else self._intake.apply(frame, placement)
            return self._intake.run(mine, engine, pinned)

        ran = lost_workers.retried(work)
        reports: list[EngineReport] = sorted(
            (pickle.loads(each.as_py()) for each in ran.reports.column("report")), key=lambda r: r.engine
        )
        for report in reports:
            if report.error is not None:
                raise report.error
        return reports, ran.observed

    def _deliver(
        self, reports: Sequence[EngineReport], batch: int, spark: SparkSession, *, may_repeat: bool
    ) -> dict[str, int]:
        """Hand every output to its sinks; how many rows each query gave."""
        counts: dict[str, int] = {}
        for name in (*self.spec.plan.queries, LATE, QUARANTINE):
            outputs = [report.outputs[name] for report in reports if name in report.outputs]
            if name in self.spec.plan.queries:
                counts[name] = sum(output.rows for output in outputs)
            sinks = self.spec.sinks.get(name, ())
            if not sinks or (not outputs and not may_repeat):
                continue
            table, files = combine(outputs)
            shown = name if name in self.spec.plan.queries else f"{self.spec.name}{name.replace('__', '-')}"
            delivery = Delivery(shown, self._incarnation, batch, table, files, self._outbox, spark)
            for sink in sinks:
                sink.take(replace(delivery, is_last=sink is sinks[-1]), may_repeat=may_repeat)
        return counts

    # The commit --------------------------------------------------------------------------------

    def _kept_queries(self, known: Manifest | None) -> list[str]:
        """Queries whose state goes on: those that the checkpoint has, unchanged."""
        if known is None:
            return []
        prints = self.spec.fingerprints
        return [name for name, query in known.queries.items() if prints.get(name) == query.fingerprint]

    def _next_manifest(
        self,
        batch: int,
        spark_batch: int | None,
        placement: Placement,
        reports: Sequence[EngineReport],
        seen: Seen,
        matches: Mapping[str, int],
        merged: Sequence[Merged],
    ) -> Manifest:
        known, closing = self.manifest, spark_batch is None
        kept = self._kept_queries(known)
        queries = {}
        for name, fingerprint in self.spec.fingerprints.items():
            before = known.queries[name].runs if known is not None and name in kept else ()
            runs = () if closing else (*self._new_runs(name, batch, reports), *before)
            queries[name] = QueryState(fingerprint=fingerprint, runs=runs, sql=self.spec.plan.queries[name].sql)
        if not closing:
            queries, files = take_up(queries, merged)
        else:
            files = []
        segments = {} if known is None else dict(known.segments)
        segments |= {report.segment.name: report.segment for report in reports if report.segment is not None}
        segments |= {file.name: file for file in files}
        named = {run.segment for query in queries.values() for run in query.runs}
        before_us = None if known is None else known.watermark_us
        return Manifest(
            job=self._checkpoint.job,
            stream=self.spec.name,
            incarnation=self._incarnation,
            batch=batch,
            spark_batch=self._spark_batch if closing else spark_batch,
            key_groups=self.spec.plan.key_groups,
            engines=placement.engines,
            placement=placement.owner,
            watermark_us=raised(before_us, seen.newest_us, self.spec.plan.delay_us),
            previous_watermark_us=before_us,
            queries=queries,
            segments={name: file for name, file in segments.items() if name in named},
            events=(known.events if known else 0) + seen.events,
            late=(known.late if known else 0) + sum(r.late for r in reports),
            quarantined=(known.quarantined if known else 0) + sum(r.quarantined for r in reports),
            matches={n: (known.matches.get(n, 0) if known and n in kept else 0) + matches.get(n, 0) for n in queries},
            closed=closing,
            written_at_s=time.time(),
            spread=tuple((each.slot, each.engines) for each in placement.spread),
        )

    def _new_runs(self, query: str, batch: int, reports: Sequence[EngineReport]) -> list[Run]:
        return [
            Run(
                segment=report.segment.name,
                part=query,
                sequence=batch,
                is_base=False,
                first_group=0,
                behind_group=self.spec.plan.key_groups,
                slots=report.parts[query].slots,
                keys=report.parts[query].keys,
                size_bytes=report.parts[query].size_bytes,
            )
            for report in reports
            if report.segment is not None and query in report.parts
        ]

    def _tidy_up(self, earlier: Manifest | None, now: Manifest) -> None:
        """Delete the version that is old enough, then the files that only it and older ones named."""
        if earlier is None:
            return
        self._dropped[now.batch] = set(earlier.segments) - set(now.segments)
        old = now.batch - KEEP
        if old >= 0:
            self._folders.manifests.delete(manifests.manifest_name(old))
            self._placements.delete(f"{old:012d}.json")
        for name in self._dropped.pop(old + 1, ()):
            self._folders.segments.delete(name)

    def _empty_outbox(self, files: Sequence[str]) -> None:
        """Delete outputs that sinks have taken, and a manifest has made final."""
        for name in files:
            self._outbox.delete(name)


def _out_of_step(message: str) -> StateError:
    hint = "the checkpoint's `spark` and `streams` folders don't belong together: restore both from the same time"
    return StateError("state.missing-version", message, hint)


def _check_complete(reports: Sequence[EngineReport], orders: Orders) -> None:
    if [report.engine for report in reports] != list(range(orders.engines)):
        message = f"{len(reports)} of {orders.engines} engines reported in batch {orders.batch}"
        raise JobError("job.engines", message, "this is a mistake in trimtab: please report it")


def _no_rows(spark: SparkSession, schema: Any) -> DataFrame:
    """An empty batch that Spark doesn't know to be empty."""
    return spark.createDataFrame(spark.sparkContext.parallelize([], 1), schema)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a batch brought, in all rows of the stream, also those that no query wants."""

    events: int
    newest_us: int | None


def _seen(reports: Sequence[EngineReport], observed: Mapping[str, Any] | None) -> Seen:
    events = sum(report.events for report in reports)
    known = [report.newest_us for report in reports if report.newest_us is not None]
    if observed is not None:
        events = int(observed["events"])
        known += [] if observed["newest"] is None else [int(observed["newest"])]
    return Seen(events, max(known, default=None))


def _progress(
    stream: str,
    manifest: Manifest,
    reports: Sequence[EngineReport],
    matches: Mapping[str, int],
    stages: Mapping[str, float],
    moved: int,
    events: int,
) -> BatchProgress:
    return BatchProgress(
        stream=stream,
        batch=manifest.batch,
        events=events,
        late=sum(report.late for report in reports),
        quarantined=sum(report.quarantined for report in reports),
        matches=dict(matches),
        watermark_us=manifest.watermark_us,
        batch_ms=sum(stages.values()) * 1e3,
        stages_ms={name: spent * 1e3 for name, spent in stages.items()},
        engines=tuple(
            EngineProgress(
                engine=report.engine,
                events=int(np.frombuffer(report.loads.events, np.int32).sum()) + report.hot.spread_events,
                busy_ms=report.busy_ms,
                groups=report.loads.count,
                state_bytes=0 if report.segment is None else report.segment.size_bytes,
                stages_ms=report.stages_ms,
                worked_ms=(float(np.frombuffer(report.loads.busy_ns, np.int64).sum()) + report.hot.spread_ns) / 1e6,
                host=report.host,
            )
            for report in reports
        ),
        moved=moved,
        state_bytes=sum(run.size_bytes for query in manifest.queries.values() for run in query.runs),
        state_bytes_written=sum(report.segment.size_bytes for report in reports if report.segment is not None),
        finished_at_s=manifest.written_at_s,
    )
