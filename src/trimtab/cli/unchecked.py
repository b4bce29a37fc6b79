"""What `trimtab run --check` can't check, as lines for people: it starts no Spark, and runs no code of the job."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.cli.job_file import PACKAGED, SINKS, SOURCES, columns_known
from trimtab.cli.job_queries import Streams, compile_known
from trimtab.cli.job_sections import JobFile
from trimtab.cli.reachable import KAFKA
from trimtab.spark.sink_formats import local_folder


def unchecked(file: JobFile) -> list[str]:
    """Each part of a job that only its start checks, with its place in the file; the file has no mistakes."""
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
            yield f"{place}: its columns, which only Spark knows"
        if stream.where is not None:
            yield f"{place}.where: it is Spark's SQL"
        yield from _format(f"{place}.format", stream.format, SOURCES)
        if stream.format in KAFKA:
            yield f"{place}.options: whether the topics exist and may be read"
        elif stream.format == "socket":
            yield f"{place}.options: whether a connection is accepted"
        elif local_folder(stream.options.get("path", "")) is None:
            yield f"{place}.path: whether it exists and may be read"


def _queries(file: JobFile) -> Iterator[str]:
    streams: Streams = {each.name: (columns_known(each), each.event_time) for each in file.streams}
    for query in file.queries:
        left: list[str] = []
        if compile_known(query.sql, streams, are_operators_known=file.are_modules_imported, left=left) is None:
            yield f"queries.{query.name}: its names and types: {'; '.join(left)}"


def _sinks(file: JobFile) -> Iterator[str]:
    for place, sink in file.sinks().items():
        if sink.format:
            yield from _format(f"{place}.format", sink.format, SINKS)
            if sink.format in KAFKA:
                yield f"{place}: whether the query has the columns that Kafka needs, and the topic may be written"
            elif local_folder(sink.options.get("path", "")) is None:
                yield f"{place}.path: whether it may be written"


def _format(place: str, format_: str, known: tuple[str, ...]) -> Iterator[str]:
    if format_ not in known or format_ in PACKAGED:
        yield f"{place}: whether Spark has {format_}"
