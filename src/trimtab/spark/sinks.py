"""Sinks: where the rows of a query go, batch after batch.

A sink takes each batch before it is committed, so after a crash the same batch may come again, with the same rows and
the same number. Parquet files are named by that number, which makes them exactly once; Delta Lake records the number
and ignores a repeated one, and Kafka has the number in the same transaction. A user's function gets the number. Any
other Spark format is at least once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trimtab.errors import JobError, TrimtabError
from trimtab.spark.brokers import unreachable
from trimtab.spark.error_text import reason
from trimtab.spark.frames import frame_of
from trimtab.spark.outbox import ROWS_AT_ONCE, Piece, tables_of
from trimtab.spark.sink_formats import (
    PARQUET_OPTIONS,
    PARTITION_BY,
    READ_ONLY,
    SERVERS,
    kafka_lacks,
    local_folder,
    missing_option,
    option,
    partition_columns,
    place_of,
)
from trimtab.state.checkpoint import spark_location
from trimtab.state.files import Folder
from trimtab.worker.orders import Output, packed

BatchFunction = Callable[..., None]
"""Called with a DataFrame, the batch's number and, if it has a parameter of that name, the stream's incarnation."""
INCARNATION = "incarnation"


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
    job: str = ""  # the checkpoint's id
    epoch: int = 0  # of the job, as the owner of its checkpoint
    home: Folder | None = None  # the stream's in the checkpoint, where a sink may note something

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return self.table is None

    def frame(self) -> DataFrame:
        """The rows as a DataFrame: those in memory are a part of Spark's plan, those in files are read by its tasks."""
        small = frame_of(self.spark, self.table)
        if not self.files:
            return small
        files = [f"{spark_location(self.outbox)}/{file}" for file in self.files]
        large = self.spark.read.schema(small.schema).parquet(*files)
        return small.unionByName(large) if self.table else large

    def whole(self) -> pa.Table:
        """All rows, in the driver's memory."""
        assert self.table is not None
        return pa.concat_tables(list(self.parts()))

    def parts(self) -> Iterator[pa.Table]:
        """All rows: those in memory, and then those of the files, some at a time."""
        if self.table is not None:
            yield self.table
            for file in self.files:
                yield from tables_of(self.outbox, file, self.table.schema)

    def pieces(self) -> list[Piece]:
        """All rows as parts for tasks, in the same order: the driver reads no file."""
        assert self.table is not None
        table, schema, found = self.table, self.table.schema, list[Piece]()
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            found.append(Piece(len(found), self.outbox, schema, rows=packed(table.slice(start, ROWS_AT_ONCE))))
        return found + [Piece(len(found) + n, self.outbox, schema, file) for n, file in enumerate(self.files)]


class Sink:
    """Where a query's rows go."""

    @property
    def shown(self) -> str:
        """What it is called in messages."""
        raise NotImplementedError

    def place(self, name: str) -> str:
        """What no other sink may write to; "": several may. `name`: what the rows are called."""
        del name
        return ""

    def prepare(self, name: str, columns: Sequence[str]) -> None:
        """Called once when the job starts, before anything runs; raises JobError or StateError for what can't work.

        `name`: what the rows are called. `columns`: their columns.
        """

    def may_run_apart(self, outputs: Sequence[Output]) -> bool:
        """Whether a batch with these rows may be taken in any thread: that runs no Spark job, and no code of users."""
        del outputs
        return False

    @property
    def is_on_disk(self) -> bool:
        """Whether it writes to a disk of this machine, and so hardly waits."""
        return False

    def take(self, delivery: Delivery) -> None:
        """Take a batch."""
        raise NotImplementedError

    def deliver(self, delivery: Delivery) -> None:
        """Let the sink take a batch. What it raises becomes a JobError `job.sink-failed`, or says where it was."""
        where = f"sink {self.shown} of {delivery.name}"
        try:
            self.take(delivery)
        except TrimtabError as error:
            error.add_note(where)
            raise
        except Exception as error:
            message = f"{where} failed in batch {delivery.batch}: {reason(error)}"
            hint = "nothing of the batch is committed: the next start gives it to the sink again"
            raise JobError("job.sink-failed", message, hint) from error


@dataclass(slots=True)
class FunctionSink(Sink):
    """A user's function, called with (DataFrame, batch id) for every batch that has rows, in event-time order.

    What an engine puts out beyond 2 MB is read from a file, which is in order by itself, and deleted after the batch.

    After a crash the last batch may come again with the same id and the same rows: a function that remembers which ids
    it has handled, or writes by id, is exactly once. Ids begin again at 0 with another incarnation of the stream: a
    function that has a parameter `incarnation` is given it, too.
    """

    function: BatchFunction

    @property
    def shown(self) -> str:
        """The function's module and name."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{getattr(self.function, '__module__', '')}.{name}"

    def take(self, delivery: Delivery) -> None:
        """Call the function."""
        if not delivery.is_empty:
            more = {INCARNATION: delivery.incarnation} if _has_parameter(self.function, INCARNATION) else {}
            self.function(delivery.frame(), delivery.batch, **more)


def _has_parameter(function: Callable[..., None], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # functions of C code may not tell
        return False


@dataclass(slots=True)
class ConsoleSink(Sink):
    """Rows printed as a table, for trying things out."""

    rows: int = 20

    @property
    def shown(self) -> str:
        """The console."""
        return "console"

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

    @property
    def shown(self) -> str:
        """The view."""
        return f"memory, view {self.view}"

    def place(self, name: str) -> str:
        """The view."""
        return place_of("memory", {"view": self.view or ""}, name)

    def prepare(self, name: str, columns: Sequence[str]) -> None:
        """Take the query's name if none was given."""
        del columns
        self.view = self.view or name

    def take(self, delivery: Delivery) -> None:
        """Keep the rows and show them."""
        if delivery.table is None:
            return
        self.tables[delivery.batch] = delivery.whole()
        whole = pa.concat_tables([self.tables[batch] for batch in sorted(self.tables)])
        frame_of(self.spark, whole).createOrReplaceTempView(str(self.view))


@dataclass(slots=True)
class FormatSink(Sink):
    """Any format that Spark can append to. At least once: a batch that is repeated after a crash is appended again."""

    spark: SparkSession
    format: str
    options: dict[str, Any]

    @property
    def shown(self) -> str:
        """The format, and the folder or topic."""
        path = option(self.options, "path")
        return f"{self.format} {Folder(path).shown if path else option(self.options, 'topic')}".rstrip()

    def place(self, name: str) -> str:
        """The folder, if it has one: of a topic or a database Spark's writers share what they write."""
        return place_of(self.format, self.options, name)

    def prepare(self, name: str, columns: Sequence[str]) -> None:
        """Raise JobError `job.sink` if Spark has no such format, an option is missing, or no Kafka broker answers."""
        wrong = f"{name}: nothing can be written to {self.format}"
        if self.format.lower() in READ_ONLY:
            raise JobError("job.sink", wrong, "it is a format that streams are read from")
        if (missing := missing_option(self.format, self.options)) is not None:
            raise JobError("job.sink", f"{wrong} without the option {missing}", f"add {missing} to the sink's options")
        self._check_installed(name)
        if self.format.lower() == "kafka":
            if lacking := kafka_lacks(self.options, columns):
                message = f"{wrong} without {lacking}"
                raise JobError("job.sink", message, f"the columns are {', '.join(columns)}")
            for tried in unreachable({name: option(self.options, SERVERS)}).values():
                message = f"{name}: no Kafka broker of its sink can be reached: {tried}"
                raise JobError("job.sink", message, "start Kafka, or correct the addresses")
        if self.is_on_this_disk and (folder := local_folder(option(self.options, "path"))) is not None:
            folder.check_writable()

    @property
    def is_on_this_disk(self) -> bool:
        """Whether Spark takes a path without a scheme for one of this machine's disk."""
        context: Any = self.spark.sparkContext
        default = context._jsc.hadoopConfiguration().get("fs.defaultFS")
        return option(self.options, "path").startswith("file:/") or str(default).startswith("file:")

    def _check_installed(self, name: str) -> None:
        """Raise JobError `job.sink` if neither a class on Spark's path nor a Python data source has the format."""
        jvm: Any = self.spark._jvm
        conf = self.spark._jsparkSession.sessionState().conf()
        try:
            jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(self.format, conf)
        except Exception as error:
            message = f"{name}: this Spark session has no format {self.format}: {reason(error)}"
            hint = "correct its name, or start Spark with its package: spark.jars.packages=group:name:version"
            raise JobError("job.sink", message, hint) from error

    def take(self, delivery: Delivery) -> None:
        """Append."""
        self.append(delivery, self.options)

    def append(self, delivery: Delivery, options: Mapping[str, Any]) -> None:
        """Append with these options."""
        if not delivery.is_empty:
            writer = delivery.frame().write.format(self.format).mode("append")
            if by := partition_columns(options):
                writer = writer.partitionBy(*by)
            writer.options(**{name: value for name, value in options.items() if name not in PARTITION_BY}).save()


class DeltaSink(FormatSink):
    """A Delta Lake table, exactly once: Delta ignores a batch whose number it already has from this stream."""

    def take(self, delivery: Delivery) -> None:
        """Append in one Delta transaction, which records the stream and the batch."""
        batch = {"txnAppId": transaction_of(delivery), "txnVersion": str(delivery.batch)}
        self.append(delivery, batch | self.options)


def transaction_of(delivery: Delivery) -> str:
    """By which name Delta knows the stream's batches of a query."""
    return f"trimtab-{delivery.incarnation}-{delivery.name}"


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
            from trimtab.spark.parquet_sink import parquet_sink  # it needs what is defined here

            return parquet_sink(_only(target, options, PARQUET_OPTIONS))
        case "console":
            return ConsoleSink(**_only(target, options, ("rows",)))
        case "memory":
            return MemorySink(spark, **_only(target, options, ("view",)))
        case "delta":
            from trimtab.spark.delta_sink import delta_table_sink

            return delta_table_sink(options) or DeltaSink(spark, target, options)
        case "kafka" if not option(options, SERVERS):
            from trimtab.spark.kafka_sink import kafka_sink

            return kafka_sink(options)
        case _:
            return FormatSink(spark, target, options)


def prepare_sinks(outputs: Mapping[str, tuple[Sequence[Sink], Sequence[str]]], checkpoint: str) -> None:
    """Prepare the sinks of a job before anything runs; each output has a name, sinks and columns.

    Raises JobError `job.sink` for two sinks into one place or one into the checkpoint, and what `Sink.prepare` raises.
    """
    writers = {place_of("parquet", {"path": checkpoint}, ""): "the checkpoint"}
    for name, (sinks, _) in outputs.items():
        for sink in sinks:
            place = sink.place(name)
            if place in writers:
                message = f"{writers[place]} and {name} both write to {place}"
                raise JobError("job.sink", message, "give each sink a place of its own")
            if place:
                writers[place] = name
    for name, (sinks, columns) in outputs.items():
        for sink in sinks:
            sink.prepare(name, columns)


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
