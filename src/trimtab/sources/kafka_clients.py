"""Connections to Kafka, by the package confluent-kafka: each process has its own, and keeps them for the next use.

A driver closes them when its stream ends. Workers of Spark are not told of that, and keep them as long as they live.

Nothing here reads a message. What the errors of Kafka mean is said here, too: whether it is of use to ask again.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trimtab.errors import JobError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka.admin import AdminClient

_log = logging.getLogger("trimtab.kafka")

Setting = str | int | float | bool | Callable[..., Any]

OWN = {
    "bootstrap.servers": "they are the argument servers",
    "metadata.broker.list": "they are the argument servers",
    "auto.offset.reset": "where a job begins is the argument start, and lost messages are an error",
    "enable.auto.commit": "the checkpoint has the offsets",
    "enable.auto.offset.store": "the checkpoint has the offsets",
    "enable.partition.eof": "the end of a partition is how trimtab knows that a range is read",
    "error_cb": "trimtab raises errors itself",
    "logger": "the log is Python's, with the name trimtab.kafka",
}
"""Options of librdkafka that can't be given, and why."""
_DEFAULTS: Mapping[str, Setting] = {
    "client.id": "trimtab",
    "reconnect.backoff.max.ms": 2_000,  # librdkafka's 10 s is a long pause for a job whose server was restarted
}
_FOR_CONSUMERS: Mapping[str, Setting] = {
    "group.id": "trimtab",  # it has to have one; trimtab never joins it
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 5,  # a range has its messages already: only its end is ever waited for
    "fetch.queue.backoff.ms": 20,  # with librdkafka's second, reading stands still as often as its queue is full
    "queued.min.messages": 20_000,  # what it fetches beyond a range is thrown away: of librdkafka's 100,000 most was
    "queued.max.messages.kbytes": 16_384,
}
_ALWAYS: Mapping[str, Setting] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}
_ONLY_FOR_CONSUMERS = (
    "auto.",
    "check.crcs",
    "enable.",
    "fetch.",
    "group.",
    "isolation.",
    "max.partition",
    "max.poll",
    "queued.",
)
_LOADING = ("plugin.library.paths", "ssl.engine.location")
"""Options that load code: they aren't tried out."""
_ALSO_FOR_OTHERS = ("enable.ssl", "enable.sasl", "enable.metrics")


@dataclass(frozen=True, slots=True)
class Access:
    """How a cluster is reached.

    servers      addresses as host:port, with commas between them
    options      those of librdkafka, as pairs
    patience_s   how long to try on while no server answers
    id           what options with functions are known by; "": by their values

    Each task of Spark gets a function as a new object, and would open connections of its own for it.
    """

    servers: str
    options: tuple[tuple[str, Setting], ...] = field(default=(), repr=False)  # passwords are among them
    patience_s: float = 60.0
    id: str = ""

    def __post_init__(self) -> None:
        """Draw an id where it is needed: it is pickled along."""
        if not self.id and any(callable(value) for _, value in self.options):
            object.__setattr__(self, "id", uuid.uuid4().hex)

    @property
    def key(self) -> Hashable:
        """Connections with the same key are as good as each other."""
        return self.servers, self.id or self.options, self.patience_s

    @property
    def committed_only(self) -> bool:
        """Whether messages of transactions that were aborted, or are still open, are left out."""
        return dict(self.options).get("isolation.level", "read_committed") != "read_uncommitted"

    def settings(self, *, consuming: bool) -> dict[str, Any]:
        """The configuration of a client."""
        found: dict[str, Any] = {**_DEFAULTS, **(_FOR_CONSUMERS if consuming else {}), **dict(self.options)}
        if consuming:
            found |= _ALWAYS
        else:
            found = {name: value for name, value in found.items() if not _is_only_for_consumers(name)}
        return found | {"bootstrap.servers": self.servers, "logger": _log}


@dataclass(slots=True)
class Client:
    """A connection, what Kafka last complained about on it, whether it ever answered, and the topics it has met."""

    handle: Any
    complaint: str = ""
    answered: bool = False
    topics: set[str] = field(default_factory=set)

    def note(self, error: KafkaError) -> None:
        """Remember a complaint, for the error that may follow."""
        self.complaint = error.str()


_consumers: dict[tuple[int, Hashable], list[Client]] = {}  # by process, as a fork has none of its parent's threads
_admins: dict[tuple[int, Hashable], Client] = {}


def check_options(options: Mapping[str, Setting]) -> None:
    """Raise JobError `source.option` for options that trimtab sets itself."""
    for name in options:
        if name in OWN:
            raise JobError("source.option", f"the option {name} of Kafka can't be given", OWN[name])


def wrong_options(options: Mapping[str, Setting]) -> dict[str, str]:
    """What is wrong with options by themselves, as far as librdkafka is there to say it; nothing is contacted.

    >>> wrong_options({"bootstrap.servers": "localhost:9092"})
    {'bootstrap.servers': "it can't be given: they are the argument servers"}
    """
    found = {name: f"it can't be given: {OWN[name]}" for name in options if name in OWN}
    try:
        package = confluent_kafka()
    except JobError:
        return found
    for name, value in options.items():
        if name in OWN or name in _LOADING:
            continue
        try:
            # One by one: together they may start to ask for tokens. So what they mean together isn't checked.
            package.Consumer({"group.id": "trimtab", name: value, "logger": _log}).close()
        except package.KafkaException as error:
            if error.args[0].code() == package.KafkaError._INVALID_ARG:
                found[name] = error.args[0].str()
    return found


@contextmanager
def borrowed_consumer(access: Access) -> Iterator[Client]:
    """A consumer without partitions, for one reader at a time; one that failed is not used again."""
    idle = _consumers.setdefault((os.getpid(), access.key), [])
    try:
        client = idle.pop()
    except IndexError:
        client = _opened(access, _new_consumer, True)
    consumer: Consumer = client.handle
    try:
        yield client
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    idle.append(client)


def admin_client(access: Access) -> Client:
    """The client that asks for topics and offsets."""
    key = (os.getpid(), access.key)
    if key not in _admins:
        _admins[key] = _opened(access, _new_admin, False)
    return _admins[key]


def close_idle(access: Access) -> None:
    """Close the connections of this process to a cluster that nobody uses; the next use opens new ones."""
    here = (os.getpid(), access.key)
    _admins.pop(here, None)
    with suppress(IndexError):  # other threads may be borrowing them
        while idle := _consumers.get(here):
            idle.pop().handle.close()


def confluent_kafka() -> ModuleType:
    """The package; raises JobError `source.package` if it isn't installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        message = f"reading Kafka needs the package confluent-kafka ({error})"
        raise JobError("source.package", message, "pip install 'trimtab[kafka]'") from error
    return confluent_kafka


def raise_if_final(access: Access, error: KafkaError) -> None:
    """Raise JobError `source.access` for an error that stays, however often one asks."""
    kinds = confluent_kafka().KafkaError
    final = (
        *(kinds._AUTHENTICATION, kinds.SASL_AUTHENTICATION_FAILED, kinds.TOPIC_AUTHORIZATION_FAILED),
        *(kinds.GROUP_AUTHORIZATION_FAILED, kinds.CLUSTER_AUTHORIZATION_FAILED),
    )
    if error.code() in final:
        hint = "check the options (security.protocol, sasl.*, ssl.*) and what the user may read"
        raise JobError("source.access", f"Kafka at {access.servers} refuses: {error.str()}", hint)


def unreachable(access: Access, client: Client, waited_s: float, doing: str) -> JobError:
    """The error for servers that don't answer."""
    why = f": {client.complaint}" if client.complaint else ""
    message = f"Kafka at {access.servers} gave no answer for {waited_s:.0f} s while {doing}{why}"
    hint = "check the addresses, also those that the servers advertise, and that the servers are up"
    return JobError("source.unreachable", message, hint)


def _new_consumer(settings: dict[str, Any]) -> Consumer:
    client: Consumer = confluent_kafka().Consumer(settings)
    return client


def _new_admin(settings: dict[str, Any]) -> AdminClient:
    client: AdminClient = confluent_kafka().admin.AdminClient(settings)
    return client


def _opened(access: Access, open_it: Callable[[dict[str, Any]], Any], consuming: bool) -> Client:
    client = Client(None)
    package = confluent_kafka()
    try:
        client.handle = open_it(access.settings(consuming=consuming) | {"error_cb": client.note})
    except package.KafkaException as error:
        hint = "the options are those of librdkafka: see its CONFIGURATION.md"
        raise JobError("source.option", f"Kafka's client can't be made: {error.args[0].str()}", hint) from error
    return client


def _is_only_for_consumers(name: str) -> bool:
    return name.startswith(_ONLY_FOR_CONSUMERS) and not name.startswith(_ALSO_FOR_OTHERS)
