"""Checks of a job before Spark is started. Nothing here creates, locks or changes anything.

A mistake raises the error that the job would end with later, perhaps after a minute.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from trimtab.cli.job_file import columns_known
from trimtab.cli.job_queries import Streams, compile_known, known_source
from trimtab.cli.job_sections import JobFile
from trimtab.cli.reachable import check_kafka, check_socket
from trimtab.deciding.policy import DEFAULT
from trimtab.driver import resuming
from trimtab.driver.batch_plan import BatchPlan
from trimtab.driver.splitting import check_split
from trimtab.errors import JobError, QueryError
from trimtab.language.compiled import Query
from trimtab.planning.linear_program import need_solvers
from trimtab.planning.registry import solvers_of
from trimtab.spark.sink_formats import FILE_FORMATS, local_folder
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.files import Folder
from trimtab.state.lock import check_free
from trimtab.state.manifest import Manifest


def check_before_spark(file: JobFile) -> None:
    """Check what a job needs besides its (already checked) file: its folders, its checkpoint, its sources.

    Raises JobError, StateError or BalanceError for the first thing that is wrong.
    """
    if file.balance is not None or file.scale is not None:
        need_solvers(*solvers_of((file.balance or DEFAULT).planner))
    _check_inputs(file)
    for folder in _written(file):
        folder.check_writable()
    streams: Streams = {each.name: (columns_known(each), each.event_time) for each in file.streams}
    known = file.are_modules_imported
    queries = {each.name: compile_known(each.sql, streams, are_operators_known=known) for each in file.queries}
    _check_splits(file, queries)
    _check_checkpoint(file, streams, queries)
    check_socket(file)
    check_kafka(file)


def _check_inputs(file: JobFile) -> None:
    """Check that the folders that streams read exist, where they are on this machine."""
    for stream in file.streams if _is_local(file) else ():
        path = stream.options.get("path", "")
        folder = None if set(path) & set("*?[{") else local_folder(path)
        if stream.format in FILE_FORMATS and folder is not None and not folder.exists():
            message = f"{file.path}: streams.{stream.name}.path: there is no folder {path}"
            raise JobError("job.file", message, "make it, or point the stream at another one")


def _is_local(file: JobFile) -> bool:
    """Whether Spark reads paths without a scheme on this machine: it does unless a cluster or Hadoop is configured."""
    master = file.conf.get("spark.master", file.master or "local")
    has_hadoop = "HADOOP_CONF_DIR" in os.environ or "spark.hadoop.fs.defaultFS" in file.conf
    return master.startswith("local") and not has_hadoop


def _written(file: JobFile) -> Iterator[Folder]:
    """The folders that the job writes to: this process writes the checkpoint and parquet sinks, Spark the others."""
    yield Folder(file.checkpoint)
    for sink in file.sinks().values():
        path = sink.options.get("path", "")
        is_plain = path.startswith("/") and sink.format in FILE_FORMATS and _is_local(file)
        if path and (sink.format == "parquet" or is_plain):
            yield Folder(path)


def _check_splits(file: JobFile, queries: Mapping[str, Query | None]) -> None:
    before: dict[str, tuple[str, str | None]] = {}
    for section in file.queries:
        query = queries[section.name]
        if query is not None:
            others = {name: split for name, (source, split) in before.items() if source == query.source}
            check_split(section.name, query, section.split, others)
            before[section.name] = query.source, section.split


def _check_checkpoint(file: JobFile, streams: Streams, queries: Mapping[str, Query | None]) -> None:
    checkpoint = Checkpoint.look(file.checkpoint, file.key_groups)
    if checkpoint is None:
        return
    versions = resuming.last_versions(checkpoint)
    _check_changes(file, streams, queries, versions, resuming.begun_batches(checkpoint, versions))
    known = file.are_modules_imported
    sources = {known_source(each.sql, streams, are_operators_known=known) for each in file.queries}
    if None not in sources:
        resuming.open_streams([name for name in streams if name in sources], versions, close=file.close)
    check_free(checkpoint.folder)


def _check_changes(
    file: JobFile,
    streams: Streams,
    queries: Mapping[str, Query | None],
    versions: Mapping[str, Manifest],
    begun: Mapping[str, BatchPlan],
) -> None:
    """Raise for a query that certainly isn't the one whose state the checkpoint has.

    That is certain if the checkpoint's query, compiled here, has the same fingerprint as before: then columns and types
    are those that Spark will find, and only the text of the query has changed.
    """
    kept = {each.name for each in file.queries if not each.reset}
    for stream, name, state in resuming.states(versions, begun, kept):
        query = queries[name]
        if not resuming.is_signed(state):
            raise resuming.changed_query(name, state)
        try:
            before = compile_known(state.sql, streams)
        except QueryError:
            continue
        if query is None or before is None or resuming.fingerprint(before) != state.fingerprint:
            continue
        if query.source != stream or resuming.fingerprint(query) != state.fingerprint:
            raise resuming.changed_query(name, state)
