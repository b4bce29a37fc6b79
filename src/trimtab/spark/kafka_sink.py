"""The Kafka sink: a topic that has each batch exactly once, for readers with `isolation.level=read_committed`.

It has a fixed number of writers by confluent-kafka (see `kafka_writer.py`). A small batch is written by the driver, a
large one by Spark's tasks, from where engines left it: which rows are whose doesn't depend on that. Spark's own
connector, which repeats batches, is `sinks.py: FormatSink`.

The number of the last batch is in Kafka, as a group's offset, which Kafka forgets a week after it was last written
(`offsets.retention.minutes`). A file of the stream in the checkpoint notes that there was one, so that a number that is
gone is told from one that never was; and how many writers there are, which stays.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from trimtab.errors import JobError
from trimtab.sources.kafka_clients import Access, Setting
from trimtab.spark.brokers import unreachable
from trimtab.spark.kafka_fleet import Fleet
from trimtab.spark.kafka_jobs import Cargo, write_by_tasks
from trimtab.spark.kafka_rows import in_lists, message_columns, shares
from trimtab.spark.kafka_writer import Identity
from trimtab.spark.sinks import Delivery, Sink
from trimtab.state.files import Folder
from trimtab.worker.orders import Output

Number = TypeVar("Number", int, float)

WRITERS = 4
"""How many writers a sink has, unless its options say it."""
MOST_WRITERS = 256
SMALL = 20_000
"""Up to this many rows are written by the driver, unless engines left some in files: a Spark job would take longer."""
REFRESH_S = 3_600.0
"""How old the number of a writer's last batch may become before it is written again."""
TOPIC_WITHIN_S = 5.0
OPTIONS = ("servers", "topic", "key", "writers", "patience_s", "options")
OWN = {
    "bootstrap.servers": "they are the argument servers",
    "metadata.broker.list": "they are the argument servers",
    "transactional.id": "trimtab makes it of job, stream, query and topic",
    "enable.idempotence": "a writer with transactions always is",
    "group.id": "trimtab makes it of job, stream, query and topic",
    "isolation.level": "it is a setting of those who read the topic",
    "error_cb": "trimtab raises errors itself",
    "logger": "the log is Python's, with the name trimtab.kafka",
}
"""Options of librdkafka that can't be given, and why."""


@dataclass(slots=True)
class KafkaSink(Sink):
    """A topic of Kafka, exactly once.

    access    how the servers are reached, with options of librdkafka
    topic     it has to exist
    key       the column that is the messages' key, if they have one
    writers   how many write to it side by side, for the life of the checkpoint; None: as many as it has had
    """

    access: Access
    topic: str
    key: str | None = None
    writers: int | None = None
    _fleet: Fleet | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The topic."""
        return f"kafka {self.topic}"

    def place(self, name: str) -> str:
        """The topic as this query's: two writers with one id would shut each other out."""
        return f"the topic {self.topic} of {self.access.servers} as {name}"

    def prepare(self, name: str, columns: Sequence[str]) -> None:
        """Raise JobError `job.sink` without the package, a broker that answers, the topic, or the column of the key."""
        self._fleet = None  # another job may have written since the last start
        if self.key is not None and self.key not in columns:
            message = f"{name}: there is no column {self.key} to be the key of Kafka's messages"
            raise JobError("job.sink", message, f"the columns are {', '.join(columns)}")
        try:
            import confluent_kafka.admin
        except ImportError as error:
            message = f"{name}: writing to Kafka needs the package confluent-kafka ({error})"
            raise JobError("job.sink", message, "pip install 'trimtab[kafka]'") from error
        for tried in unreachable({name: self.access.servers}).values():
            message = f"{name}: no Kafka broker of its sink can be reached: {tried}"
            raise JobError("job.sink", message, "start Kafka, or correct the addresses")
        try:
            self._check_topic(name, confluent_kafka.admin.AdminClient(self.access.settings(consuming=False)))
        except confluent_kafka.KafkaException as error:
            message = f"{name}: Kafka at {self.access.servers} can't be asked for {self.topic}: {error.args[0].str()}"
            raise JobError(
                "job.sink", message, "check the options, such as security.protocol, sasl.*, ssl.*"
            ) from error

    def _check_topic(self, name: str, admin: Any) -> None:
        until_s = time.monotonic() + TOPIC_WITHIN_S
        while True:  # a topic that was just made has no leader for a moment
            found = admin.list_topics(self.topic, timeout=TOPIC_WITHIN_S).topics[self.topic]
            if found.error is None and found.partitions:
                return
            is_missing = found.error is None or found.error.code() == found.error.UNKNOWN_TOPIC_OR_PART
            if is_missing or time.monotonic() > until_s:
                why = f": {found.error.str()}" if found.error is not None else ""
                message = f"{name}: nothing can be written to the topic {self.topic}{why}"
                raise JobError("job.sink", message, "make the topic before the job starts, or correct its name")
            time.sleep(0.1)

    def may_run_apart(self, outputs: Sequence[Output]) -> bool:
        """The driver writes small batches."""
        return not any(each.file for each in outputs) and sum(each.rows for each in outputs) <= SMALL

    def take(self, delivery: Delivery) -> None:
        """Let each writer write its rows of the batch in one transaction, unless the topic has them."""
        batch, stale = delivery.batch, [] if self._fleet is None else self._fleet.idle(REFRESH_S)
        if delivery.is_empty and not stale:
            return
        fleet = self._opened(delivery)
        _raise_if_ahead(delivery, fleet)
        lacking = fleet.lacking(batch)
        if not lacking:
            return
        if delivery.table is not None and (delivery.files or delivery.table.num_rows > SMALL):
            known = tuple(found or 0 for found in fleet.next_batches)
            cargo = Cargo(self.access, fleet.identity, delivery.epoch, batch, self.key, known)
            write_by_tasks(cargo, delivery)
            fleet.was_written(batch)
        else:
            found = {} if delivery.table is None else self._messages(delivery.table, fleet.identity.writers)
            wanted = [number for number in lacking if number in found or number in stale]
            fleet.write(batch, {number: [in_lists(found[number])] if number in found else [] for number in wanted})

    def _messages(self, rows: pa.Table, writers: int) -> dict[int, pa.Table]:
        return shares(message_columns(rows, self.key), writers)

    def _opened(self, delivery: Delivery) -> Fleet:
        identity = Identity(delivery.job, delivery.incarnation, delivery.name, self.topic)
        if self._fleet is None or self._fleet.identity.sink != identity.sink:
            identity = replace(identity, writers=writers_of(delivery, identity, self.writers))
            fleet = Fleet(self.access, identity, delivery.epoch)
            if None in fleet.next_batches:
                raise_if_forgotten(delivery, identity)
            fleet.begin(delivery.batch)
            # The note comes after the numbers: with a note, a number that is missing is one that Kafka has forgotten.
            # A crash between the two leaves numbers without a note, and no messages.
            note(delivery, identity)
            self._fleet = fleet
        return self._fleet


def kafka_sink(options: Mapping[str, Any]) -> KafkaSink:
    """The sink for the options of `.write("kafka", ...)`: those of `OPTIONS`, and librdkafka's own by name.

    Raises JobError `job.sink`.
    """
    for name in ("servers", "topic"):
        if not options.get(name):
            hint = 'write .write("kafka", servers="host:9092", topic="alerts")'
            raise JobError("job.sink", f"a kafka sink needs {name}", hint)
    settings: dict[str, Setting] = dict(options.get("options") or {})
    for name, value in options.items():
        if name not in OPTIONS:
            if "." not in name:  # librdkafka's nearly all have one
                message = f"a kafka sink has no option {name}"
                raise JobError(
                    "job.sink", message, f"it has {', '.join(OPTIONS)}; others of librdkafka go into options"
                )
            settings[name] = value
    for name in settings:
        if name in OWN:
            raise JobError("job.sink", f"the option {name} of Kafka can't be given", OWN[name])
    patience_s = _number(options, "patience_s", float, "a number of seconds above 0")
    writers = _number(options, "writers", int, f"a whole number from 1 to {MOST_WRITERS}", most=MOST_WRITERS)
    access = Access(str(options["servers"]), tuple(settings.items()))
    access = access if patience_s is None else replace(access, patience_s=patience_s)
    return KafkaSink(access, str(options["topic"]), options.get("key"), writers)


def _number(
    options: Mapping[str, Any], name: str, kind: Callable[[str], Number], wanted: str, *, most: float = math.inf
) -> Number | None:
    """An option that is a number, or the text of one, as in a job file; None: it isn't there."""
    if options.get(name) is None:
        return None
    try:
        found = kind(str(options[name]))
    except ValueError:
        found = kind("0")
    if not 0 < found <= most or math.isinf(found):
        raise JobError("job.sink", f"a kafka sink has {name}={options[name]!r}", f"it is {wanted}")
    return found


# What the checkpoint knows of the groups -------------------------------------------------------


def writers_of(delivery: Delivery, identity: Identity, wanted: int | None) -> int:
    """How many writers the sink has: as the checkpoint notes it, or else what is wanted.

    Raises JobError `job.sink` if another number is wanted: rows that are repeated would belong to other writers.
    """
    home, name = _home(delivery), note_name(identity)
    if not home.exists(name):
        return wanted or WRITERS
    noted = int(json.loads(home.read(name))["writers"])
    if wanted not in (None, noted):
        message = f"{identity.topic} has {noted} writers of {delivery.name}, which stay, and not {wanted}"
        raise JobError("job.sink", message, f"write writers={noted}, or leave it out; or use a new checkpoint")
    return noted


def note(delivery: Delivery, identity: Identity) -> None:
    """Note in the checkpoint that the groups have numbers, and how many there are, unless that is noted already."""
    if not _home(delivery).exists(note_name(identity)):
        noted = {"sink": identity.sink, "writers": identity.writers}
        _home(delivery).write(note_name(identity), json.dumps(noted).encode())


def raise_if_forgotten(delivery: Delivery, identity: Identity) -> None:
    """Raise JobError `job.sink-forgotten` if it can't be known whether the topic has the batch.

    A batch that was never tried before isn't there, whatever Kafka remembers.
    """
    home, name = _home(delivery), note_name(identity)
    if delivery.may_repeat and home.exists(name):
        message = (
            f"batch {delivery.batch} of {delivery.name} was begun before, and a group that knows whether "
            f"{identity.topic} has it is gone (of {identity.sink}-*): it expired (offsets.retention.minutes), or was "
            f"deleted"
        )
        hint = (
            f"see whether the topic ends with messages whose header trimtab.batch is {delivery.batch}; to write the "
            f"batch, again or not, delete {home.shown_path(name)}, and start the job"
        )
        raise JobError("job.sink-forgotten", message, hint)


def note_name(identity: Identity) -> str:
    """The name of the note's file."""
    return f"kafka-{hashlib.sha256(identity.sink.encode()).hexdigest()[:16]}.sink"


def _home(delivery: Delivery) -> Folder:
    assert delivery.home is not None, "a stream has a folder in its checkpoint"
    return delivery.home


def _raise_if_ahead(delivery: Delivery, fleet: Fleet) -> None:
    """A batch that may be repeated may be there; no later one, and no new one."""
    found = max(number or 0 for number in fleet.next_batches)
    if found <= delivery.batch + delivery.may_repeat:
        return
    message = (
        f"the topic {fleet.identity.topic} has batches of {delivery.name} up to {found - 1:,}, and "
        f"batch {delivery.batch:,} comes now: the checkpoint is older than the topic"
    )
    raise JobError("job.sink-ahead", message, "was a copy of it restored? Name another topic, or use a new checkpoint")
