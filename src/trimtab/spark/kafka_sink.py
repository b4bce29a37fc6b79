"""The Kafka sink: a topic that has each batch exactly once, for readers with `isolation.level=read_committed`.

It is written by the driver itself, with confluent-kafka (see `kafka_writer.py`); Spark's own connector, which repeats
batches, is `sinks.py: FormatSink`.

The number of the last batch is in Kafka, as a group's offset, which Kafka forgets a week after it was last written
(`offsets.retention.minutes`). A file of the stream in the checkpoint notes that there was one, so that a number that is
gone is told from one that never was.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimtab.errors import JobError
from trimtab.sources.kafka_clients import Access, Setting
from trimtab.spark.brokers import unreachable
from trimtab.spark.kafka_rows import Messages, messages_of
from trimtab.spark.kafka_writer import Identity, Writer
from trimtab.spark.sinks import Delivery, Sink
from trimtab.state.files import Folder

REFRESH_S = 3_600.0
"""How old the number of the last batch may become before a batch without rows writes it again."""
TOPIC_WITHIN_S = 5.0
ROWS_AT_ONCE = 50_000  # as texts they take tens of megabytes
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

    access   how the servers are reached, with options of librdkafka
    topic    it has to exist
    key      the column that is the messages' key, if they have one
    """

    access: Access
    topic: str
    key: str | None = None
    _writer: Writer | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The topic."""
        return f"kafka {self.topic}"

    def place(self, name: str) -> str:
        """The topic as this query's: two writers with one id would shut each other out."""
        return f"the topic {self.topic} of {self.access.servers} as {name}"

    def prepare(self, name: str, columns: Sequence[str]) -> None:
        """Raise JobError `job.sink` without the package, a broker that answers, the topic, or the column of the key."""
        self._writer = None  # another job may have written since the last start
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

    def take(self, delivery: Delivery) -> None:
        """Write the batch in one transaction, unless the topic has it."""
        if delivery.is_empty and (self._writer is None or self._writer.idle_s < REFRESH_S):
            return
        writer = self._opened(delivery)
        assert writer.next_batch is not None
        if delivery.batch >= writer.next_batch:
            writer.write(delivery.batch, self._messages(delivery))
        elif not delivery.may_repeat:
            raise _is_ahead(delivery, writer)

    def _opened(self, delivery: Delivery) -> Writer:
        identity = Identity(delivery.job, delivery.incarnation, delivery.name, self.topic)
        if self._writer is None or self._writer.identity != identity:
            writer = Writer(self.access, identity)
            if writer.next_batch is None:
                raise_if_forgotten(delivery, identity)
                writer.write(delivery.batch - 1, iter(()))
            # The note comes after the number: with a note, a number that is missing is one that Kafka has forgotten.
            # A crash between the two leaves a number without a note, and no messages.
            note(delivery, identity)
            self._writer = writer
        return self._writer

    def _messages(self, delivery: Delivery) -> Iterator[Messages]:
        for table in delivery.parts():
            for start in range(0, table.num_rows, ROWS_AT_ONCE):
                yield messages_of(table.slice(start, ROWS_AT_ONCE), self.key)


def kafka_sink(options: Mapping[str, Any]) -> KafkaSink:
    """The sink for the options of `.write("kafka", ...)`: servers, topic, key, options, and librdkafka's own by name.

    Raises JobError `job.sink`.
    """
    for name in ("servers", "topic"):
        if not options.get(name):
            hint = 'write .write("kafka", servers="host:9092", topic="alerts")'
            raise JobError("job.sink", f"a kafka sink needs {name}", hint)
    known = ("servers", "topic", "key", "options")
    settings: dict[str, Setting] = dict(options.get("options") or {})
    for name, value in options.items():
        if name not in known:
            if "." not in name:  # librdkafka's nearly all have one
                message = f"a kafka sink has no option {name}"
                raise JobError("job.sink", message, f"it has {', '.join(known)}; others of librdkafka go into options")
            settings[name] = value
    for name in settings:
        if name in OWN:
            raise JobError("job.sink", f"the option {name} of Kafka can't be given", OWN[name])
    access = Access(str(options["servers"]), tuple(settings.items()))
    return KafkaSink(access, str(options["topic"]), options.get("key"))


# What the checkpoint knows of the group --------------------------------------------------------


def note(delivery: Delivery, identity: Identity) -> None:
    """Note in the checkpoint that the group has a number, unless that is noted already."""
    if not _home(delivery).exists(note_name(identity)):
        _home(delivery).write(note_name(identity), identity.group.encode())


def raise_if_forgotten(delivery: Delivery, identity: Identity) -> None:
    """Raise JobError `job.sink-forgotten` if it can't be known whether the topic has the batch.

    A batch that was never tried before isn't there, whatever Kafka remembers.
    """
    home, name = _home(delivery), note_name(identity)
    if delivery.may_repeat and home.exists(name):
        message = (
            f"batch {delivery.batch} of {delivery.name} was begun before, and the group {identity.group}, which "
            f"knows whether {identity.topic} has it, is gone: it expired (offsets.retention.minutes), or was deleted"
        )
        hint = (
            f"see whether the topic ends with messages whose header trimtab.batch is {delivery.batch}; to write the "
            f"batch, again or not, delete {home.shown_path(name)}, and start the job"
        )
        raise JobError("job.sink-forgotten", message, hint)


def note_name(identity: Identity) -> str:
    """The name of the note's file."""
    return f"kafka-{hashlib.sha256(identity.group.encode()).hexdigest()[:16]}.sink"


def _home(delivery: Delivery) -> Folder:
    assert delivery.home is not None, "a stream has a folder in its checkpoint"
    return delivery.home


def _is_ahead(delivery: Delivery, writer: Writer) -> JobError:
    message = (
        f"the topic {writer.identity.topic} has the batches of {delivery.name} before {writer.next_batch:,}, and "
        f"batch {delivery.batch:,} comes as a new one: the checkpoint is older than the topic"
    )
    return JobError("job.sink-ahead", message, "was a copy of it restored? Name another topic, or use a new checkpoint")
