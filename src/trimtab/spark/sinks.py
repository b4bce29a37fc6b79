"""Sinks: where the rows of a query go, batch after batch.

A sink takes each batch before it is committed, so after a crash the same batch may come again, with the same rows and
the same number. Parquet files are named by that number, which makes them exactly once; Delta Lake records the number
and ignores a repeated one. A user's function gets the number. Any other Spark format is at least once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from trimtab.errors import JobError
from trimtab.state.checkpoint import safe_name, spark_location
from trimtab.state.files import Folder

BatchFunction = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A query's output of one batch: rows in memory, and files with more rows that engines left in the outbox.

    `table` has all columns, also if all rows are in files; None: there are no rows.
    """

    name: str
    incarnation: str  # of the stream: another incarnation has other batches under the same numbers
    batch: int
    table: pa.Table | None
    files: tuple[str, ...]
    outbox: Folder
    spark: SparkSession
    may_repeat: bool  # whether sinks may have taken some or all of this batch before
    is_last: bool = True  # no other sink needs the files after this one

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return self.table is None

    def frame(self) -> DataFrame:
        """The rows as a DataFrame: those in memory are a part of Spark's plan, those in files are read by its tasks."""
        small = self.spark.createDataFrame(self.table)
        if not self.files:
            return small
        files = [f"{spark_location(self.outbox)}/{file}" for file in self.files]
        large = self.spark.read.schema(small.schema).parquet(*files)
        return small.unionByName(large) if self.table else large

    def whole(self) -> pa.Table:
        """All rows, in the driver's memory."""
        assert self.table is not None
        large = (pq.read_table(pa.BufferReader(self.outbox.read(file))) for file in self.files)
        return pa.concat_tables([self.table, *(each.cast(self.table.schema) for each in large)])


class Sink:
    """Where a query's rows go."""

    def prepare(self, name: str) -> None:
        """Called once when the job starts, before anything runs; raises JobError for what can't work."""

    def take(self, delivery: Delivery) -> None:
        """Take a batch."""
        raise NotImplementedError


@dataclass(slots=True)
class ParquetSink(Sink):
    """A folder of parquet files with each batch's rows exactly once, which can be read at any time.

    Files appear by renaming, so they are always complete. Their names hold the query, the stream's incarnation and the
    batch: the files of a batch that is repeated after a crash replace those of its first try.
    """

    path: str
    compression: str = "snappy"

    def prepare(self, name: str) -> None:
        """Make the folder."""
        del name
        Folder(self.path).make()

    def take(self, delivery: Delivery) -> None:
        """Write the batch's files."""
        stem = f"{safe_name(delivery.name)}-{delivery.incarnation[:12]}-{delivery.batch:09d}"
        written: list[str] = []
        folder = Folder(self.path)
        if delivery.table:
            sink = pa.BufferOutputStream()
            pq.write_table(delivery.table, sink, compression=self.compression)
            written.append(f"{stem}-000.parquet")
            folder.write(written[-1], sink.getvalue().to_pybytes())
        for number, file in enumerate(delivery.files, 1):
            written.append(f"{stem}-{number:03d}.parquet")
            if delivery.is_last and delivery.outbox.is_local:
                folder.publish(delivery.outbox.path_of(file), written[-1])
            else:
                folder.write(written[-1], delivery.outbox.read(file))
        if delivery.may_repeat:  # the try before a crash may have left more files than this one
            for name in folder.names():
                if name.startswith(stem) and name not in written:
                    folder.delete(name)


@dataclass(slots=True)
class FunctionSink(Sink):
    """A user's function, called with (DataFrame, batch id) for every batch that has rows, in event-time order.

    What an engine puts out beyond 2 MB is read from a file, which is in order by itself, and deleted after the batch.

    After a crash the last batch may come again with the same id and the same rows: a function that remembers which ids
    it has handled, or writes by id, is exactly once.
    """

    function: BatchFunction

    def take(self, delivery: Delivery) -> None:
        """Call the function."""
        if not delivery.is_empty:
            self.function(delivery.frame(), delivery.batch)


@dataclass(slots=True)
class ConsoleSink(Sink):
    """Rows printed as a table, for trying things out."""

    rows: int = 20

    def take(self, delivery: Delivery) -> None:
        """Print the first rows."""
        if delivery.is_empty:
            return
        table = delivery.whole()
        shown = _aligned(table.slice(0, self.rows))
        more = f"\n... {table.num_rows - self.rows:,} more" if table.num_rows > self.rows else ""
        sys.stdout.write(f"-- {delivery.name}, batch {delivery.batch}: {table.num_rows:,} rows\n{shown}{more}\n")
        sys.stdout.flush()


@dataclass(slots=True)
class MemorySink(Sink):
    """Rows kept in the driver and shown as a temporary view of the query's name; gone when the driver ends."""

    spark: SparkSession  # the user's own: a batch has another session, whose views the user can't see
    view: str | None = None
    tables: dict[int, pa.Table] = field(default_factory=dict)  # by batch: a repeated one replaces its first try

    def prepare(self, name: str) -> None:
        """Take the query's name if none was given."""
        self.view = self.view or name

    def take(self, delivery: Delivery) -> None:
        """Keep the rows and show them."""
        if delivery.table is None:
            return
        self.tables[delivery.batch] = delivery.whole()
        whole = pa.concat_tables([self.tables[batch] for batch in sorted(self.tables)])
        self.spark.createDataFrame(whole).createOrReplaceTempView(str(self.view))


@dataclass(slots=True)
class DeltaSink(Sink):
    """A Delta Lake table, exactly once: Delta ignores a batch whose number it already has from this stream."""

    spark: SparkSession
    options: dict[str, Any]

    def prepare(self, name: str) -> None:
        """Raise JobError `job.sink` if the session has no Delta Lake."""
        loader: Any = self.spark._jvm
        try:
            loader.java.lang.Class.forName(
                "io.delta.sql.DeltaSparkSessionExtension", True, loader.Thread.currentThread().getContextClassLoader()
            )
        except Exception as error:
            raise JobError(
                "job.sink",
                f"query {name} writes to Delta Lake, which this Spark session doesn't have",
                "pip install delta-spark and start Spark with its package, or write parquet",
            ) from error

    def take(self, delivery: Delivery) -> None:
        """Append in one Delta transaction, which records the stream and the batch."""
        batch = {"txnAppId": f"trimtab-{delivery.incarnation}-{delivery.name}", "txnVersion": str(delivery.batch)}
        FormatSink("delta", batch | self.options).take(delivery)


@dataclass(slots=True)
class FormatSink(Sink):
    """Any format that Spark can append to. At least once: a batch that is repeated after a crash is appended again.

    If something is wrong, Spark raises it in the first batch.
    """

    format: str
    options: dict[str, Any]

    def take(self, delivery: Delivery) -> None:
        """Append."""
        if not delivery.is_empty:
            delivery.frame().write.format(self.format).mode("append").options(**self.options).save()


def make_sink(spark: SparkSession, target: Any, options: dict[str, Any]) -> Sink:
    """The sink that `.write(...)` asks for."""
    if not isinstance(target, str):
        if not callable(target):
            message = f"a sink is the name of a format or a function, not {target!r}"
            raise JobError("job.sink", message, 'write for example .write("parquet", path="out/")')
        if options:
            raise JobError("job.sink", f"a function takes no options, but got {', '.join(options)}")
        return FunctionSink(target)
    match target.lower():
        case "parquet":
            if "path" not in options:
                raise JobError("job.sink", "a parquet sink needs a path", 'write .write("parquet", path="out/")')
            return ParquetSink(**_only(target, options, ("path", "compression")))
        case "console":
            return ConsoleSink(**_only(target, options, ("rows",)))
        case "memory":
            return MemorySink(spark, **_only(target, options, ("view",)))
        case "delta":
            return DeltaSink(spark, options)
        case _:
            return FormatSink(target, options)


def _only(format_: str, options: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    for name in options:
        if name not in known:
            message = f"a {format_} sink has no option {name}"
            raise JobError("job.sink", message, f"it has {', '.join(known)}")
    return options


def _aligned(table: pa.Table) -> str:
    """Rows as text in columns."""
    rows = [["null" if value is None else str(value) for value in row.values()] for row in table.to_pylist()]
    cells = [table.column_names, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
