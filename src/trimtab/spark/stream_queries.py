"""The queries over one stream, compiled from the job's description to the engines' plan and tier 1."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from trimtab.driver.batch_plan import QuerySetup, Setup
from trimtab.driver.partials import Merger
from trimtab.driver.resuming import fingerprint
from trimtab.driver.shell import Ready
from trimtab.engine.columns.watermark import TimeRule
from trimtab.errors import JobError, QueryError
from trimtab.language.compiled import Query
from trimtab.language.inline import inlined
from trimtab.sources.source import Source, identity_of
from trimtab.spark.settings import JavaSession, on_session
from trimtab.spark.sinks import Sink
from trimtab.spark.spark_functions import compile_for
from trimtab.spark.tier_one import TierOne
from trimtab.worker.intake import intake_of
from trimtab.worker.orders import LATE, QUARANTINE, EnginePlan
from trimtab.worker.tier_one import ColumnTierOne, obstacle_to_columns
from trimtab.worker.ways import obstacle_told

_log = logging.getLogger("trimtab")


@dataclass(frozen=True, slots=True, eq=False)
class ReadyOnSpark(Ready):
    """Queries ready to run, with the tier 1 that computes their rows: in the JVM, or over columns in the workers."""

    tier_one: TierOne | ColumnTierOne

    @property
    def is_over_columns(self) -> bool:
        """Whether its batches run in `column_jobs`, and not in `engine_jobs`."""
        return isinstance(self.tier_one, ColumnTierOne)


@dataclass(frozen=True, slots=True, eq=False)
class StreamQueries:
    """A stream, its queries and where their rows go, as the job describes them.

    `own` is the session that tier 1 is analysed in. `split` are the queries whose hot keys may be spread. `source` is
    what trimtab reads itself: then `frame` only has its columns. None: Spark reads the frame.
    """

    spark: SparkSession
    stream: str
    frame: DataFrame
    own: JavaSession
    schema: pa.Schema
    event_time: str
    rule: TimeRule
    partition_by: str | None
    max_ahead_us: int | None
    queries: Mapping[str, Query]
    split: Collection[str]
    sinks: Mapping[str, Sequence[Sink]]  # by query; also LATE and QUARANTINE
    key_groups: int
    max_threads: int
    source: Source | None = None

    @property
    def setup(self) -> Setup:
        """The setup for new batches of this start."""
        queries = {
            name: QuerySetup(query.sql, fingerprint(query), name in self.split) for name, query in self.queries.items()
        }
        keep_original = any(self.sinks.get(name) for name in (LATE, QUARANTINE))
        others = (self.max_ahead_us, self.max_threads, keep_original, identity_of(self.source))
        return Setup(self.event_time, self.rule, queries, self.partition_by, *others)

    def ready(self, setup: Setup) -> ReadyOnSpark:
        """The queries of a setup: those of this start, or those that an unfinished batch was begun with.

        Raises QueryError `query.spark`, and JobError `job.unfinished-batch` if one can't be compiled any more.
        """
        queries = {name: inlined(self._compiled(name, each, setup.event_time)) for name, each in setup.queries.items()}
        split = {name for name, each in setup.queries.items() if each.is_split}
        intake = intake_of(queries, self.schema, setup.event_time, split, setup.partition_by)
        keep_original = setup.keep_original
        tier_one: TierOne | ColumnTierOne
        if self.source is not None and obstacle_to_columns(intake, self.schema) is None:
            tier_one = ColumnTierOne(intake, self.schema, self.key_groups, keep_original=keep_original)
            schema = tier_one.sent_schema()
        else:
            with explained(queries):
                frame = on_session(self.frame, self.own)
                tier_one = TierOne(intake, frame, self.key_groups, keep_original=keep_original)
            schema = tier_one.schema
        plan = EnginePlan(
            intake=intake,
            queries=queries,
            schema=schema,
            key_groups=self.key_groups,
            max_threads=setup.max_threads,
            keep_original=keep_original,
            event_time=setup.event_time,
        )
        packed: bytes = cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
        plan_id = hashlib.sha256(packed).hexdigest()
        return ReadyOnSpark(setup, plan, packed, plan_id, Merger(plan), tier_one)

    def tell_obstacle(self) -> None:
        """Log why rows take the JVM's way that could be read as columns, if they do: a user may change the query."""
        if self.source is not None:
            told = obstacle_told(self.stream, self.queries, self.schema, self.event_time)
            if told is not None:
                _log.warning("%s", told)

    def _compiled(self, name: str, wanted: QuerySetup, event_time: str) -> Query:
        own = self.queries.get(name)
        if own is not None and own.sql == wanted.sql and fingerprint(own) == wanted.fingerprint:
            return own
        cause: QueryError | None = None
        try:
            query = compile_for(self.spark, wanted.sql, {self.stream: self.schema}, event_time)
            if fingerprint(query) == wanted.fingerprint:
                return query
        except QueryError as error:
            cause = error
        raise JobError(
            "job.unfinished-batch",
            f"a batch of stream {self.stream} was begun with a query {name} that can't be compiled any more",
            "start the job once as it was, so that the batch is finished, and change it then",
        ) from cause


@contextmanager
def explained(queries: Mapping[str, Query]) -> Iterator[None]:
    """Raise QueryError `query.spark` if Spark can't compute the columns of these queries."""
    try:
        yield
    except PySparkException as error:
        first = str(error).split("\n", 1)[0]
        sql = next(iter(queries.values())).sql if len(queries) == 1 else ""
        message = f"Spark can't compute the columns of {', '.join(queries)}: {first}"
        raise QueryError("query.spark", message, sql) from error
