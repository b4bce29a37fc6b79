"""The streams of a job: their names, how the watermark follows from the rows, and where rows go that no query takes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from trimtab.driver.changed_source import StartAt, check_start_at
from trimtab.engine.columns.watermark import TimeRule
from trimtab.errors import JobError
from trimtab.language.intervals import delay_us
from trimtab.sources.source import Source
from trimtab.spark.sinks import BatchFunction, Sink, make_sink
from trimtab.spark.source_rows import SourceRows, schema_on_spark
from trimtab.worker.intake import SOURCE_PARTITION, SOURCE_POSITION, SOURCE_UNDECODED
from trimtab.worker.orders import LATE, QUARANTINE

HIDDEN = (SOURCE_PARTITION, SOURCE_POSITION, SOURCE_UNDECODED)
Length = str | datetime.timedelta | None
"""A length of time, such as "2 seconds"."""


@dataclass(slots=True)
class StreamHandle:
    """A stream of a job; its methods name sinks for rows that no query can take.

    `frame` is what Spark reads; if trimtab reads a `source` itself, it only has its columns.
    """

    name: str
    frame: DataFrame
    event_time: str
    rule: TimeRule
    schema: pa.Schema
    partition_by: str | None = None
    max_ahead_us: int | None = None
    idle_after_us: int | None = None
    source: Source | None = None
    start_at: StartAt = None
    check_may_change: Callable[[], None] = lambda: None
    sinks: dict[str, list[Sink]] = field(default_factory=lambda: {LATE: [], QUARANTINE: []})

    def late(self, target: str | BatchFunction, **options: Any) -> StreamHandle:
        """Send rows that came too late (older than the watermark) to a sink, instead of only counting them."""
        self.check_may_change()
        self.sinks[LATE].append(make_sink(self.frame.sparkSession, target, options))
        return self

    def quarantine(self, target: str | BatchFunction, **options: Any) -> StreamHandle:
        """Send rows without key or time, or whose columns can't be computed, to a sink, with the reason."""
        self.check_may_change()
        self.sinks[QUARANTINE].append(make_sink(self.frame.sparkSession, target, options))
        return self


def stream_of(
    spark: SparkSession,
    name: str,
    rows: DataFrame | Source,
    event_time: str,
    *,
    delay: Length,
    partition_by: str | None,
    partitions: int | Sequence[object] | None,
    max_ahead: Length,
    idle_after: Length,
    start_at: StartAt,
    check_may_change: Callable[[], None],
) -> StreamHandle:
    """The stream, if it can be one; `Job.stream` says what each setting means."""
    source = None if isinstance(rows, DataFrame) or not isinstance(rows, Source) else rows
    frame = rows if isinstance(rows, DataFrame) else _columns_of(spark, name, source)
    if source is None and not frame.isStreaming:
        raise _not_a_stream(name)
    found = _column_of(name, frame, event_time, "job.event-time")
    kind = frame.schema[found].dataType.typeName()
    if kind not in ("timestamp", "timestamp_ntz", "date"):
        message = f"column {found} of stream {name} is {kind}, not a time"
        raise JobError("job.event-time", message, "cast it to TIMESTAMP in the DataFrame")
    if (partition_by is None) != (partitions is None):
        message = f"stream {name} has partition_by={partition_by!r} and partitions={partitions!r}"
        hint = "name the column and give the partitions' names or their number, or neither"
        raise JobError("job.partitions", message, hint)
    if source is not None and partition_by is not None:
        message = f"stream {name} has partition_by, but its source knows its partitions"
        raise JobError("job.partitions", message, "leave partition_by and partitions out")
    check_start_at(name, start_at, is_source=source is not None)
    by = None if partition_by is None else _column_of(name, frame, partition_by, "job.partitions")
    return StreamHandle(
        name,
        frame,
        found,
        _time_rule(name, delay_us(delay), partitions),
        to_arrow_schema(frame.drop(*HIDDEN).schema, timezone="UTC"),
        by if source is None else SOURCE_PARTITION,
        None if max_ahead is None else delay_us(max_ahead),
        None if idle_after is None else delay_us(idle_after),
        source,
        start_at,
        check_may_change,
    )


def _columns_of(spark: SparkSession, name: str, source: Source | None) -> DataFrame:
    """A DataFrame without rows that has a source's columns."""
    if source is None:
        raise _not_a_stream(name)
    try:
        _, schema = schema_on_spark(source)
    except PySparkException as error:
        first = str(error).split("\n", 1)[0]
        raise JobError("job.stream", f"Spark lacks a type of the source of stream {name}: {first}") from error
    return spark.createDataFrame([], SourceRows(spark, source, schema).spark_schema)


def _not_a_stream(name: str) -> JobError:
    return JobError(
        "job.stream",
        f"stream {name} is neither a streaming DataFrame nor a source",
        "make one with spark.readStream; for a table use trimtab.evaluate",
    )


def _column_of(stream: str, frame: DataFrame, name: str, code: str) -> str:
    """The stream's column of this name: case doesn't matter, as in Spark."""
    columns = [column for column in frame.columns if column not in HIDDEN]
    for column in columns:
        if column.lower() == str(name).lower():
            return column
    raise JobError(code, f"stream {stream} has no column {name}", f"its columns are {', '.join(columns)}")


def _time_rule(stream: str, delay: int, partitions: int | Sequence[object] | None) -> TimeRule:
    if partitions is None:
        return TimeRule(delay)
    names = () if isinstance(partitions, int) else tuple(map(str, partitions))
    count = partitions if isinstance(partitions, int) else len(set(names))
    if count < 1 or isinstance(partitions, str) or len(names) != len(set(names)):
        message = f"partitions={partitions!r} of stream {stream} are neither different names nor a number above 0"
        raise JobError("job.partitions", message, "list their names, or say how many there are")
    return TimeRule(delay, names, count)
