"""The streams of a job: their names, how the watermark follows from the rows, and where rows go that no query takes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from trimtab.engine.columns.watermark import TimeRule
from trimtab.errors import JobError
from trimtab.language.intervals import delay_us
from trimtab.spark.sinks import BatchFunction, Sink, make_sink
from trimtab.worker.orders import LATE, QUARANTINE

Length = str | datetime.timedelta | None
"""A length of time, such as "2 seconds"."""


@dataclass(slots=True)
class StreamHandle:
    """A stream of a job; its methods name sinks for rows that no query can take."""

    name: str
    frame: DataFrame
    event_time: str
    rule: TimeRule
    schema: pa.Schema
    partition_by: str | None = None
    max_ahead_us: int | None = None
    idle_after_us: int | None = None
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
    name: str,
    frame: DataFrame,
    event_time: str,
    *,
    delay: Length,
    partition_by: str | None,
    partitions: int | Sequence[object] | None,
    max_ahead: Length,
    idle_after: Length,
    check_may_change: Callable[[], None],
) -> StreamHandle:
    """The stream, if it can be one; `Job.stream` says what each setting means."""
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        message = f"stream {name} is not a streaming DataFrame"
        raise JobError("job.stream", message, "make one with spark.readStream; for a table use trimtab.evaluate")
    found = _column_of(name, frame, event_time, "job.event-time")
    kind = frame.schema[found].dataType.typeName()
    if kind not in ("timestamp", "timestamp_ntz", "date"):
        message = f"column {found} of stream {name} is {kind}, not a time"
        raise JobError("job.event-time", message, "cast it to TIMESTAMP in the DataFrame")
    if (partition_by is None) != (partitions is None):
        message = f"stream {name} has partition_by={partition_by!r} and partitions={partitions!r}"
        hint = "name the column and give the partitions' names or their number, or neither"
        raise JobError("job.partitions", message, hint)
    return StreamHandle(
        name,
        frame,
        found,
        _time_rule(name, delay_us(delay), partitions),
        to_arrow_schema(frame.schema, timezone="UTC"),
        None if partition_by is None else _column_of(name, frame, partition_by, "job.partitions"),
        None if max_ahead is None else delay_us(max_ahead),
        None if idle_after is None else delay_us(idle_after),
        check_may_change,
    )


def _column_of(stream: str, frame: DataFrame, name: str, code: str) -> str:
    """The stream's column of this name: case doesn't matter, as in Spark."""
    for column in frame.columns:
        if column.lower() == str(name).lower():
            return column
    raise JobError(code, f"stream {stream} has no column {name}", f"its columns are {', '.join(frame.columns)}")


def _time_rule(stream: str, delay: int, partitions: int | Sequence[object] | None) -> TimeRule:
    if partitions is None:
        return TimeRule(delay)
    names = () if isinstance(partitions, int) else tuple(map(str, partitions))
    count = partitions if isinstance(partitions, int) else len(set(names))
    if count < 1 or isinstance(partitions, str) or len(names) != len(set(names)):
        message = f"partitions={partitions!r} of stream {stream} are neither different names nor a number above 0"
        raise JobError("job.partitions", message, "list their names, or say how many there are")
    return TimeRule(delay, names, count)
