"""A writer of batches to a topic of Kafka, each batch exactly once, by the package confluent-kafka.

A batch is one transaction, which also commits the batch's number: as the offset of a consumer group that nobody joins.
Either both are there or neither is, so the offset says which batches the topic has. It is read when the writer is
opened, after `init_transactions`: that ends what an earlier writer of the same id left open, and shuts that writer out.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimtab.errors import JobError
from trimtab.sources.kafka_clients import Access
from trimtab.spark.kafka_rows import Messages

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

WRITERS = 1
"""How many writers a sink has, all in the driver. The number is a part of their ids: another one is other writers."""
PARTITION = 0
"""The partition of the topic that the group's offset is of: every topic has it."""

Headers = Sequence[tuple[str, bytes]]

_CALL_S = 10.0  # how long one call waits, before its errors are looked at
_DEFAULTS = {
    "partitioner": "murmur2_random",  # a key is in the same partition as with Kafka's own client, and Spark
    # A transaction has to wait for the end of the one before, and asks again: after librdkafka's 100 ms, a batch took
    # 109 ms, and with this 34 ms.
    "retry.backoff.ms": 10,
    "transaction.timeout.ms": 300_000,  # librdkafka's minute is short for a large batch; servers allow 15 minutes
}
_ONLY_FOR_PRODUCERS = (
    *("acks", "batch.", "compression.", "delivery.", "linger.", "message.", "partitioner", "queue.", "request."),
    *("retries", "sticky.", "transaction"),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose batches these are: each writer of a job's query to a topic has an id, which no other writer has."""

    job: str
    incarnation: str  # of the stream: another one has other batches under the same numbers
    query: str
    topic: str
    writer: int = 0

    @property
    def transactional_id(self) -> str:
        """By which Kafka knows the writer, and shuts out an earlier one.

        >>> Identity("j", "i", "drops", "alerts").transactional_id
        'trimtab-j-i-drops-alerts-0-of-1'
        """
        parts = (self.job, self.incarnation, self.query, self.topic)
        return f"trimtab-{'-'.join(parts)}-{self.writer}-of-{WRITERS}"

    @property
    def group(self) -> str:
        """The group whose offset is the number of the next batch."""
        return self.transactional_id

    def headers(self, batch: int) -> Headers:
        """What each message of a batch says of itself; its row is added to that."""
        named = {"job": self.job, "incarnation": self.incarnation, "query": self.query, "batch": str(batch)}
        return [(f"trimtab.{name}", text.encode()) for name, text in named.items()]


class Writer:
    """A writer, once it has shut out earlier ones. `next_batch`: the first one that the topic lacks; None: not known.

    Raises JobError `job.sink-fenced` from any method once another writer has the same id, otherwise Kafka's errors.
    """

    def __init__(self, access: Access, identity: Identity) -> None:
        from confluent_kafka import Consumer, Producer

        self.identity = identity
        self._access = access
        settings = _DEFAULTS | access.settings(consuming=False) | {"transactional.id": identity.transactional_id}
        self._producer = Producer(settings)
        with self._patiently() as patient:
            patient(self._producer.init_transactions)
        consumer = Consumer(_for_reading(access, identity.group))
        try:
            self.next_batch = self._committed(consumer)
            self._group: Any = consumer.consumer_group_metadata()  # a group without members has it, too
        finally:
            consumer.close()
        self._committed_at_s = time.monotonic()

    @property
    def idle_s(self) -> float:
        """How long ago a batch was written."""
        return time.monotonic() - self._committed_at_s

    def write(self, batch: int, parts: Iterator[Messages]) -> None:
        """Write the messages of a batch and its number, all or nothing."""
        with self._patiently() as patient:
            self._producer.begin_transaction()
            try:
                self._produce(batch, parts)
                self._commit_number(batch, patient)
                patient(self._producer.commit_transaction)  # it waits until all messages are there
            except BaseException:
                with contextlib.suppress(Exception):  # the first error counts; the next writer aborts it in any case
                    self._producer.abort_transaction(_CALL_S)
                raise
        self.next_batch = batch + 1
        self._committed_at_s = time.monotonic()

    def _produce(self, batch: int, parts: Iterator[Messages]) -> None:
        topic, common, row = self.identity.topic, self.identity.headers(batch), 0
        produce, poll = self._producer.produce, self._producer.poll
        for part in parts:
            # A call for each row: `produce_batch` takes no headers.
            for key, value in zip(part.keys, part.values, strict=True):
                headers: Any = [*common, ("trimtab.row", b"%d" % row)]
                while True:
                    try:
                        produce(topic, value, key, headers=headers)
                        break
                    except BufferError:
                        poll(0.1)  # librdkafka's own threads send what is queued
                row += 1

    def _commit_number(self, batch: int, patient: Any) -> None:
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(self.identity.topic, PARTITION, batch + 1)]
        patient(lambda timeout_s: self._producer.send_offsets_to_transaction(offsets, self._group, timeout_s))

    def _committed(self, consumer: Any) -> int | None:
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(self.identity.topic, PARTITION)]
        with self._patiently() as patient:
            (found,) = patient(lambda timeout_s: consumer.committed(wanted, timeout=timeout_s))
        if found.error is not None:
            raise JobError("job.sink", f"the group {self.identity.group} can't be read: {found.error.str()}")
        return int(found.offset) if found.offset >= 0 else None

    @contextlib.contextmanager
    def _patiently(self) -> Iterator[Any]:
        """A function that makes calls with a time-out, and repeats them as long as that may help."""
        from confluent_kafka import KafkaException

        def call(function: Any) -> Any:
            until_s = time.monotonic() + self._access.patience_s
            while True:
                try:
                    return function(_CALL_S)
                except KafkaException as error:
                    found: KafkaError = error.args[0]
                    if not _is_passing(found) or time.monotonic() > until_s:
                        raise
                    time.sleep(0.05)

        try:
            yield call
        except KafkaException as error:
            if is_fenced(error.args[0]):
                message = f"another writer has taken over {self.identity.transactional_id}"
                hint = (
                    "the job runs somewhere else too, with a copy of its checkpoint or after it lost the lock: stop one"
                )
                raise JobError("job.sink-fenced", message, hint) from error
            raise


def is_fenced(error: KafkaError) -> bool:
    """Whether an error says that another writer with the same id was opened later."""
    return error.code() in (error._FENCED, error.PRODUCER_FENCED, error.INVALID_PRODUCER_EPOCH)


def _is_passing(error: KafkaError) -> bool:
    """Whether the same call may succeed later. Kafka moves coordinators, and makes them when they are first used."""
    moved = (error.NOT_COORDINATOR, error.COORDINATOR_NOT_AVAILABLE, error.COORDINATOR_LOAD_IN_PROGRESS)
    late = (error._TIMED_OUT, error._TRANSPORT, error._WAIT_COORD, error.UNSTABLE_OFFSET_COMMIT)
    return not error.txn_requires_abort() and (error.retriable() or error.code() in (*moved, *late))


def _for_reading(access: Access, group: str) -> dict[str, Any]:
    """Settings of the consumer that reads the group's offset, without those options that only producers have."""
    found = {
        name: value
        for name, value in access.settings(consuming=True).items()
        if not name.startswith(_ONLY_FOR_PRODUCERS)
    }
    # Offsets of a transaction that isn't complete are waited for.
    return found | {"group.id": group, "isolation.level": "read_committed"}
