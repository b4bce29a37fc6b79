"""A local Spark for the benchmarks, and the times of a streaming query's batches over a folder of files."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.spark.ticks import SPARK_SCHEMA

PROJECT = Path(__file__).resolve().parents[2]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "6g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.executorEnv.PYTHONPATH": str(PROJECT),  # so that workers can import the benchmarks from any working folder
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
}
"""The same for every peer. A batch's rows are passed to Python in as few pieces as Spark allows."""

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Further settings for Spark's own state, as its guide recommends for short batches."""

Start = Callable[[DataFrame], "DataStreamWriter"]
"""From the stream of ticks to the query, not yet started."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Spark's measures of one batch."""

    number: int
    rows: int
    trigger_ms: int
    """The whole trigger: finding files, logs, planning and running."""
    add_batch_ms: int
    """Running it alone."""
    durations_ms: Mapping[str, int]


def local_session(cores: int = 2, **conf: str) -> SparkSession:
    """A session on `local[cores]`; settings have their dots written as two underscores.

    If Spark runs already, it is used, with a new session, so that the settings affect no other.
    """
    wanted = SETTINGS | ROCKSDB | {name.replace("__", "."): value for name, value in conf.items()}
    running = SparkSession.getActiveSession()
    if running is not None:
        session = running.newSession()
        for name, value in wanted.items():
            if name.startswith("spark.sql."):
                session.conf.set(name, value)
        return session
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("trimtab benchmarks")
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def ticks_of(spark: SparkSession, folder: Path, *, files_per_batch: int = 1) -> DataFrame:
    """The folder as a stream, one file per batch."""
    reader = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", files_per_batch)
    return reader.parquet(str(folder))


def run_stream(
    spark: SparkSession, folder: Path, checkpoint: Path, start: Start, *, files_per_batch: int = 1
) -> tuple[Batch, ...]:
    """Run a query over the folder's files that it hasn't read yet, and return its batches."""
    writer = start(ticks_of(spark, folder, files_per_batch=files_per_batch)).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        query.awaitTermination()
        return batches_of(query)
    finally:
        query.stop()


def batches_of(query: StreamingQuery) -> tuple[Batch, ...]:
    """The batches of a query so far, except those without rows."""
    found = []
    for progress in query.recentProgress:
        durations = {name: int(ms) for name, ms in progress["durationMs"].items()}
        rows = int(progress["numInputRows"])
        if rows:
            number = int(progress["batchId"])
            found.append(Batch(number, rows, durations["triggerExecution"], durations["addBatch"], durations))
    return tuple(found)


def median_trigger_ms(batches: Sequence[Batch], *, warm_up: int = 1) -> float:
    """The median time of a batch, without the first ones, which also start workers and compile."""
    return statistics.median(batch.trigger_ms for batch in batches[warm_up:])


def events_per_s(batches: Sequence[Batch], *, warm_up: int = 1) -> float:
    """Rows a second in the median batch, without the first ones."""
    return statistics.median(1000 * batch.rows / batch.trigger_ms for batch in batches[warm_up:])


def describe(name: str, batches: Sequence[Batch]) -> str:
    """One line for a terminal."""
    times = ", ".join(str(batch.trigger_ms) for batch in batches)
    return f"{name}: {events_per_s(batches):,.0f} events/s, {median_trigger_ms(batches):,.0f} ms a batch ({times})"
