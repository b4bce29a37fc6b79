"""The head of a batch: how many rows it has, and the newest time of each partition, also of rows that no query wants.

The tasks that read the rows observe it on the way, which costs next to nothing. Only if that isn't enough does a job of
its own compute it: when partitions show up that weren't known, when some rows are too far ahead of the clock and so
don't move the watermark, or when there are very many partitions. Where trimtab itself reads the rows, only their number
is observed: the tasks that read them tell the rest (`source_rows.heads_read`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.serializers import CPickleSerializer
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.types import DataType

from trimtab.engine.columns.watermark import ONLY, BatchTime
from trimtab.worker.orders import Head

MOST_OBSERVED = 64
"""More partitions than this are not observed: each is a column to compute for every row."""
_OBSERVED = "trimtab_head"


@dataclass
class HeadWatch:
    """Finds the heads of a stream's batches.

    partition      the column that names a row's partition, if there is one
    is_of_source   whether trimtab itself reads the rows: then their tasks know the newest times, and rows are counted
                   here
    """

    time: Column
    time_type: DataType
    partition: Column | None
    is_of_source: bool = False
    _names: tuple[str, ...] | None = None  # those that the columns are for
    _columns: list[Any] = field(default_factory=list)  # Java's

    def watched(self, rows: DataFrame, time: BatchTime) -> DataFrame:
        """The rows, of which Spark observes what is needed on the way."""
        names = self._known(time)
        if names != self._names:
            self._names, self._columns = names, [column._jc for column in self._observing(names)]
        jvm: Any = rows.sparkSession._jvm
        java: Any = rows._jdf
        others = jvm.PythonUtils.toSeq(self._columns[1:])
        return type(rows)(java.observe(_OBSERVED, self._columns[0], others), rows.sparkSession)

    def observed(self, ran: DataFrame, time: BatchTime) -> Head | None:
        """The head as it was observed in a job that has run; None: it has to be computed."""
        jvm: Any = ran.sparkSession._jvm
        java: Any = ran._jdf
        row = java.queryExecution().observedMetrics().apply(_OBSERVED)
        packed = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.toPyRow(row)
        events, unknown_partitions, *times = CPickleSerializer().loads(packed)  # type: ignore[no-untyped-call]
        newest_us = {name: at for name, at in zip(self._known(time), times, strict=True) if at is not None}
        latest_us = time.latest_us
        is_ahead = latest_us is not None and max(newest_us.values(), default=latest_us) > latest_us
        return None if unknown_partitions or is_ahead else Head(events, newest_us)

    def computed(self, rows: DataFrame, time: BatchTime) -> Head:
        """The same by a job of its own over the rows."""
        partition = F.lit(ONLY) if self.partition is None else self.partition
        at, latest_us = self._time_us(), time.latest_us
        counted_at = at if latest_us is None else F.when(at <= latest_us, at)
        found = (F.count(F.lit(1)).alias("events"), F.max(counted_at).alias("at"))
        newest = rows.groupBy(partition.alias("name")).agg(*found).collect()
        newest_us = {row["name"]: row["at"] for row in newest if row["name"] is not None and row["at"] is not None}
        return Head(sum(row["events"] for row in newest), newest_us)

    def _known(self, time: BatchTime) -> tuple[str, ...]:
        """The partitions that are observed."""
        if self.is_of_source:
            return ()
        if self.partition is None:
            return (ONLY,)
        known = sorted({*time.rule.partitions, *time.before.newest_us})
        return tuple(known) if len(known) <= MOST_OBSERVED else ()

    def _observing(self, names: tuple[str, ...]) -> list[Column]:
        """How many rows there are, how many with a time are of unknown partitions, and each known one's newest time."""
        at, events = self._time_us(), F.count(F.lit(1)).alias("events")
        if self.is_of_source:
            return [events, F.lit(0).alias("unknown_partitions")]
        if self.partition is None:
            return [events, F.lit(0).alias("unknown_partitions"), F.max(at).alias("newest")]
        is_unknown = self.partition.isNotNull() & at.isNotNull() & ~self.partition.isin(*names)
        newest = [F.max(F.when(self.partition == name, at)).alias(f"newest{n}") for n, name in enumerate(names)]
        return [events, F.count_if(is_unknown).alias("unknown_partitions"), *newest]

    def _time_us(self) -> Column:
        """The event time in microseconds since 1970, as the engines count."""
        match self.time_type.typeName():
            case "date":
                return F.unix_date(self.time).cast("bigint") * F.lit(86_400_000_000)
            case "timestamp_ntz":
                return F.timestamp_diff("MICROSECOND", F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'"), self.time)
            case _:
                return F.unix_micros(self.time)
