"""A writer of batches to a topic of Kafka, each batch exactly once, by the package confluent-kafka.

A sink has several writers, and each row belongs to one of them (`kafka_rows.py: shares`). What a writer has of a batch
is one transaction, which also commits the batch's number: as the offset of a consumer group that nobody joins. Either
both are there or neither is, so the offset says which batches the topic has of this writer. It is read when the writer
is opened, after `init_transactions`: that ends what an earlier writer of the same id left open, and shuts it out.

Drivers and tasks open the same writer in turn, and so may a task that was given up. So being shut out is no error by
itself: the writer is opened again, and reads what the other one has written. What tells a job from its successor is its
epoch, which the number has, too: a job ends when it finds a later one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trimtab.errors import JobError
from trimtab.sources.kafka_clients import Access
from trimtab.spark.kafka_rows import Messages

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

PARTITION = 0
"""The partition of the topic that the group's offset is of: every topic has it."""

Headers = Sequence[tuple[str, bytes]]
Answer = TypeVar("Answer")

_CALL_S = 10.0  # how long one call waits, before its errors are looked at
STUCK_S = _CALL_S + 2.0
"""When a call is given up that should have ended by its time-out."""
_PAUSES_S = (0.1, 0.5, 2.0, 4.0)  # before a transaction that Kafka gave up is tried again
_ROOM = 1_000  # messages that have to leave a full queue before it is filled again
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
    writers: int = 1  # of the sink: the number is a part of their ids, so another one would be other writers

    @property
    def sink(self) -> str:
        """What the ids of all writers of the sink begin with."""
        return f"trimtab-{'-'.join((self.job, self.incarnation, self.query, self.topic))}"

    @property
    def transactional_id(self) -> str:
        """By which Kafka knows the writer, and shuts out an earlier one.

        >>> Identity("j", "i", "drops", "alerts", writer=1, writers=4).transactional_id
        'trimtab-j-i-drops-alerts-1-of-4'
        """
        return f"{self.sink}-{self.writer}-of-{self.writers}"

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

    `epoch` is that of the job, as the owner of its checkpoint; `known` the number, if Kafka should have forgotten it.

    Raises JobError `job.sink-fenced` once a later job has used the writer, or others open it again and again; otherwise
    Kafka's errors.
    """

    def __init__(self, access: Access, identity: Identity, epoch: int = 0, known: int | None = None) -> None:
        self.identity, self.next_batch = identity, known
        self._access, self._epoch, self._epoch_there = access, epoch, 0
        with self._telling():
            self._open()

    def claim(self) -> None:
        """Write the number again with this job's epoch, unless it has it: no earlier job can write after that."""
        while self.next_batch is not None and self._epoch_there < self._epoch:
            self.write(self.next_batch - 1, ())

    def write(self, batch: int, parts: Iterable[Messages]) -> None:
        """Write the messages of a batch and its number, all or nothing; the parts may be gone through again.

        That is so if Kafka or its client gave the transaction up, as after an outage, or if the writer was opened by a
        task of this job that was given up and still runs: it may have written the batch, too.
        """
        from confluent_kafka import KafkaException

        self._raise_if_replaced()
        with self._telling():
            for pause_s in (*_PAUSES_S, None):
                try:
                    self._transact(batch, parts)
                    break
                except KafkaException as error:
                    if pause_s is None or not _may_try_again(error.args[0]):
                        raise
                except _StuckError:
                    if pause_s is None:
                        raise
                time.sleep(pause_s)
                self._open()
                if self.next_batch is not None and self.next_batch > batch:
                    return
        self.next_batch, self._epoch_there = batch + 1, self._epoch

    def _open(self) -> None:
        """Shut others out, which aborts what they left open, and read what they have written."""
        from confluent_kafka import Consumer, Producer

        own = {"transactional.id": self.identity.transactional_id}
        self._producer = Producer(_DEFAULTS | self._access.settings(consuming=False) | own)
        self._patient(self._producer.init_transactions)
        consumer = Consumer(_for_reading(self._access, self.identity.group))
        try:
            self._read_number(consumer)
            self._group: Any = consumer.consumer_group_metadata()  # a group without members has it, too
        finally:
            consumer.close()
        self._raise_if_replaced()

    def _raise_if_replaced(self) -> None:
        if self._epoch_there > self._epoch:
            raise _has_successor(self.identity, self._epoch, self._epoch_there)

    def _transact(self, batch: int, parts: Iterable[Messages]) -> None:
        self._producer.begin_transaction()
        try:
            self._produce(batch, parts)
            self._commit_number(batch)
            self._patient(self._producer.commit_transaction)  # it waits until all messages are there
        except _StuckError:
            raise  # this client is of no use any more
        except BaseException:
            with contextlib.suppress(Exception):  # the first error counts; whoever opens it next aborts it in any case
                self._producer.abort_transaction(_CALL_S)
            raise

    def _produce(self, batch: int, parts: Iterable[Messages]) -> None:
        topic, common, writers = self.identity.topic, self.identity.headers(batch), self.identity.writers
        produce, row = self._producer.produce, self.identity.writer
        for part in parts:
            # A call for each row: `produce_batch` takes no headers.
            for key, value in zip(part.keys, part.values, strict=True):
                headers: Any = [*common, ("trimtab.row", b"%d" % row)]
                while True:
                    try:
                        produce(topic, value, key, headers=headers)
                        break
                    except BufferError:
                        self._make_room()
                row += writers

    def _make_room(self) -> None:
        """Wait until librdkafka's own threads have sent a part of what is queued."""
        queued, until_s = len(self._producer), time.monotonic() + self._access.patience_s
        while queued - len(self._producer) < max(1, min(queued, _ROOM)):
            self._producer.poll(0.1)
            if time.monotonic() > until_s:
                raise TimeoutError(f"{self._access.servers} took no messages for {self._access.patience_s:.0f} s")

    def _commit_number(self, batch: int) -> None:
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(self.identity.topic, PARTITION, batch + 1, str(self._epoch))]
        send, group = self._producer.send_offsets_to_transaction, self._group
        self._patient(lambda timeout_s: _ended(lambda: send(offsets, group, timeout_s)))

    def _read_number(self, consumer: Any) -> None:
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(self.identity.topic, PARTITION)]
        (found,) = self._patient(lambda timeout_s: consumer.committed(wanted, timeout=timeout_s))
        if found.error is not None:
            raise JobError("job.sink", f"the group {self.identity.group} can't be read: {found.error.str()}")
        if found.offset >= 0:
            self.next_batch, self._epoch_there = int(found.offset), int(found.metadata or 0)

    def _patient(self, function: Callable[[float], Answer]) -> Answer:
        """Make a call with a time-out, and repeat it as long as that may help."""
        from confluent_kafka import KafkaException

        until_s = time.monotonic() + self._access.patience_s
        while True:
            try:
                return function(_CALL_S)
            except KafkaException as error:
                if not _is_passing(error.args[0]) or time.monotonic() > until_s:
                    raise
                time.sleep(0.05)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Say what it means that another writer with the same id was opened."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            if is_fenced(error.args[0]):
                message = f"another writer has taken over {self.identity.transactional_id}"
                hint = (
                    "the job runs somewhere else too, with a copy of its checkpoint or after it lost the lock: stop one"
                )
                raise JobError("job.sink-fenced", message, hint) from error
            raise


class _StuckError(Exception):
    """A call of Kafka's client has a time-out, and doesn't end."""


def _ended(function: Callable[[], object]) -> None:
    """Call a function in a thread of its own, which is left to itself if it doesn't end in time.

    librdkafka doesn't check the time-out of `send_offsets_to_transaction` while it looks for the group's coordinator,
    and may look for ever when a server went away in that moment (its issues 5456 and 5511; so it is in 2.16).
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, name="trimtab-kafka-offsets", daemon=True)
    thread.start()
    thread.join(STUCK_S)
    if thread.is_alive():
        raise _StuckError(f"Kafka's client didn't end a call in {STUCK_S:.0f} s")
    if raised:
        raise raised[0]


def _has_successor(identity: Identity, epoch: int, later: int) -> JobError:
    message = (
        f"{identity.topic} has batches of a later start of this job (its epoch is {later}, and here it is {epoch}): "
        f"{identity.transactional_id} isn't this job's any more"
    )
    hint = "the job runs somewhere else too: stop one. Was an older copy of the checkpoint restored? Name another topic"
    return JobError("job.sink-fenced", message, hint)


def is_fenced(error: KafkaError) -> bool:
    """Whether an error says that another writer with the same id was opened later."""
    return error.code() in (error._FENCED, error.PRODUCER_FENCED, error.INVALID_PRODUCER_EPOCH)


def _may_try_again(error: KafkaError) -> bool:
    """Whether a transaction that failed may succeed if the writer is opened again."""
    return is_fenced(error) or error.fatal() or error.code() == error._FATAL or error.txn_requires_abort()


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
