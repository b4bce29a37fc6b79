"""From a checked job file to a running job: the session, the sources, the queries and their sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trimtab.cli.around_spark import check_spark, spark_errors
from trimtab.cli.files import import_from
from trimtab.cli.job_sections import JobFile, SinkSection, StreamSection
from trimtab.driver.progress import BatchProgress, Progress


class RunningJob(Protocol):
    """What the command needs from a job that was started."""

    @property
    def progress(self) -> Progress:
        """How far it is."""

    @property
    def history(self) -> Sequence[BatchProgress]:
        """The last batches, oldest first."""

    def stop(self) -> None:
        """End after the batch that is under way."""

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; return whether the job has ended. Raises what the job failed with."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What the command runs on; tests use something lighter instead."""

    check: Callable[[], None]
    session: Callable[[JobFile], Any]
    job: Callable[..., Any]
    is_alive: Callable[[Any], bool] = lambda _: True


def start_session(file: JobFile) -> Any:
    """A Spark session as the file describes it; on `local[*]` if the file names no master."""
    from trimtab.spark.session import start_session

    master = file.conf.get("spark.master", file.master or "local[*]")
    # Workers import users' operators too.
    folders = [str(file.path.parent)] if file.operators else []
    return start_session(f"trimtab {file.path.stem}", master, file.conf, folders)


def make_job(spark: Any, **settings: Any) -> Any:
    """A `trimtab.Job`."""
    from trimtab.api.job import Job

    return Job(spark, **settings)


def is_alive(spark: Any) -> bool:
    """Whether Spark still works: it doesn't if Java was ended."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


SPARK = Backend(check_spark, start_session, make_job, is_alive)


def start(file: JobFile, spark: Any, make: Callable[..., Any]) -> RunningJob:
    """Build the job of a file on a session, and start it.

    Raises JobError `job.spark` where Spark refuses a source, naming the part of the file.
    """
    job = make(
        spark,
        checkpoint=file.checkpoint,
        engines=file.engines,
        key_groups=file.key_groups,
        balance=file.balance,
        scale=file.scale,
        intake=file.intake,
    )
    for section in file.streams:
        with spark_errors(f"streams.{section.name}"):
            rows = source(spark, section) if section.own is None else section.own.source
            times = {"event_time": section.event_time, "delay": section.delay, **section.time}
            stream = job.stream(section.name, rows, **times)
            if section.late is not None:
                stream.late(_target(file, section.late), **_options(section.late))
            if section.quarantine is not None:
                stream.quarantine(_target(file, section.quarantine), **_options(section.quarantine))
    for select in file.queries:
        with spark_errors(f"queries.{select.name}"):
            options = {"reset": select.reset} | ({} if select.split is None else {"split": select.split})
            query = job.query(select.name, select.sql, **options)
            for sink in select.sinks:
                query.write(_target(file, sink), **_options(sink))
    with spark_errors("the job"):
        running: RunningJob = (
            job.start(available_now=True, close=file.close) if file.available_now else job.start(trigger=file.trigger)
        )
    return running


def source(spark: Any, section: StreamSection) -> Any:
    """The streaming DataFrame of a stream: its source, then `where`, then `select`, as in SQL."""
    reader = spark.readStream.format(section.format).options(**section.options)
    if section.schema is not None:
        reader = reader.schema(section.schema)
    rows = reader.load()
    if section.where is not None:
        rows = rows.where(section.where)
    return rows.selectExpr(*section.select) if section.select else rows


def _target(file: JobFile, sink: SinkSection) -> Any:
    return import_from(file.path.parent, sink.python, is_function=True) if sink.python else sink.format


def _options(sink: SinkSection) -> dict[str, Any]:
    """The options of a sink: all are text, except the number of rows of the console."""
    if sink.format == "console" and "rows" in sink.options:
        return {**sink.options, "rows": int(sink.options["rows"])}
    return dict(sink.options)
