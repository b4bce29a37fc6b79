"""What `Job` checks of its settings, and of its checkpoint, before it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from trimtab.api.stream import StreamHandle
from trimtab.control.intake import Held, Intake
from trimtab.driver.batch_plan import BatchPlan
from trimtab.driver.changed_source import check_reader
from trimtab.errors import JobError
from trimtab.sources.source import identity_of
from trimtab.spark.spark_log import SparkLog
from trimtab.state.checkpoint import Checkpoint, safe_name
from trimtab.state.manifest import Manifest
from trimtab.worker.free_memory import free_memory_share


def check_readers(
    streams: Mapping[str, StreamHandle],
    checkpoint: Checkpoint,
    versions: Mapping[str, Manifest],
    begun: Mapping[str, BatchPlan],
) -> None:
    """Raise JobError `job.source-changed` for a stream that doesn't know where it goes on."""
    for name, stream in streams.items():
        known, source = versions.get(name), identity_of(stream.source)
        log = SparkLog(checkpoint.folder.child("spark").child(safe_name(name)))
        upto = log.read_up_to(known.spark_batch) if known is not None and source else ""
        check_reader(name, known, begun.get(name), stream.start_at, source=source, read_by_spark=upto)


def check_intake(intake: Intake | None) -> None:
    """Raise JobError `job.intake` for a reference that this machine can't measure."""
    if intake is not None and intake.held is Held.FREE_MEMORY and free_memory_share() is None:
        message = "this machine doesn't tell how much of its memory is free, so free_memory_share can't be held"
        raise JobError("job.intake", message, "give batch_s, latency_s or backlog_rows")


def interval_s_of(spark: SparkSession, trigger: str | None) -> float | None:
    """The trigger's interval as Spark understands it; None: a batch begins as soon as there are rows."""
    if trigger is None:
        return None
    jvm: Any = spark._jvm
    try:
        return float(jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(str(trigger)).intervalMs()) / 1e3 or None
    except PySparkException as error:
        message = f"the trigger {trigger!r} is not a length of time"
        raise JobError("job.trigger", message, 'write for example "200 milliseconds"') from error


def check_name(what: str, name: str, taken: Mapping[str, Any]) -> None:
    """Raise JobError `job.name` for a name that can't be used, or is taken."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,99}", name):
        message = f"{name!r} can't be the name of a {what}"
        raise JobError("job.name", message, "a name has letters, digits and underscores, and starts with a letter")
    if name in taken:
        raise JobError("job.name", f"the job already has a {what} {name}", "give it another name")
