"""One stream's batches on Spark: the shell around `driver.machine` with real engines, sinks and executors.

Spark calls `take_batch` for every micro-batch. It ends with a committed manifest, or raises: then nothing is committed,
and Spark delivers the same rows again at the next start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from trimtab.control.intake import Intake, IntakeLimit
from trimtab.deciding.balancer import Balancer
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.observation import observe
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Scale
from trimtab.driver.batch_plan import Setup
from trimtab.driver.combining import combine
from trimtab.driver.happenings import BatchArrived, HandOver, Happening, Instruction, MergeParts, RunEngines, WritePlan
from trimtab.driver.machine_code import StreamMachineCode
from trimtab.driver.next_version import Identity
from trimtab.driver.older_builds import begun_by_older_build
from trimtab.driver.placing import Placing
from trimtab.driver.progress import BatchProgress, progress_of
from trimtab.driver.reading import Read
from trimtab.driver.shell import Ready, Shell, resumed
from trimtab.driver.silence import SilenceWatch
from trimtab.engine.columns.watermark import Silence
from trimtab.errors import noting
from trimtab.machine_code.compiler import shared_compiler
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.machine_code.shelf import Offer
from trimtab.sources.source import close_source
from trimtab.spark.carried_errors import unpacking
from trimtab.spark.column_jobs import run_columns
from trimtab.spark.compactor import Compactor
from trimtab.spark.engine_jobs import no_rows, run_jobs
from trimtab.spark.error_text import noting_callers
from trimtab.spark.reader_choice import ReaderChoice
from trimtab.spark.settings import copy_for_jobs, on_session, set_for_jobs
from trimtab.spark.side_by_side import deliver, side_by_side
from trimtab.spark.sinks import Delivery
from trimtab.spark.source_rows import SourceRows, heads_read
from trimtab.spark.sources import reads_all
from trimtab.spark.spark_log import SparkLog
from trimtab.spark.stream_queries import ReadyOnSpark, StreamQueries
from trimtab.spark.under_way import NOTHING, BatchUnderWay
from trimtab.spark.where.pinning import Homes
from trimtab.spark.where.settling import Demand, Settler
from trimtab.state.checkpoint import Checkpoint, safe_name
from trimtab.state.lock import CheckpointLock
from trimtab.state.manifest import Manifest
from trimtab.state.merging import Merged
from trimtab.state.segment import check_size
from trimtab.state.sweep import sweep
from trimtab.worker.exchange import Reading
from trimtab.worker.orders import LATE, QUARANTINE, EngineReport, Head, Orders
from trimtab.worker.tier_one import ColumnTierOne


class StoppingError(Exception):
    """A batch was not begun because the job is being stopped; Spark repeats it at the next start."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """How a stream is run, apart from its queries."""

    engines: int | None  # None: the number in the checkpoint
    split: str | None = None  # how hot keys of its split queries are spread; None: no query is split
    balance: Balance | None = None
    scale: Scale | None = None
    intake: Intake | None = None  # how many rows batches of trimtab's own sources may have; None: any number
    interval_s: float = 1.0  # how long a batch should take
    warm: bool = True  # whether machine code is compiled before engines lack it
    idle_after_s: float | None = None  # when a silent partition is idle; None: never


class Pipeline(Shell):
    """Runs the batches of one stream; `take_batch` is what Spark calls."""

    _batch: BatchUnderWay  # the last one, or the one under way

    def __init__(
        self,
        spark: SparkSession,
        spec: StreamSpec,
        queries: StreamQueries,
        checkpoint: Checkpoint,
        known: Manifest | None,
        lock: CheckpointLock,
        on_progress: Callable[[BatchProgress], None],
        demand: Demand | None = None,
    ) -> None:
        self.spec, self._queries, self._lock, self._on_progress = spec, queries, lock, on_progress
        self.epoch, self._setup = lock.epoch, queries.setup
        folders = checkpoint.stream(queries.stream)
        folders.make()
        identity = Identity(checkpoint.job, queries.stream, folders.incarnation(), queries.key_groups)
        driver = resumed(folders, identity, known)
        self._spark_log = SparkLog(checkpoint.folder.child("spark").child(safe_name(queries.stream)))
        if queries.source is None:
            if not driver.is_of_spark:
                self._spark_log.forget(lock.check)
            self._spark_log.resume(driver)
        if driver.unfinished is None:
            driver.unfinished = begun_by_older_build(
                driver, folders.home, self._spark_log.offsets, self._setup, clock_s=time.time()
            )
        super().__init__(folders, driver)
        self._turn = threading.Lock()  # held while a batch runs
        self._batch_thread: int | None = None
        self._is_first, self.stopping = True, False
        self.error: BaseException | None = None
        self.homes = Homes(spark, queries.stream)
        self._compactor = Compactor(spark, folders, identity.incarnation, self.epoch)
        self._send = spark.sparkContext.broadcast
        self._heads_read = heads_read(spark.sparkContext)
        self._readers = ReaderChoice(is_cluster=self.homes.executors.is_cluster)
        source = queries.source  # what trimtab reads itself
        self.source_rows = None if source is None else SourceRows(spark, source, queries.schema)
        self._balancer: Balancer | None = None
        intake = None if source is None else spec.intake
        if spec.balance is not None or spec.scale is not None or intake is not None:
            coordinator = Coordinator(
                spec.balance, spec.scale, split=spec.split, interval_s=spec.interval_s, intake=intake
            )
            self._balancer = Balancer(coordinator, folders.home.child("decisions"), shared_compiler("planners"))
        self._settler = Settler(self.homes, demand or Demand(), queries.stream, is_elastic=spec.scale is not None)
        self.placing = Placing(self._first_placement(), self._decided, may_spread=bool(queries.split))
        if spec.engines is not None:
            self.placing.change(lambda now: now if now.engines == spec.engines else now.resized(spec.engines or 1))
        self._ended_s = 0.0  # when the last batch ended; 0: there was none
        self._ended_at_s = time.time()  # the same of Spark's last batch, by the clock; before the first one, the start
        since_s = self._ended_at_s if known is None else known.written_at_s
        self._silence = SilenceWatch(spec.idle_after_s, since_s)
        self._reads_all = queries.source is None and reads_all(queries.frame)

    @property
    def placement(self) -> Placement:
        """Where key groups were in the last committed batch."""
        return self.driver.placement or self._first_placement()

    @property
    def key_groups(self) -> int:
        """How many key groups there are."""
        return self.driver.identity.key_groups

    @property
    def has_begun_without_rows(self) -> bool:
        """Whether a batch without rows was begun by an earlier start, and must be finished first."""
        return self.driver.unfinished is not None and not self.driver.unfinished.has_rows

    @property
    def is_closed(self) -> bool:
        """Whether the input has ended."""
        return self.driver.known is not None and self.driver.known.closed

    # Starting ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """The slow part of a start: called once, after `Job.start` has returned and before the first batch.

        Raises StateError for damaged state files, before anything is changed, and QueryError `query.spark`.
        """
        self._verify()
        sweep(self.folders, epoch=self.epoch)
        unfinished = self.driver.unfinished
        self.ready(self._setup if unfinished is None else unfinished.setup)
        self._queries.tell_obstacle()

    def _first_placement(self) -> Placement:
        """Where key groups are before the first batch of this start."""
        if self.driver.unfinished is not None:
            return self.driver.unfinished.placement
        return self.driver.placement or Placement.even(self.spec.engines or 2, self.key_groups)

    def _verify(self) -> None:
        """Check that every live file is there and has its size; what is in it is checked when it is first opened."""
        known, segments = self.driver.known, self.folders.segments
        if known is not None and segments.is_local:
            for file in known.segments.values():
                if self.stopping:
                    return
                check_size(segments.path_of(file.name), file)

    def make_ready(self, setup: Setup) -> Ready:
        """Compile the queries of a setup, and request their machine code."""
        ready = self._queries.ready(setup)
        compiler = shared_compiler("engines")
        self._machine_code = StreamMachineCode(compiler, ready.packed, self._send, warm=self.spec.warm)
        return ready

    # A batch -----------------------------------------------------------------------------------

    def take_batch(self, frame: DataFrame, spark_batch: int) -> None:
        """Run a micro-batch to its commit; if it raises, nothing of it is committed."""
        with self._my_turn():
            if self._is_first:  # Spark's copy of the session for this stream is the same in all batches
                set_for_jobs(frame.sparkSession._jsparkSession)
                self._is_first = False
            if spark_batch >= self.driver.next_of_spark:
                self._run(frame, spark_batch)

    def take_ranges(self, read: Read) -> Head:
        """Run a batch over ranges of the stream's source to its commit, and return what there was in them."""
        with self._my_turn():
            self._run(self._queries.frame, None, read=read)
            return self._batch.head

    @property
    def limit(self) -> IntakeLimit | None:
        """How many rows a batch of the stream's source may have, and who reads them; None: any number."""
        return None if self._balancer is None else self._balancer.limit

    def know_partitions(self, names: Collection[str]) -> None:
        """From the next batch on, the watermark also waits for these partitions of the stream's source."""
        before = self._setup.rule
        self._setup = replace(self._setup, rule=before.with_partitions(names))
        self._silence.met(names, before.partitions, time.time())

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        """Run a batch with rows inside; its error is kept."""
        with self._turn:
            if self.stopping:
                raise StoppingError
            self._batch_thread = threading.get_ident()
            try:
                yield
            except BaseException as error:
                self.error = error
                raise
            finally:
                self._batch_thread = None

    def close(self, spark: SparkSession, schema: Any) -> None:
        """End the input: one more batch, without rows, in which everything that is open is decided."""
        with self._turn:
            self._run_without_rows(spark, schema, closing=True)

    def finish_begun(self, spark: SparkSession, schema: Any) -> None:
        """Finish a batch without rows that an earlier start began: sinks may already have taken rows of it."""
        unfinished = self.driver.unfinished
        assert unfinished is not None
        with self._turn:
            self._run_without_rows(spark, schema, closing=unfinished.closing)

    def is_caught_up(self, at_s: float, partitions: Iterable[str] | None = None) -> None:
        """Note that at that moment there was nothing more to read, or not of these partitions."""
        self._silence.caught_up(at_s, partitions)

    def tick(self, spark: SparkSession, schema: Any) -> None:
        """Run a batch without rows if something is due only because partitions are silent."""
        if not self._turn.acquire(blocking=False):
            return  # a batch is under way: it finds what is due
        try:
            if not self.stopping and self.driver.is_due(self._verdict(), self._setup):
                self._run_without_rows(spark, schema, closing=False)
        finally:
            self._turn.release()

    def _verdict(self) -> Silence:
        known = self.driver.known
        return self._silence.verdict(() if known is None else known.newest_us, self._setup.rule.partitions)

    def _run_without_rows(self, spark: SparkSession, schema: Any, *, closing: bool) -> None:
        self._run(on_session(no_rows(spark, schema), copy_for_jobs(spark)), None, closing=closing)

    @property
    def is_in_my_batch(self) -> bool:
        """Whether the caller runs inside the batch under way, and must not wait for its end."""
        return self._batch_thread == threading.get_ident()

    def wait_until_idle(self) -> None:
        """Return once no batch is under way."""
        with self._turn:
            pass

    def stop(self) -> None:
        """End the pipeline's threads, and close its source."""
        self._compactor.stop()
        if self._balancer is not None:
            self._balancer.stop()
        close_source(self._queries.source)

    def _run(self, frame: DataFrame, spark_batch: int | None, *, closing: bool = False, read: Read = NOTHING) -> None:
        """Run a Spark batch, or one of ranges; without either it has no rows."""
        batch = self._batch = BatchUnderWay(frame, time.perf_counter(), read)
        before, unfinished, clock_s = self.placement, self.driver.unfinished, time.time()
        if spark_batch is not None and self._reads_all and spark_batch > self._spark_log.last:
            self._silence.caught_up(self._ended_at_s)  # Spark asked the source after that, and took all it had
        placement = self.placing.next_placement() if unfinished is None else unfinished.placement
        decision = None if self._balancer is None else self._balancer.latest
        batch.waited_s = batch.stages_s["plan"] = time.perf_counter() - batch.began_s
        with if_missing(Missing.PLAIN):
            arrived = BatchArrived(spark_batch, closing, clock_s, self._setup, placement, self._verdict(), read.ranges)
            self.run_batch(arrived)
        known = self.driver.known
        assert known is not None
        self._silence.took(batch.head.newest_us, clock_s)
        self._settler.ran_on(placement.engines)
        batch.is_plain = self._machine_code.take_reports(batch.reports)
        ended_s, ended_at_s = time.perf_counter(), time.time()
        moved = placement.moves_from(before)
        progress = progress_of(
            known, batch.reports, batch.head.events, batch.matches, batch.stages_s, moved, finished_at_s=ended_at_s
        )
        intake = batch.intake(ended_s, ended_at_s, self.homes.slots)
        self._on_progress(replace(progress, decision=decision, backlog=batch.backlog, intake=intake))
        if self._balancer is not None and not closing:
            span_s = ended_s - (self._ended_s or batch.began_s)
            observed = observe(known.batch, span_s, ended_s - batch.began_s, placement, batch.reports)
            self._balancer.consider(replace(observed, intake=intake))
        self._ended_s = ended_s
        if spark_batch is not None:  # while one without rows runs, Spark may already have asked for the next one's
            self._ended_at_s = ended_at_s

    def _decided(self, placement: Placement) -> Placement:
        return placement if self._balancer is None else self._settler.settled(placement, self._balancer.changed)

    def run_batch(self, arrived: BatchArrived) -> None:
        """Run a whole batch; an exception has a note of which one it was."""
        with noting(f"batch {self.driver.next_number} of stream {self._queries.stream}"):
            super().run_batch(arrived)

    def perform(self, instruction: Instruction) -> Happening | None:
        """Carry out one instruction, and add its time to a stage."""
        batch = self._batch
        counted_s, began_s = sum(batch.stages_s.values()), time.perf_counter()
        if isinstance(instruction, WritePlan) and self._queries.source is None:
            self._spark_log.sync()
        happened = super().perform(instruction)
        spent_s = time.perf_counter() - began_s - (sum(batch.stages_s.values()) - counted_s)
        batch.spent("engines" if isinstance(instruction, RunEngines | MergeParts) else "commit", spent_s)
        return happened

    def run_engines(self, ready: Ready, orders: Orders) -> tuple[Sequence[EngineReport], Head]:
        """Run the batch's Spark job."""
        batch, tier_one, rows = self._batch, cast(ReadyOnSpark, ready).tier_one, self.source_rows
        with unpacking(), noting_callers({name: query.sql for name, query in ready.setup.queries.items()}):
            if isinstance(tier_one, ColumnTierOne):
                assert rows is not None
                reading = Reading(rows.source, rows.schema, tier_one, orders)
                shares = {} if self.limit is None else self.limit.shares
                reader = self._readers.next(batch.read, rows, orders.engines)
                ran = run_columns(rows.spark.sparkContext, reading, reader, self.homes, shares)
                self._readers.took(ran.head)
            else:
                frame = batch.frame
                if rows is not None and orders.ranges:
                    read = rows.of(orders.ranges, ready.setup, orders.time, self._heads_read)
                    frame = on_session(read, self._queries.own)
                read_here = None if rows is None else self._heads_read
                ran = run_jobs(tier_one, frame, orders, self.homes.pinned, read_here)
        batch.reports, batch.head = ran.reports, ran.head
        batch.spent("plan", ran.planning_s)
        return ran.reports, ran.head

    def hand_over(self, outputs: Sequence[HandOver]) -> None:
        """Give rows to their sinks."""
        self._batch.spent("sinks", side_by_side(outputs, self._queries.sinks, self._hand_over))

    def _hand_over(self, output: HandOver) -> None:
        """Give rows to the sinks of a query, or to those for rows that no query can take."""
        batch, name, plan = self._batch, output.name, output.plan
        if name not in (LATE, QUARANTINE):
            batch.matches[name] = sum(each.rows for each in output.outputs)
        if not (sinks := self._queries.sinks.get(name, ())):
            return
        table, files = combine(output.outputs)
        shown = f"{self._queries.stream}{name.replace('__', '-')}" if name in (LATE, QUARANTINE) else name
        spark, outbox = batch.frame.sparkSession, self.folders.outbox
        delivery = Delivery(shown, plan.incarnation, plan.number, table, files, outbox, spark, output.may_repeat)
        delivery = replace(delivery, job=self.driver.identity.job, epoch=self.epoch, home=self.folders.home)
        deliver(delivery, sinks)

    def machine_code(self) -> Offer:
        """The machine code that engines may run; without it they run plain Python."""
        return self._machine_code.offer()

    def collect_merges(self, known: Manifest | None) -> Sequence[Merged]:
        """The merges that Spark tasks have completed since the last batch."""
        return self._compactor.finished(known)

    def plan_merges(self, manifest: Manifest) -> None:
        """Start Spark tasks for the merges that are due."""
        self._compactor.consider(manifest, over_columns=cast(ReadyOnSpark, self._ready).is_over_columns)

    def before_commit(self) -> None:
        """Raise if another job has taken the checkpoint's lock."""
        self._lock.check()
