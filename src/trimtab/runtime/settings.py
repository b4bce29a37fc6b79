"""Settings of Spark that a job's own session needs, whatever the user's has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

_BY_RENAMING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

FOR_JOBS: Mapping[str, str] = {
    # The engines' number and partitions are trimtab's to decide.
    "spark.sql.adaptive.enabled": "false",
    # An engine wants its rows in few, large pieces.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000000",
    # A division by zero or a bad cast gives null, in tier 1 as in `evaluate`; what still fails goes to quarantine.
    "spark.sql.ansi.enabled": "false",
}
ON_LOCAL_DISK: Mapping[str, str] = {
    # Spark's offset and commit logs written by renaming files, without a file context for each of them: 160 -> 60 ms.
    "spark.sql.streaming.checkpointFileManagerClass": _BY_RENAMING,
}


@contextmanager
def session_with(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with other settings for a moment: a streaming query keeps those that it is started with."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
