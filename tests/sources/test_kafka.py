"""The source Kafka on a broker: where it starts, what it reads, and what it does when messages or the broker go."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from tests.support.broker import PASSWORD, Broker
from trimtab.errors import InputError, JobError
from trimtab.sources import kafka_range
from trimtab.sources.kafka import Kafka
from trimtab.sources.kafka_clients import borrowed_consumer
from trimtab.sources.source import Clock, Partition, Range

SOON_S = 30.0
SMALL_FETCHES = {"queued.max.messages.kbytes": 32, "max.partition.fetch.bytes": 8_192, "queued.min.messages": 1}


def producer(broker: Broker, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.servers, "linger.ms": 0, "log_level": 0, **settings})


def send(broker: Broker, topic: str, values: Iterable[str | bytes | None], partition: int = 0, **more: Any) -> None:
    sender = producer(broker)
    for value in values:
        sender.produce(topic, value, partition=partition, **more)
    assert sender.flush(SOON_S) == 0


def source(broker: Broker, topics: str | list[str], **arguments: Any) -> Kafka:
    return Kafka(broker.servers, topics, **{"value": "string", **arguments})


def all_of(found: Kafka) -> dict[str, list[Any]]:
    """All values of each partition, from its start to its end, by a copy such as a worker has."""
    copy = pickle.loads(pickle.dumps(found))
    ends = found.latest()
    parts = [Range(name, part.start, ends[name]) for name, part in found.partitions().items()]
    return {part.partition: copy.read(part).table["value"].to_pylist() for part in parts}


def test_a_job_begins_at_the_earliest_message_or_after_the_latest_or_at_a_time(broker: Broker) -> None:
    topic = broker.make_topic(partitions=2)
    send(broker, topic, "abc", timestamp=1_000_000)
    send(broker, topic, "de", timestamp=2_000_000)
    send(broker, topic, "f", partition=1, timestamp=1_500_000)
    both = [f"{topic}:0", f"{topic}:1"]
    assert source(broker, topic).latest() == dict(zip(both, [5, 1], strict=True))
    starts = {
        "earliest": (0, 0),
        "latest": (5, 1),
        datetime.fromtimestamp(0, UTC): (0, 0),
        datetime.fromtimestamp(1_500, UTC): (3, 0),
        datetime.fromtimestamp(1_800, UTC): (3, 1),
        datetime.fromtimestamp(3_000, UTC): (5, 1),
    }
    for start, offsets in starts.items():
        found = source(broker, topic, start=start).partitions()
        assert found == {name: Partition(0, at) for name, at in zip(both, offsets, strict=True)}
    assert all_of(source(broker, topic)) == dict(zip(both, [[*"abcde"], ["f"]], strict=True))


def test_several_topics_are_read_side_by_side(broker: Broker) -> None:
    counts = {broker.make_topic(partitions=count): count for count in (1, 3, 2)}
    wanted = {f"{topic}:{n}": [f"{topic} {n} {i}" for i in range(50)] for topic in counts for n in range(counts[topic])}
    for name, values in wanted.items():
        send(broker, name[:-2], values, partition=int(name[-1]))
    found = source(broker, list(counts))
    assert all_of(found) == wanted
    parts = [Range(name, start, start + 10) for name in wanted for start in (30, 0, 20)]
    with ThreadPoolExecutor(4) as threads:  # connections are used again, for other partitions
        read = threads.map(lambda part: found.read(part).table["value"].to_pylist(), parts)
        assert list(read) == [wanted[part.partition][part.start : part.end] for part in parts]


def test_new_partitions_are_found(broker: Broker) -> None:
    topic = broker.make_topic()
    found = source(broker, topic)
    assert list(found.partitions()) == [f"{topic}:0"]
    broker.add_partitions(topic, 3)
    until(lambda: len(found.partitions()) == 3)
    send(broker, topic, ["new"], partition=2)
    assert all_of(found) == {f"{topic}:0": [], f"{topic}:1": [], f"{topic}:2": ["new"]}


def test_all_that_is_known_of_a_message_may_be_a_column(broker: Broker) -> None:
    topic = broker.make_topic()
    send(broker, topic, [b"1"], key=b"k", timestamp=1_234, headers=[("a", b"x"), ("b", None)])
    send(broker, topic, [b"2"], timestamp=5_678)
    columns = ["key", "topic", "partition", "offset", "timestamp", "headers"]
    rows = source(broker, topic, columns=columns).read(Range(f"{topic}:0", 0, 2))
    first, second = rows.table.drop("timestamp").to_pylist()
    assert first == {
        "value": "1",
        "key": b"k",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "headers": [("a", b"x"), ("b", None)],
    }
    assert second == {"value": "2", "key": None, "topic": topic, "partition": 0, "offset": 1, "headers": None}
    assert rows.table["timestamp"].cast(pa.int64()).to_pylist() == [1_234_000, 5_678_000]
    assert rows.appended_us is not None
    assert rows.appended_us.to_pylist() == [1_234_000, 5_678_000]


@pytest.mark.parametrize("clock", ["CreateTime", "LogAppendTime"])
def test_the_topic_says_whose_clock_tells_when_a_message_was_appended(broker: Broker, clock: str) -> None:
    topic, before_us = broker.make_topic(settings={"message.timestamp.type": clock}), int(time.time() * 1e6)
    send(broker, topic, "ab", timestamp=5_000)
    rows = source(broker, topic).read(Range(f"{topic}:0", 0, 2))
    assert (rows.clock is Clock.WRITER) == (clock == "CreateTime")
    assert rows.appended_us is not None
    for appended_us in rows.appended_us.to_pylist():
        if clock == "CreateTime":
            assert appended_us == 5_000_000
        else:
            assert before_us - 1_000_000 < appended_us < before_us + 60_000_000


def test_values_may_be_json_avro_text_or_bytes(broker: Broker) -> None:
    """Zig-zag 3 and a text of two letters is a record of Avro."""
    topic, fields = broker.make_topic(), [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]
    avro = {"type": "record", "name": "r", "fields": fields}
    send(broker, topic, [b"\x06\x04ab", b'{"n": 3, "s": "ab"}'])
    kinds = {"avro": json.dumps(avro), "json": "n BIGINT, s STRING", "string": None, "bytes": None}
    found = {}
    for place, (kind, schema) in zip((0, 1, 0, 0), kinds.items(), strict=True):
        part = Range(f"{topic}:0", place, place + 1)
        found[kind] = source(broker, topic, value=kind, schema=schema).read(part).table.to_pylist()
    record = {"n": 3, "s": "ab"}
    texts = {"string": [{"value": "\x06\x04ab"}], "bytes": [{"value": b"\x06\x04ab"}]}
    assert found == {"avro": [record], "json": [record], **texts}


def test_messages_that_are_no_json_are_given_apart_and_tombstones_are_left_out(broker: Broker) -> None:
    topic = broker.make_topic()
    send(broker, topic, ['{"k": 1}', "", None, '{"k": "x"}', '{"k":\n2}'], timestamp=7)
    found = Kafka(broker.servers, topic, schema="k BIGINT", columns=["offset"])
    rows = found.read(Range(f"{topic}:0", 0, 5))
    assert rows.table.to_pylist() == [{"k": 1, "offset": 0}, {"k": 2, "offset": 4}]
    assert rows.appended_us is not None
    assert rows.appended_us.to_pylist() == [7_000, 7_000]
    assert rows.undecoded is not None
    assert [tuple(row.values()) for row in rows.undecoded.to_pylist()] == [
        (f"{topic}:0", 1, b"", "it isn't a JSON object"),
        (f"{topic}:0", 3, b'{"k": "x"}', "Column(/k) changed from number to string"),
    ]
    as_text = source(broker, topic).read(Range(f"{topic}:0", 1, 3))
    assert as_text.table["value"].to_pylist() == ["", None]
    assert as_text.undecoded is None


def test_ranges_of_a_compacted_topic_end_where_nothing_is_left(broker: Broker) -> None:
    topic = broker.make_topic(compacted=True)
    for n in range(30):
        send(broker, topic, [f"value {n}"], key=b"one key")
    found = source(broker, topic, columns=["offset"])

    def offsets(start: int, end: int) -> list[int]:
        found_ones: list[int] = found.read(Range(f"{topic}:0", start, end)).table["offset"].to_pylist()
        return found_ones

    send(broker, topic, ["the last one"], key=b"another key")
    until(lambda: len(offsets(0, 31)) < 10)
    assert 30 in offsets(0, 31)
    assert offsets(0, 10) == offsets(3, 4) == []


def test_of_transactions_those_that_were_committed_are_read(broker: Broker) -> None:
    topic = broker.make_topic()
    sender = producer(broker, **{"transactional.id": topic})
    sender.init_transactions(SOON_S)

    def transaction(values: str) -> None:
        sender.begin_transaction()
        for value in values:
            sender.produce(topic, value, partition=0)
        sender.flush(SOON_S)

    committed = source(broker, topic)
    everything = source(broker, topic, options={"isolation.level": "read_uncommitted"})
    [name] = committed.partitions()

    def read(found: Kafka, start: int = 0, end: int | None = None) -> list[str]:
        part = Range(name, start, found.latest()[name] if end is None else end)
        values: list[str] = found.read(part).table["value"].to_pylist()
        return values

    transaction("abc")
    assert (committed.latest()[name], everything.latest()[name]) == (0, 3)
    assert committed.real_ends() == everything.real_ends() == {name: 3}
    sender.commit_transaction(SOON_S)
    until(lambda: committed.latest()[name] == 4)
    assert read(committed) == [*"abc"]
    transaction("de")
    assert (committed.latest()[name], everything.latest()[name]) == (4, 6)
    assert read(committed) == [*"abc"]
    sender.abort_transaction(SOON_S)
    until(lambda: committed.latest()[name] == 7)
    assert read(committed) == [*"abc"], "the last three offsets are none of a message"
    assert read(committed, 4, 6) == read(committed, 3, 4) == []
    transaction("f")
    sender.commit_transaction(SOON_S)
    until(lambda: committed.latest()[name] == 9)
    assert read(committed) == [*"abcf"]
    assert read(committed, 4, 7) == []
    assert read(everything) == [*"abcdef"]


def test_messages_that_were_deleted_before_they_were_read_are_named(broker: Broker) -> None:
    topic = broker.make_topic()
    send(broker, topic, "abcdef")
    broker.delete_before(topic, {0: 4})
    found = source(broker, topic)
    assert found.partitions() == {f"{topic}:0": Partition(4, 4)}
    assert all_of(found) == {f"{topic}:0": [*"ef"]}
    with pytest.raises(InputError, match="offsets 2 to 3 are gone, the earliest is 4 now") as caught:
        found.read(Range(f"{topic}:0", 2, 6))
    assert caught.value.code == "source.lost"
    assert f"topic {topic}, partition 0" in caught.value.message
    with pytest.raises(InputError, match="offsets 8 to 9 were there, but the partition ends at 6 now"):
        found.read(Range(f"{topic}:0", 8, 10))
    assert all_of(found) == {f"{topic}:0": [*"ef"]}


def test_a_topic_that_there_is_not_is_named(broker: Broker) -> None:
    topic = broker.make_topic()
    with pytest.raises(JobError, match="no-such-topic") as caught:
        source(broker, [topic, "no-such-topic"], patience_s=0.3).partitions()
    assert caught.value.code == "source.topic"


def test_a_cluster_that_asks_who_one_is_is_read_with_the_options_for_it(broker: Broker) -> None:
    topic = broker.make_topic()
    send(broker, topic, "abc")
    login = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "reader"}

    def secured(password: str) -> Kafka:
        options = {**login, "sasl.password": password}
        patience_s = SOON_S if password == PASSWORD else 1.0
        return Kafka(broker.secured_servers, topic, value="string", options=options, patience_s=patience_s)

    assert all_of(secured(PASSWORD)) == {f"{topic}:0": [*"abc"]}
    with pytest.raises(JobError, match="Authentication failed"):
        secured("wrong").latest()
    with pytest.raises(JobError, match="Authentication failed"):
        secured("wrong").read(Range(f"{topic}:0", 0, 3))


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_read_goes_on_when_the_broker_comes_back(broker: Broker, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_range, "MESSAGES_AT_ONCE", 10)
    topic = broker.make_topic()
    values = [f"{n} " + "x" * 1_000 for n in range(300)]
    send(broker, topic, values)
    found = source(broker, topic, options=SMALL_FETCHES)
    with borrowed_consumer(found._access) as client:
        pieces = kafka_range.pieces_of(client, found._access, kafka_range.Stretch(topic, 0, 0, 300))
        read = next(pieces).values.to_pylist()
        getattr(broker, end)()
        broker.begin()
        for piece in pieces:
            read += piece.values.to_pylist()
    assert [value.decode() for value in read] == values
    broker.wait_until_ready()
    assert all_of(found) == {f"{topic}:0": values}


def test_a_broker_that_hangs_is_waited_for_as_long_as_patience_lasts(broker: Broker) -> None:
    topic = broker.make_topic()
    send(broker, topic, "abc")
    hasty, patient = source(broker, topic, patience_s=0.3), source(broker, topic)
    assert hasty.latest() == patient.latest() == {f"{topic}:0": 3}
    broker.pause()
    try:
        with pytest.raises(JobError, match=f"Kafka at {broker.servers} gave no answer") as caught:
            hasty.latest()
        assert caught.value.code == "source.unreachable"
        later = threading.Timer(0.5, broker.resume)
        later.start()
        assert patient.read(Range(f"{topic}:0", 0, 3)).table["value"].to_pylist() == [*"abc"]
        assert patient.latest() == {f"{topic}:0": 3}
        later.join()
    finally:
        broker.resume()


def until(holds: Any) -> None:
    end = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)
