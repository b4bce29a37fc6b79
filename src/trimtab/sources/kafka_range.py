"""Reading one range of a partition of Kafka: its messages as columns, in pieces.

Offsets have gaps: compaction removes messages, transactions that were aborted are left out, and every transaction ends
with a record that is no message. So the last offset of a range may never come. A range is read when a message after it
comes, or Kafka says that the partition ends there.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trimtab.errors import InputError
from trimtab.sources.kafka_clients import Access, Client, confluent_kafka, raise_if_final, unreachable

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_log = logging.getLogger("trimtab.kafka")

MESSAGES_AT_ONCE = 50_000
WAIT_S = 0.05  # how long a piece that isn't full is waited for: a gap costs that much at most
PATIENCES = 10  # how many times the patience lasts while a server answers
_METADATA_S = 1.0
_WATERMARKS_S = 5.0
Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]
_TIMESTAMP = pa.timestamp("us", "UTC")

COLUMNS: Mapping[str, tuple[pa.DataType, Callable[[Sequence[Message]], object]]] = {
    "key": (pa.binary(), lambda messages: list(map(methodcaller("key"), messages))),
    "topic": (pa.string(), lambda messages: list(map(methodcaller("topic"), messages))),
    "partition": (pa.int32(), lambda messages: list(map(methodcaller("partition"), messages))),
    "offset": (pa.int64(), lambda messages: list(map(methodcaller("offset"), messages))),
    "timestamp": (_TIMESTAMP, lambda messages: _appended_us(messages).cast(_TIMESTAMP)),
    "headers": (pa.map_(pa.string(), pa.binary()), lambda messages: list(map(methodcaller("headers"), messages))),
}
"""What else is known of a message, with its type and how it is taken from messages."""
_error, _offset, _value, _timestamp = (methodcaller(name) for name in ("error", "offset", "value", "timestamp"))


@dataclass(frozen=True, slots=True)
class Piece:
    """Some messages of a range, as columns: `more` are those of `COLUMNS` that were asked for.

    is_producers_clock   whether producers say when messages were appended, and not the broker
    """

    offsets: pa.Array
    values: pa.Array
    appended_us: pa.Array
    more: Mapping[str, pa.Array]
    is_producers_clock: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range: the partition `number` of a topic, from the offset `start` up to `end`."""

    topic: str
    number: int
    start: int
    end: int

    def __str__(self) -> str:
        """As errors name it."""
        return f"topic {self.topic}, partition {self.number}"


def pieces_of(client: Client, access: Access, part: Stretch, columns: Sequence[str] = ()) -> Iterator[Piece]:
    """The messages of a range, in order.

    Raises InputError `source.lost` if messages of it are not there any more, JobError `source.unreachable` if nothing
    comes for as long as the patience lasts, and `source.access` if Kafka refuses. A server that answers may be sending
    aborted transactions, of which nothing is seen here: it is given `PATIENCES` times as long.
    """
    consumer: Consumer = client.handle
    _meet(client, access, part.topic)
    consumer.assign([confluent_kafka().TopicPartition(part.topic, part.number, part.start)])
    position, since = part.start, time.monotonic()
    ended: int | None = None
    patiences = 0
    while position < part.end:
        taken = consumer.consume(min(part.end - position, MESSAGES_AT_ONCE), WAIT_S)
        messages = taken
        if any(map(_error, taken)):
            messages = [each for each in taken if each.error() is None]
        before = position
        if len(messages) < len(taken) and (found := _partition_end(client, access, part, taken)) is not None:
            ended, position = found, max(position, found)
        if messages:
            offsets = np.fromiter(map(_offset, messages), np.int64, len(messages))
            position = max(position, int(offsets[-1]) + 1)
            if within := int(np.searchsorted(offsets, part.end)):
                yield _piece(messages[:within], offsets[:within], columns)
        if position > before:
            since, client.complaint, patiences = time.monotonic(), "", 0
        elif time.monotonic() - since > access.patience_s:
            if ended is not None and not client.complaint:
                raise _cut_off(part, ended)
            patiences += 1
            if client.complaint or patiences >= PATIENCES or not _is_there(consumer, access, part):
                raise unreachable(access, client, patiences * access.patience_s, f"reading {part}")
            _log.warning("%s: no message from offset %s on for %.0f s", part, position, patiences * access.patience_s)
            since = time.monotonic()


def _is_there(consumer: Consumer, access: Access, part: Stretch) -> bool:
    """Whether the server answers, and has the range."""
    package = confluent_kafka()
    try:
        there = package.TopicPartition(part.topic, part.number)
        _, high = consumer.get_watermark_offsets(there, timeout=min(_WATERMARKS_S, access.patience_s))
    except package.KafkaException:
        return False
    return int(high) >= part.end


def _meet(client: Client, access: Access, topic: str) -> None:
    """Ask for a topic that is new to a consumer: it would find out by itself, but in a second, not in milliseconds."""
    if topic not in client.topics:
        with contextlib.suppress(confluent_kafka().KafkaException):  # reading it has more patience
            client.handle.list_topics(topic, min(_METADATA_S, access.patience_s))
            client.topics.add(topic)


def _piece(messages: Sequence[Message], offsets: Offsets, columns: Sequence[str]) -> Piece:
    return Piece(
        pa.array(offsets),
        pa.array(list(map(_value, messages)), pa.binary()),
        _appended_us(messages),
        {name: pa.array(COLUMNS[name][1](messages), COLUMNS[name][0]) for name in columns},
        # A topic rarely changes it, so these two speak for those between them.
        any(each.timestamp()[0] != confluent_kafka().TIMESTAMP_LOG_APPEND_TIME for each in (messages[0], messages[-1])),
    )


def _appended_us(messages: Sequence[Message]) -> pa.Array:
    # The kind and the time of each: the time is negative if there is none.
    times_ms = np.fromiter(map(itemgetter(1), map(_timestamp, messages)), np.int64, len(messages))
    return pa.array(times_ms * 1_000, mask=times_ms < 0)


def _partition_end(client: Client, access: Access, part: Stretch, taken: Sequence[Message]) -> int | None:
    """Where Kafka says that the partition ends, if it does; errors that stay are raised."""
    kinds = confluent_kafka().KafkaError
    end = None
    for message in taken:
        match message.error():
            case None:
                pass
            case error if error.code() == kinds._PARTITION_EOF:
                end, client.complaint = message.offset(), ""
            case error if error.code() in (kinds._AUTO_OFFSET_RESET, kinds.OFFSET_OUT_OF_RANGE):
                raise _lost(client.handle, part, error)
            case error:
                raise_if_final(access, error)
                client.note(error)
    return end


def _lost(consumer: Consumer, part: Stretch, error: KafkaError) -> InputError:
    package = confluent_kafka()
    there = package.TopicPartition(part.topic, part.number)
    try:
        low, high = consumer.get_watermark_offsets(there, timeout=_WATERMARKS_S)
    except package.KafkaException:
        return InputError("source.lost", f"{part}: offset {part.start} can't be read: {error.str()}", _HINT)
    if part.start < low:
        missing = f"offsets {part.start} to {min(low, part.end) - 1} are gone, the earliest is {low} now"
        return InputError("source.lost", f"{part}: {missing}", _HINT)
    return _cut_off(part, high)


def _cut_off(part: Stretch, end: int) -> InputError:
    message = (
        f"{part}: offsets {max(part.start, end)} to {part.end - 1} were there, but the partition ends at {end} now"
    )
    hint = "the topic was made anew, or servers lost messages: to go on without them, start with a new checkpoint"
    return InputError("source.lost", message, hint)


_HINT = (
    "Kafka deletes what is older than retention.ms or beyond retention.bytes: let the topic keep messages for longer "
    "than the job may lag; to go on without those that are gone, start with a new checkpoint"
)
