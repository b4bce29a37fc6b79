"""`trimtab.Job`: queries over streaming DataFrames, on engines whose number and keys can change while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from trimtab.api.job_checks import check_intake, check_name, check_readers, interval_s_of
from trimtab.api.run import Run, Tally
from trimtab.api.stream import Length, StreamHandle, stream_of
from trimtab.control.intake import Intake
from trimtab.deciding.placement import check_engines, check_key_groups
from trimtab.deciding.policy import DEFAULT, Balance, Scale, balance_of, check_scale
from trimtab.driver.batch_plan import BatchPlan
from trimtab.driver.changed_source import StartAt
from trimtab.driver.resuming import begun_batches, changed_query, fingerprint, last_versions, open_streams, states
from trimtab.driver.splitting import check_split
from trimtab.engine.operator import MAX_THREADS
from trimtab.errors import JobError
from trimtab.language.compile import source_of
from trimtab.language.compiled import Query
from trimtab.sources.source import Source, opened
from trimtab.spark.pipeline import Pipeline, StreamSpec
from trimtab.spark.settings import JavaSession, copy_for_jobs, logs_by_renaming, on_session
from trimtab.spark.sinks import BatchFunction, Sink, make_sink, prepare_sinks
from trimtab.spark.source_loop import SourceLoop
from trimtab.spark.sources import check_reachable
from trimtab.spark.spark_functions import compile_for
from trimtab.spark.stream_queries import StreamQueries, explained
from trimtab.spark.tier_one import check_columns
from trimtab.spark.where.settling import Demand
from trimtab.state.checkpoint import Checkpoint, safe_name
from trimtab.state.lock import CheckpointLock
from trimtab.state.manifest import Manifest
from trimtab.worker.intake import intake_of

DEFAULT_INTAKE = Intake()


@dataclass(slots=True)
class QueryHandle:
    """A query of a job; `write` names the sinks of its rows."""

    name: str
    query: Query
    reset: bool
    spark: SparkSession
    split: str | None = None
    check_may_change: Callable[[], None] = lambda: None
    sinks: list[Sink] = field(default_factory=list)

    def write(self, target: str | BatchFunction, **options: Any) -> QueryHandle:
        """Send the query's rows to a sink; call it again for more sinks.

        `target`: "parquet" (with `path`), "kafka" (with `servers` and `topic`) and "delta", exactly once; "console",
        "memory", any other Spark format with its options (at least once), or a function of (DataFrame, batch id).
        """
        self.check_may_change()
        self.sinks.append(make_sink(self.spark, target, options))
        return self


class Job:
    """Queries over streams, with a checkpoint from which a restart goes on.

    Args:
        spark: The session; a classic one, not Spark Connect.
        checkpoint: A folder of the job's own, on a local disk or in an object store (docs/operations.md).
        engines: How many CEP engines, each one partition of every batch. None: as many as the checkpoint has; for a new
            checkpoint, one per core.
        key_groups: Into how many groups keys are hashed, fixed for the checkpoint's life. Key groups are what moves
            between engines.
        balance: How key groups move by themselves, so that engines are equally busy: the name of a planner ("milp",
            "dlb-heavy", "dlb-light", "lptf", "flux"), a `Balance`, or None: they stay where they are. The
            answers are the same in any case.
        scale: When engines come and go by themselves: a `Scale`; None: their number stays as it is.
        intake: How many rows a batch may have, of streams that trimtab reads itself: an `Intake`, by default as many as
            let a batch take the trigger's interval, or a second; None: all that there are.
        max_threads: How many partial matches a key may have under way at once.
        warm: Whether all machine code that the queries may need is compiled from the start; otherwise each piece only
            when enough rows have used it. A process beside the stream compiles it, and plain Python runs until then.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        checkpoint: str,
        engines: int | None = None,
        key_groups: int = 1024,
        balance: str | Balance | None = DEFAULT,
        scale: Scale | None = None,
        intake: Intake | None = DEFAULT_INTAKE,
        max_threads: int = MAX_THREADS,
        warm: bool = True,
    ) -> None:
        check_key_groups(key_groups)
        if engines is not None:
            check_engines(engines, key_groups)
        self.balance, self.scale, self.intake = balance_of(balance), scale, intake
        check_intake(intake)
        if scale is not None:
            check_engines(scale.max_engines, key_groups)
            check_scale(scale, self.balance, engines)
        if not hasattr(spark, "_jvm"):
            message = "this session is a Spark Connect one"
            raise JobError("job.session", message, "make a classic session: SparkSession.builder.master(...)")
        self.spark, self.checkpoint, self.engines = spark, str(checkpoint), engines
        self.key_groups, self.max_threads, self.warm = key_groups, max_threads, warm
        self._streams: dict[str, StreamHandle] = {}
        self._queries: dict[str, QueryHandle] = {}
        self._run: Run | None = None

    def stream(
        self,
        name: str,
        rows: DataFrame | Source,
        *,
        event_time: str,
        delay: Length = None,
        partition_by: str | None = None,
        partitions: int | Sequence[object] | None = None,
        max_ahead: Length = "1 hour",
        idle_after: Length = None,
        start_at: StartAt = None,
    ) -> StreamHandle:
        """Name a streaming DataFrame or a source, so that queries can read it.

        Args:
            name: What queries call it in FROM.
            rows: Any streaming DataFrame: from files, rate, Kafka or a Python data source, with any transformations. Or
                a `Source`, which trimtab reads itself: its partitions are known, so `partition_by` isn't needed.
            event_time: The column with the time of each event.
            delay: How much older a row may be than the newest one before it in its partition, such as "2 seconds"; by
                default not at all.
            partition_by: The column that names a row's partition, such as Kafka's partition or the kind of event in a
                union. Partitions may be read at different speeds: the watermark waits for the slowest.
            partitions: Their names, or how many there are; the first watermark waits until all had a row.
            max_ahead: Rows further ahead of the clock than this go to quarantine; None: there is no limit.
            idle_after: A partition that was read to its end and had no rows for this long no longer holds the others
                up, and while all are silent, event time goes on. None: time stands still until a row comes.
            start_at: Where the stream goes on if it was a DataFrame or another source, and is a `Source` now: the
                position of each partition, such as {"ticks:0": 1234}. "own": where `rows` begins by itself, also for a
                DataFrame that was a `Source`. It only counts where the checkpoint has no positions of `rows` itself.
        """
        self._check_not_running()
        check_name("stream", name, self._streams)
        handle = self._streams[name] = stream_of(
            self.spark,
            name,
            rows,
            event_time,
            delay=delay,
            partition_by=partition_by,
            partitions=partitions,
            max_ahead=max_ahead,
            idle_after=idle_after,
            start_at=start_at,
            check_may_change=self._check_not_running,
        )
        return handle

    def query(self, name: str, sql: str, *, reset: bool = False, split: str | None = None) -> QueryHandle:
        """Add a query over the streams named so far. Raises QueryError for mistakes in it.

        Args:
            name: What it is called in the checkpoint and in reports.
            sql: Its text.
            reset: If the checkpoint has another query of this name, forget its state and start this one fresh.
            split: How a key that is too hot for one engine is spread over several: "pkg" (over two), "random-choices"
                or "consistent" (over as many as needed). Results stay the same. None: every key is on one engine.
        """
        self._check_not_running()
        check_name("query", name, self._queries)
        tables = {each.name: each.schema for each in self._streams.values()}
        if not tables:
            raise JobError("job.stream", f"query {name} has no stream to read", "name one first: job.stream(...)")
        source = source_of(sql, tables)
        compiled = compile_for(self.spark, sql, tables, self._streams[source].event_time)
        others = {other.name: other.split for other in self._queries.values() if other.query.source == source}
        check_split(name, compiled, split, others)
        self._check_columns(name, compiled, self._streams[source])
        handle = self._queries[name] = QueryHandle(
            name, compiled, reset, self.spark, split, check_may_change=self._check_not_running
        )
        return handle

    def start(self, *, trigger: str | None = None, available_now: bool = False, close: bool = False) -> Run:
        """Start the job, from its checkpoint if there is one. Returns within a second.

        Raises what can be checked at once: options that contradict each other, a checkpoint that is locked, closed or
        of other queries, a Kafka source without a broker that answers, sinks that can't work. What takes longer (the
        checksums of a large state, Spark's first streaming query) goes on after the return; `Run.await_termination`
        raises what fails there.

        Args:
            trigger: How often a batch may begin, such as "200 milliseconds"; by default as soon as there is data.
            available_now: Process the data that is there now, in batches, and end.
            close: With `available_now`: the input ends there, so everything that is open is decided. A closed job can't
                be started again.
        """
        self._check_parts(trigger, available_now, close)
        every_s = interval_s_of(self.spark, trigger)
        interval_s = every_s or 1.0  # how long a batch should take
        with ExitStack() as undo:
            checkpoint = Checkpoint.open(self.checkpoint, self.key_groups)
            lock = CheckpointLock(checkpoint.folder, checkpoint.job).acquire()
            undo.callback(lock.release)
            versions = last_versions(checkpoint)
            begun = begun_batches(checkpoint, versions)
            read = self._read()
            check_readers(read, checkpoint, versions, begun)
            self._check_changes(versions, begun)
            going_on = open_streams(read, versions, close=close)
            check_reachable({name: read[name].frame for name in going_on if read[name].source is None})
            self._prepare_sinks(read)
            tally = Tally()
            demand = Demand()
            own = copy_for_jobs(self.spark)
            pipelines = {
                name: self._pipeline(read[name], own, checkpoint, versions.get(name), lock, tally, interval_s, demand)
                for name in going_on
            }
            schemas = {name: stream.frame.schema for name, stream in self._streams.items()}
            run = Run(self.spark, pipelines, tally, schemas, close=close, release=lock.release)
            run.begin(partial(self._begin, checkpoint, lock, set(read), trigger, every_s, available_now))
            undo.pop_all()
            self._run = run
            return run

    # Checking ----------------------------------------------------------------------------------

    def _check_not_running(self) -> None:
        if self._run is not None and self._run.is_active:
            message = "the job is running, and its streams, queries and sinks can't change while it does"
            raise JobError(
                "job.running",
                message,
                "stop it (run.stop()), add what is new, and start it again: it goes on from its checkpoint",
            )

    def _check_parts(self, trigger: str | None, available_now: bool, close: bool) -> None:
        if not self._queries:
            raise JobError("job.query", "the job has no queries", 'add one: job.query("name", sql).write(...)')
        if without_sink := [query.name for query in self._queries.values() if not query.sinks]:
            hint = 'say where its rows go: .write("parquet", path="out/")'
            raise JobError("job.sink", f"query {without_sink[0]} has no sink", hint)
        if trigger is not None and available_now:
            raise JobError("job.trigger", "trigger and available_now exclude each other", "give one of them")
        if close and not available_now:
            raise JobError("job.trigger", "close needs available_now", "a stream that goes on has no end")

    def _check_columns(self, name: str, query: Query, stream: StreamHandle) -> None:
        """Let Spark analyse what it will compute for the query, so that mistakes are raised before the start."""
        intake = intake_of({name: query}, stream.schema, stream.event_time)
        if intake.is_computed:
            with explained({name: query}):
                check_columns(intake, on_session(stream.frame, copy_for_jobs(self.spark)))

    def _check_changes(self, versions: Mapping[str, Manifest], begun: Mapping[str, BatchPlan]) -> None:
        """Raise JobError if a query differs from the one whose state the checkpoint has."""
        kept = {name for name, query in self._queries.items() if not query.reset}
        for stream, name, state in states(versions, begun, kept):
            query = self._queries[name].query
            if query.source != stream or fingerprint(query) != state.fingerprint:
                raise changed_query(name, state, query.sql)

    # Building ----------------------------------------------------------------------------------

    def _read(self) -> dict[str, StreamHandle]:
        """The streams that queries read."""
        sources = {query.query.source for query in self._queries.values()}
        return {name: stream for name, stream in self._streams.items() if name in sources}

    def _prepare_sinks(self, read: Mapping[str, StreamHandle]) -> None:
        outputs = {
            each.name: (each.sinks, [name for name, _ in each.query.finish.columns]) for each in self._queries.values()
        }
        for stream in read.values():
            for kind, sinks in stream.sinks.items():
                outputs[f"{stream.name}{kind.replace('__', '_')}"] = (sinks, stream.schema.names)
        prepare_sinks(outputs, self.checkpoint)

    def _pipeline(
        self,
        stream: StreamHandle,
        own: JavaSession,
        checkpoint: Checkpoint,
        known: Manifest | None,
        lock: CheckpointLock,
        tally: Tally,
        interval_s: float,
        demand: Demand,
    ) -> Pipeline:
        chosen = [query for query in self._queries.values() if query.query.source == stream.name]
        split = {query.name: query.split for query in chosen if query.split}
        queries = StreamQueries(
            spark=self.spark,
            stream=stream.name,
            frame=stream.frame,
            own=own,
            schema=stream.schema,
            event_time=stream.event_time,
            rule=stream.rule,
            partition_by=stream.partition_by,
            max_ahead_us=stream.max_ahead_us,
            queries={query.name: query.query for query in chosen},
            split=frozenset(split),
            sinks={**{query.name: query.sinks for query in chosen}, **stream.sinks},
            key_groups=self.key_groups,
            max_threads=self.max_threads,
            source=None if stream.source is None else opened(stream.source, checkpoint.stream(stream.name).home),
        )
        engines = self.engines
        if engines is None:
            if known is None:
                engines = min(max(1, self.spark.sparkContext.defaultParallelism), self.key_groups)
            if self.scale is not None:
                now = engines if known is None else known.engines
                engines = min(max(now or 1, self.scale.min_engines), self.scale.max_engines)
        spec = StreamSpec(
            engines=engines,
            split=next(iter(split.values()), None),
            balance=self.balance,
            scale=self.scale,
            intake=self.intake,
            interval_s=interval_s,
            warm=self.warm,
            idle_after_s=None if stream.idle_after_us is None else stream.idle_after_us / 1e6,
        )
        return Pipeline(self.spark, spec, queries, checkpoint, known, lock, tally.add, demand)

    def _begin(
        self,
        checkpoint: Checkpoint,
        lock: CheckpointLock,
        read: set[str],
        trigger: str | None,
        every_s: float | None,
        available_now: bool,
        pipelines: Mapping[str, Pipeline],
    ) -> dict[str, StreamingQuery | SourceLoop]:
        """Start Spark's streaming queries, and the loops of streams that trimtab reads itself.

        Called in the run's thread: the first start in a JVM takes seconds.
        """
        self._sweep_streams(checkpoint, read, lock)
        started: dict[str, StreamingQuery | SourceLoop] = {}
        with logs_by_renaming(self.spark, is_local=checkpoint.folder.is_local):
            for name, pipeline in pipelines.items():
                if (rows := pipeline.source_rows) is not None:
                    start_at = self._streams[name].start_at
                    loop = SourceLoop(
                        pipeline, rows, interval_s=every_s, available_now=available_now, start_at=start_at
                    )
                    started[name] = loop.start()
                    continue
                writer = self._streams[name].frame.writeStream.foreachBatch(pipeline.take_batch)
                writer = writer.option("checkpointLocation", checkpoint.spark(name))
                if available_now:
                    writer = writer.trigger(availableNow=True)
                elif trigger is not None:
                    writer = writer.trigger(processingTime=trigger)
                try:
                    started[name] = writer.start()
                except BaseException:
                    for each in started.values():
                        each.stop()
                    raise
        return started

    @staticmethod
    def _sweep_streams(checkpoint: Checkpoint, read: set[str], lock: CheckpointLock) -> None:
        """Delete the state of streams that no query reads any more."""
        for name in set(checkpoint.streams()) - read:
            for kind in ("streams", "spark"):
                checkpoint.folder.child(kind).child(safe_name(name)).remove_all(lock.check)
