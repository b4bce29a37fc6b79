"""What the driver asks Kafka: which partitions topics have, and where these begin and end.

An answer that doesn't come is asked for again: for some seconds if the servers have never answered, so that a wrong
address is reported soon, and with the patience of the source once they have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from trimtab.errors import JobError
from trimtab.sources.kafka_clients import Access, admin_client, confluent_kafka, raise_if_final, unreachable

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._listoffsets import OffsetSpec

FIRST_ANSWER_S = 5.0
REQUEST_S = 5.0
NEW_TOPIC_S = 2.0  # a server may hear of a new topic a moment after the one that was asked to make it
_PAUSE_S = 0.2

Answer = TypeVar("Answer")


def partitions_of(access: Access, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions that the topics have now.

    Raises JobError `source.topic` for a topic that there isn't.
    """
    package = confluent_kafka()

    def ask(admin: AdminClient, timeout_s: float) -> list[TopicPartition]:
        found = admin.describe_topics(package.TopicCollection(list(topics)), request_timeout=timeout_s)
        return [package.TopicPartition(topic, each.id) for topic in topics for each in found[topic].result().partitions]

    return _patiently(access, ask, "asking for its topics", topics=", ".join(topics))


def earliest_of(access: Access, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    """The first offset of each partition that can still be read."""
    spec = confluent_kafka().admin.OffsetSpec.earliest()
    return _offsets(access, dict.fromkeys(partitions, spec))


def latest_of(
    access: Access, partitions: Iterable[TopicPartition], *, committed_only: bool | None = None
) -> Mapping[TopicPartition, int]:
    """The offset after the last message of each partition, or after the last one of which a transaction is settled.

    committed_only   whether it is the latter; None: as the source reads
    """
    spec = confluent_kafka().admin.OffsetSpec.latest()
    return _offsets(access, dict.fromkeys(partitions, spec), committed_only=committed_only)


def since(access: Access, partitions: Iterable[TopicPartition], when: datetime) -> Mapping[TopicPartition, int]:
    """The offset of each partition's first message of that time or later; where there is none, its end."""
    wanted = list(partitions)
    spec = confluent_kafka().admin.OffsetSpec.for_timestamp(int(when.timestamp() * 1_000))
    found = _offsets(access, dict.fromkeys(wanted, spec))
    ends = latest_of(access, [each for each in wanted if found[each] < 0])
    return {**found, **ends}


def _offsets(
    access: Access, wanted: Mapping[TopicPartition, OffsetSpec], *, committed_only: bool | None = None
) -> Mapping[TopicPartition, int]:
    if not wanted:
        return {}
    levels = confluent_kafka().IsolationLevel
    is_committed = access.committed_only if committed_only is None else committed_only
    level = levels.READ_COMMITTED if is_committed else levels.READ_UNCOMMITTED

    def ask(admin: AdminClient, timeout_s: float) -> Mapping[TopicPartition, int]:
        found = admin.list_offsets(dict(wanted), isolation_level=level, request_timeout=timeout_s)
        return {each: future.result().offset for each, future in found.items()}

    return _patiently(access, ask, "asking for offsets")


def _patiently(access: Access, ask: Callable[[AdminClient, float], Answer], doing: str, *, topics: str = "") -> Answer:
    """Ask until there is an answer; `topics` are named if one of them doesn't exist."""
    package = confluent_kafka()
    client = admin_client(access)
    patience_s = access.patience_s if client.answered else min(FIRST_ANSWER_S, access.patience_s)
    began = time.monotonic()
    while True:
        left_s = began + patience_s - time.monotonic()
        try:
            answer = ask(client.handle, min(max(left_s, 0.1), REQUEST_S))
        except package.KafkaException as error:
            wrong = error.args[0]
            raise_if_final(access, wrong)
            waited_s = time.monotonic() - began
            is_unknown = bool(topics) and wrong.code() == package.KafkaError.UNKNOWN_TOPIC_OR_PART
            if is_unknown and waited_s >= min(NEW_TOPIC_S, patience_s):
                message = f"Kafka at {access.servers} lacks one of the topics: {topics}"
                raise JobError("source.topic", message, "create it, or check how it is written") from error
            client.handle.poll(0)  # hands over what was wrong with the connections
            if waited_s >= patience_s:
                client.complaint = client.complaint or wrong.str()
                raise unreachable(access, client, patience_s, doing) from error
            time.sleep(_PAUSE_S)
        else:
            client.answered, client.complaint = True, ""
            return answer
