"""Whether the servers that a job reads from or writes to accept connections, checked without their own clients.

Kafka's own client retries for a minute before it gives up, and then reports only a time-out.
"""

from __future__ import annotations

import queue
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence

TIMEOUT_S = 2.0

_SERVER = re.compile(r"(?:[\w.%-]*://)?\[?([\w.%:-]+?)\]?:(\d+)")  # as Kafka's client reads it
Address = tuple[str, int]


def unreachable(servers: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """The names whose Kafka servers all refuse a connection, or don't answer in time, with the reason of each server.

    All are tried at once. Servers that can't be read are left to Kafka, which reports them itself.
    """
    brokers = {name: found for name, text in servers.items() if (found := addresses(text))}
    return {
        name: ", ".join(f"{host}:{port} ({reason})" for (host, port), reason in reasons.items())
        for name, reasons in silent(brokers, timeout_s).items()
    }


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
