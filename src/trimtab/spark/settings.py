"""Spark settings that a job needs, whatever the user's session has, and sessions with these settings.

A job runs beside the user's own code, so it leaves the user's session alone and works on copies of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

JavaSession = Any
"""A Spark session's Java object."""

FOR_RUNNING: Mapping[str, str] = {
    # trimtab decides how many engines there are, and Spark must keep their partitions.
    "spark.sql.adaptive.enabled": "false",
    # An engine is fastest if its rows come in few, large pieces.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000000",
}
"""Settings that count where a batch runs. What the user's own DataFrame computes runs with it, and isn't changed."""
FOR_JOBS: Mapping[str, str] = {
    **FOR_RUNNING,
    # A division by zero or a bad cast gives null, in tier 1 as in `evaluate`; what still fails goes to quarantine.
    "spark.sql.ansi.enabled": "false",
    # Hours and days are those of UTC, in tier 1 as after the operator and in `evaluate`, whatever the session's zone.
    "spark.sql.session.timeZone": "UTC",
}
"""Settings that count where tier 1 is analysed."""
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_BY_RENAMING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_TURN = threading.Lock()  # two jobs that start at the same time would restore each other's settings


def set_for_jobs(session: JavaSession, settings: Mapping[str, str] = FOR_RUNNING) -> None:
    """Set these on a session that only a job uses."""
    conf = session.conf()
    for name, value in settings.items():
        conf.set(name, value)


def copy_for_jobs(spark: SparkSession) -> JavaSession:
    """A copy of a session as it is now, with its functions and views, and with `FOR_JOBS`.

    It has no Python object of its own: making one would redirect every program's `rdd.toDF()` to it.
    """
    own: JavaSession = spark._jsparkSession.cloneSession()
    set_for_jobs(own, FOR_JOBS)
    return own


def on_session(frame: DataFrame, session: JavaSession) -> DataFrame:
    """The same DataFrame in another session: what is built on it is analysed with that session's settings."""
    spark = frame.sparkSession
    jvm: Any = spark._jvm
    plan = frame._jdf.logicalPlan()
    return ClassicDataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), spark)


@contextmanager
def logs_by_renaming(spark: SparkSession, *, is_local: bool) -> Iterator[None]:
    """Let streaming queries started inside the block write their logs by renaming files, if these are on a local disk.

    Without a file context for each of them, offset and commit logs take 60 instead of 160 ms a batch. A query takes
    this setting from the session that it is started in, which is the user's; it is restored afterwards.
    """
    if not is_local:
        yield
        return
    with _TURN:
        before = spark.conf.get(_FILE_MANAGER, None)
        spark.conf.set(_FILE_MANAGER, _BY_RENAMING)
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_FILE_MANAGER)
            else:
                spark.conf.set(_FILE_MANAGER, before)
