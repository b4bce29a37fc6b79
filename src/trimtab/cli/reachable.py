"""Whether the servers that a job file names accept connections: those of its streams, and Kafka's of its sinks."""

from __future__ import annotations

from pathlib import Path

from trimtab.cli.job_sections import JobFile, SinkSection, StreamSection
from trimtab.errors import JobError
from trimtab.spark.brokers import TIMEOUT_S, unreachable
from trimtab.spark.sink_formats import SERVERS, option

KAFKA = ("kafka", "org.apache.spark.sql.kafka010.KafkaSourceProvider")
_HERE = ("localhost", "127.0.0.1", "::1")
_LISTENING = "0A"


def check_kafka(file: JobFile, timeout_s: float = TIMEOUT_S) -> None:
    """Check that a broker of each Kafka stream and sink accepts a connection.

    Raises JobError `job.source` or `job.sink`.
    """
    streams = {f"streams.{each.name}": each for each in file.streams}
    all_parts: dict[str, StreamSection | SinkSection] = {**streams, **file.sinks()}
    servers = {place: option(each.options, SERVERS) for place, each in all_parts.items() if each.format in KAFKA}
    for place, tried in unreachable(servers, timeout_s).items():
        message = f"{file.path}: {place}.options.{SERVERS}: no broker can be reached: {tried}"
        code = "job.source" if place in streams else "job.sink"
        raise JobError(code, message, "start Kafka, or correct the addresses: a job needs one that answers")


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
