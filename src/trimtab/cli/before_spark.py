"""Checks of a job before Spark is started. Nothing here creates, locks or changes anything.

A mistake raises the error that the job would end with later, perhaps after a minute.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trimtab.cli.job_file import PACKAGED, SINKS, SOURCES
from trimtab.cli.job_queries import Streams, columns_known, compile_known, known_source, known_streams
from trimtab.cli.job_sections import JobFile, OwnSource, SinkSection, StreamSection
from trimtab.deciding.policy import DEFAULT
from trimtab.driver import resuming
from trimtab.driver.batch_plan import BatchPlan
from trimtab.driver.changed_source import check_reader
from trimtab.driver.splitting import check_split
from trimtab.errors import JobError, QueryError
from trimtab.language.compiled import Query
from trimtab.planning.linear_program import need_solvers
from trimtab.planning.registry import solvers_of
from trimtab.sources.kafka_clients import confluent_kafka
from trimtab.sources.source import identity_of
from trimtab.spark.brokers import TIMEOUT_S, unreachable
from trimtab.spark.sink_formats import (
    FILE_FORMATS,
    OWN_SERVERS,
    SERVERS,
    is_own_kafka,
    kafka_lacks,
    local_folder,
    option,
)
from trimtab.spark.source_options import unknown_options
from trimtab.state.checkpoint import Checkpoint
from trimtab.state.files import Folder
from trimtab.state.lock import check_free
from trimtab.state.manifest import Manifest
from trimtab.worker.ways import obstacle_told

KAFKA = ("kafka", "org.apache.spark.sql.kafka010.KafkaSourceProvider")
_HERE = ("localhost", "127.0.0.1", "::1")
_LISTENING = "0A"


def check_before_spark(file: JobFile) -> None:
    """Check what a job needs besides its (already checked) file: its folders, its checkpoint, its sources.

    Raises JobError, StateError or BalanceError for the first thing that is wrong.
    """
    if file.balance is not None or file.scale is not None:
        need_solvers(*solvers_of((file.balance or DEFAULT).planner))
    _check_inputs(file)
    for folder in _written(file):
        folder.check_writable()
    streams = known_streams(file.streams)
    known = file.are_modules_imported
    queries = {each.name: compile_known(each.sql, streams, are_operators_known=known) for each in file.queries}
    _check_splits(file, queries)
    _check_checkpoint(file, streams, queries)
    check_socket(file)
    if any(each.own is not None and each.own.kind == "kafka" for each in file.streams):
        confluent_kafka()  # raises if it isn't installed
    check_kafka(file)


def _check_inputs(file: JobFile) -> None:
    """Check that the folders that streams read exist, where they are on this machine."""
    for stream in file.streams:
        path = stream.options.get("path", "")
        # What trimtab reads itself is on this machine whatever Spark is told, and its paths have no wildcards.
        is_elsewhere = stream.own is None and (not _is_local(file) or set(path) & set("*?[{"))
        folder = None if is_elsewhere else local_folder(path)
        is_folder = stream.format in FILE_FORMATS or (stream.own is not None and bool(stream.own.path))
        if is_folder and folder is not None and not folder.exists():
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
    begun = resuming.begun_batches(checkpoint, versions)
    for stream in file.streams:
        version, start_at = versions.get(stream.name), stream.time.get("start_at")
        source = identity_of(None if stream.own is None else stream.own.source)
        check_reader(stream.name, version, begun.get(stream.name), start_at, source=source)
    _check_changes(file, streams, queries, versions, begun)
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
            raise resuming.changed_query(name, state, "")
        try:
            before = compile_known(state.sql, streams)
        except QueryError:
            continue
        if query is None or before is None or resuming.fingerprint(before) != state.fingerprint:
            continue
        if query.source != stream or resuming.fingerprint(query) != state.fingerprint:
            raise resuming.changed_query(name, state, query.sql)


def _sink_columns(file: JobFile) -> dict[str, Sequence[str] | None]:
    """The columns that each sink gets, by its place; None if only Spark knows them."""
    streams, known = known_streams(file.streams), file.are_modules_imported
    found = {f"streams.{name}": columns and columns.names for name, (columns, _) in streams.items()}
    for each in file.queries:
        query = compile_known(each.sql, streams, are_operators_known=known)
        found[f"queries.{each.name}"] = query and [name for name, _ in query.finish.columns]
    return {place: found[".".join(place.split(".")[:2])] for place in file.sinks()}


def check_kafka(file: JobFile, timeout_s: float = TIMEOUT_S) -> None:
    """Check that Kafka's sinks get the columns that it needs, and a broker of each stream and sink takes a connection.

    Raises JobError `job.source` or `job.sink`.
    """
    columns = _sink_columns(file)
    for place, sink in file.sinks().items():
        names = columns[place]
        if sink.format in KAFKA and names is not None and (lacking := kafka_lacks(sink.options, names)):
            message = f"{file.path}: {place}: nothing can be written to kafka without {lacking}"
            raise JobError("job.sink", message, f"the columns are {', '.join(names)}")
    streams = {f"streams.{each.name}": each for each in file.streams}
    all_parts: dict[str, StreamSection | SinkSection] = {**streams, **file.sinks()}
    servers = {f"{place}.{key}": found for place, each in all_parts.items() for key, found in _servers(each)}
    of_streams = {f"{place}.{key}" for place, each in streams.items() for key, _ in _servers(each)}
    for place, tried in unreachable(servers, timeout_s).items():
        message = f"{file.path}: {place}: no broker can be reached: {tried}"
        code = "job.source" if place in of_streams else "job.sink"
        raise JobError(code, message, "start Kafka, or correct the addresses: a job needs one that answers")


def _servers(part: StreamSection | SinkSection) -> list[tuple[str, str]]:
    """The setting that names brokers, and its value, if a part of a job has one."""
    if isinstance(part, StreamSection) and part.own is not None:
        return [("servers", part.own.servers)] if part.own.servers else []
    if part.format not in KAFKA:
        return []
    key = OWN_SERVERS if is_own_kafka(part.format, part.options) else SERVERS
    return [(f"options.{key}", option(part.options, key))]


def check_socket(file: JobFile) -> None:
    """Check that a program listens where a socket stream reads, if that is on this machine.

    No connection is made: a program that serves only one would take this one and end.

    Raises JobError `job.source`.
    """
    for stream in file.streams:
        host, port = stream.options.get("host", ""), stream.options.get("port", "")
        if stream.format == "socket" and host in _HERE and port.isdigit() and not _is_listened_to(int(port)):
            message = f"{file.path}: streams.{stream.name}.options.port: no program listens on port {port} of {host}"
            raise JobError("job.source", message, f"start the program to read from, for example nc -lk {port}")


def _is_listened_to(port: int) -> bool:
    """Whether a program of this machine listens on the port; True where the kernel has no table of ports."""
    tables = [path for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if path.exists()]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return not tables or any(int(row[1].rpartition(":")[2], 16) == port and row[3] == _LISTENING for row in rows)


# Which way rows go ---------------------------------------------------------------------------------


def slow_streams(file: JobFile) -> Iterator[str]:
    """Why streams that trimtab reads itself go through the JVM, as far as that is known without Spark; for people."""
    streams, known = known_streams(file.streams), file.are_modules_imported
    compiled = {each.name: compile_known(each.sql, streams, are_operators_known=known) for each in file.queries}
    for stream in file.streams:
        columns, event_time = streams[stream.name]
        if stream.own is not None and columns is not None:
            own = {name: each for name, each in compiled.items() if each is not None and each.source == stream.name}
            if (told := obstacle_told(stream.name, own, columns, event_time)) is not None:
                yield told


# What isn't checked --------------------------------------------------------------------------------


def unchecked(file: JobFile) -> list[str]:
    """Each part of a job that only its start checks, with its place in the file, as lines for people.

    That is what takes Spark or the job's own code; the file has no mistakes.
    """
    return [*_modules(file), *_streams(file), *_queries(file), *_sinks(file)]


def _modules(file: JobFile) -> Iterator[str]:
    for i, module in enumerate(file.operators):
        yield f"job.operators[{i}]: {module} is there, and is not imported"
    for place, sink in file.sinks().items():
        if sink.python:
            yield f"{place}.python: {sink.python} is there, and is not imported"


def _streams(file: JobFile) -> Iterator[str]:
    for stream in file.streams:
        place = f"streams.{stream.name}"
        if columns_known(stream) is None:
            yield f"{place}: its columns, which only {'Spark knows' if stream.own is None else 'its first file has'}"
        if stream.own is not None:
            yield from _own(place, stream.own)
            continue
        if stream.where is not None:
            yield f"{place}.where: it is Spark's SQL"
        yield from _format(f"{place}.format", stream.format, SOURCES)
        if left := unknown_options(stream.format, stream.options):
            yield f"{place}.options: whether {stream.format} has {', '.join(left)}"
        if stream.format in KAFKA:
            yield f"{place}.options: whether the topics exist and may be read"
        elif stream.format == "socket":
            yield f"{place}.options: whether a connection is accepted"
        elif local_folder(stream.options.get("path", "")) is None:
            yield f"{place}.path: whether it exists and may be read"


def _own(place: str, own: OwnSource) -> Iterator[str]:
    if own.servers:
        yield f"{place}.topics: whether the topics exist and may be read"
    elif local_folder(own.path) is None:
        yield f"{place}.path: whether it exists and may be read"


def _queries(file: JobFile) -> Iterator[str]:
    streams = known_streams(file.streams)
    for query in file.queries:
        left: list[str] = []
        if compile_known(query.sql, streams, are_operators_known=file.are_modules_imported, left=left) is None:
            yield f"queries.{query.name}: its names and types: {'; '.join(left)}"


def _sinks(file: JobFile) -> Iterator[str]:
    columns = _sink_columns(file)
    for place, sink in file.sinks().items():
        if sink.format:
            yield from _format(f"{place}.format", sink.format, SINKS)
            if sink.format in KAFKA:
                has_columns = "" if columns[place] else "the query has the columns that Kafka needs, and "
                yield f"{place}: whether {has_columns}the topic may be written"
            elif local_folder(sink.options.get("path", "")) is None:
                yield f"{place}.path: whether it may be written"


def _format(place: str, format_: str, known: tuple[str, ...]) -> Iterator[str]:
    if format_ not in known or format_ in PACKAGED:
        yield f"{place}: whether Spark has {format_}"
