"""Whether the servers that a job reads from accept connections, checked without their own clients.

Kafka's own client retries for a minute before it gives up, and then reports only a time-out.
"""

from __future__ import annotations

import queue
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab.cli.job_sections import JobFile
from trimtab.errors import JobError

TIMEOUT_S = 2.0
SERVERS = "kafka.bootstrap.servers"

_SERVER = re.compile(r"(?:[\w.%-]*://)?\[?([\w.%:-]+?)\]?:(\d+)")  # as Kafka's client reads it
_HERE = ("localhost", "127.0.0.1", "::1")
_LISTENING = "0A"
Address = tuple[str, int]


def check_kafka(file: JobFile, timeout_s: float = TIMEOUT_S) -> None:
    """Check that a broker of each Kafka stream accepts a connection; all are tried at once.

    Raises JobError `job.source`.
    """
    servers = {s.name: s.options[SERVERS] for s in file.streams if s.format == "kafka" and SERVERS in s.options}
    brokers = {name: addresses(text) for name, text in servers.items()}
    for name, reasons in silent({name: found for name, found in brokers.items() if found}, timeout_s).items():
        tried = ", ".join(f"{host}:{port} ({reason})" for (host, port), reason in reasons.items())
        message = f"{file.path}: streams.{name}.options.{SERVERS}: no broker can be reached: {tried}"
        raise JobError("job.source", message, "start Kafka, or correct the addresses: a job needs one that answers")


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


def addresses(servers: str) -> list[Address]:
    """The hosts and ports in a list as Kafka writes it; empty if it can't be read: Kafka reports that itself.

    >>> addresses("broker:9092, PLAINTEXT://[::1]:9093")
    [('broker', 9092), ('::1', 9093)]
    """
    found = [_SERVER.fullmatch(each.strip()) for each in servers.split(",") if each.strip()]
    return [(match[1], int(match[2])) for match in found if match] if all(found) else []


def silent(groups: Mapping[str, Sequence[Address]], timeout_s: float) -> dict[str, dict[Address, str]]:
    """The groups none of whose addresses accepts a connection in time, with the reason of each address."""
    answers: queue.SimpleQueue[tuple[Address, str]] = queue.SimpleQueue()
    wanted = {address for group in groups.values() for address in group}
    for address in wanted:
        # Daemons: a name server that doesn't answer can hold them for much longer than the time-out.
        threading.Thread(target=_try, args=(address, timeout_s, answers), daemon=True).start()
    reasons: dict[Address, str] = {}
    waiting = {name: list(group) for name, group in groups.items()}
    until = time.monotonic() + timeout_s
    while any(address not in reasons for group in waiting.values() for address in group):
        try:
            address, reason = answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        if reason:
            reasons[address] = reason
        else:
            waiting = {name: group for name, group in waiting.items() if address not in group}
    late = f"no answer within {timeout_s:g} s"
    return {name: {address: reasons.get(address, late) for address in group} for name, group in waiting.items()}


def _try(address: Address, timeout_s: float, answers: queue.SimpleQueue[tuple[Address, str]]) -> None:
    try:
        with socket.create_connection(address, timeout_s):
            answers.put((address, ""))
    except TimeoutError:
        answers.put((address, f"no answer within {timeout_s:g} s"))
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
        answers.put((address, getattr(error, "strerror", None) or str(error)))


def _is_listened_to(port: int) -> bool:
    """Whether a program of this machine listens on the port; True where the kernel has no table of ports."""
    tables = [path for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if path.exists()]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return not tables or any(int(row[1].rpartition(":")[2], 16) == port and row[3] == _LISTENING for row in rows)
