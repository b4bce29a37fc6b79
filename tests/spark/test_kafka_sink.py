"""The Kafka sink on a broker: each batch once, whatever is repeated, dies or comes back from the dead."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql import SparkSession

from tests.support.broker import Broker
from trimtab.errors import JobError
from trimtab.sources.kafka_clients import Access
from trimtab.spark import kafka_sink, kafka_writer
from trimtab.spark.kafka_rows import Messages
from trimtab.spark.kafka_sink import KafkaSink
from trimtab.spark.kafka_writer import PARTITION, Identity, Writer
from trimtab.spark.sinks import Delivery, make_sink
from trimtab.state.files import Folder

NO_SPARK = cast(SparkSession, None)
ROWS = pa.table({"k": ["a", "b"], "n": [1, 2]})
JOB, INCARNATION, QUERY = "job1", "c0ffee", "drops"


class Bench:
    """A topic, and a checkpoint's folder, for sinks of one query."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.topic = broker.make_topic()
        self.identity = Identity(JOB, INCARNATION, QUERY, self.topic)

    def sink(self, **options: Any) -> KafkaSink:
        """The sink of a job that has just been started; with one writer, so that its messages are in order."""
        settings = {"servers": self.broker.servers, "topic": self.topic, "writers": 1, **options}
        found = make_sink(NO_SPARK, "kafka", settings)
        assert isinstance(found, KafkaSink)
        found.prepare(QUERY, ROWS.column_names)
        return found

    def batch(self, number: int, rows: pa.Table | None = ROWS, *, may_repeat: bool = False, **more: Any) -> Delivery:
        home = Folder(str(self.folder))
        values: dict[str, Any] = {"files": (), "job": JOB, "home": home, "spark": NO_SPARK, **more}
        return Delivery(QUERY, INCARNATION, number, rows, outbox=home, may_repeat=may_repeat, **values)

    def messages(self, isolation: str = "read_committed") -> list[Message]:
        """All messages of the topic."""
        settings = {"bootstrap.servers": self.broker.servers, "group.id": "test", "isolation.level": isolation}
        consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        try:
            return list(iter_messages(consumer))
        finally:
            consumer.close()

    def batches(self) -> list[str]:
        """The batch and the row of each message that readers see."""
        found = [{name: value.decode() for name, value in headers(each)} for each in self.messages()]
        return [f"{each['trimtab.batch']}.{each['trimtab.row']}" for each in found]

    def forget_group(self) -> None:
        """What Kafka does a week after the last batch."""
        for future in self.broker.admin.delete_consumer_groups([self.identity.group]).values():
            future.result()


def iter_messages(consumer: Consumer) -> Iterator[Message]:
    while True:
        message = consumer.poll(30)
        assert message is not None, "nothing was read, and no end"
        if (error := message.error()) is not None:
            assert error.code() == error._PARTITION_EOF, error
            return
        yield message


def headers(message: Message) -> list[tuple[str, bytes]]:
    return cast(list[tuple[str, bytes]], message.headers())


@pytest.fixture
def topic(broker: Broker, tmp_path: Path) -> Bench:
    return Bench(broker, tmp_path)


def test_a_message_has_the_rows_columns_and_says_where_it_comes_from(topic: Bench) -> None:
    topic.sink(key="k").deliver(topic.batch(7))
    first, second = topic.messages()
    assert (first.key(), json.loads(first.value() or b"")) == (b"a", {"k": "a", "n": 1})
    assert (second.key(), json.loads(second.value() or b"")) == (b"b", {"k": "b", "n": 2})
    assert dict(headers(second)) == {
        "trimtab.job": b"job1",
        "trimtab.incarnation": b"c0ffee",
        "trimtab.query": b"drops",
        "trimtab.batch": b"7",
        "trimtab.row": b"1",
    }


def test_a_batch_that_comes_again_is_written_once(topic: Bench) -> None:
    before = topic.sink()
    before.deliver(topic.batch(0))
    before.deliver(topic.batch(1))
    before.deliver(topic.batch(1, may_repeat=True))
    after = topic.sink()
    after.deliver(topic.batch(1, may_repeat=True))
    after.deliver(topic.batch(2, None))
    after.deliver(topic.batch(3))
    assert topic.batches() == ["0.0", "0.1", "1.0", "1.1", "3.0", "3.1"]


DYING = """
import os, sys
from trimtab.sources.kafka_clients import Access
from trimtab.spark.kafka_rows import Messages
from trimtab.spark.kafka_writer import Identity, Writer

servers, topic, when = sys.argv[1:]
writer = Writer(Access(servers), Identity("job1", "c0ffee", "drops", topic))
writer.write(0, [Messages(["k"], ["first"])])

def die(*_):
    writer._producer.flush(30)  # the messages are in the topic, and their transaction is open
    os._exit(9)

if when == "before its number":
    writer._commit_number = die
else:
    send = writer._commit_number
    writer._commit_number = lambda *args: (send(*args), die())
writer.write(1, [Messages(["k"] * 3, ["lost"] * 3)])
"""


@pytest.mark.parametrize("when", ["before its number", "before the commit"])
def test_what_a_job_wrote_before_it_died_is_never_seen_and_written_by_the_next_one(topic: Bench, when: str) -> None:
    died = subprocess.run([sys.executable, "-c", DYING, topic.broker.servers, topic.topic, when], check=False)
    assert died.returncode == 9
    assert [each.value() for each in topic.messages("read_uncommitted")] == [b"first"] + 3 * [b"lost"]
    assert topic.batches() == ["0.0"]
    topic.sink().deliver(topic.batch(1, may_repeat=True))
    assert topic.batches() == ["0.0", "1.0", "1.1"]


def test_a_job_that_comes_back_after_another_took_over_can_write_nothing(topic: Bench) -> None:
    old = topic.sink()
    old.deliver(topic.batch(0, epoch=1))
    new = topic.sink()
    new.deliver(topic.batch(1, epoch=2))
    for number in (1, 2):
        with pytest.raises(JobError, match="batches of a later start") as raised:
            old.deliver(topic.batch(number, epoch=1))
        assert raised.value.code == "job.sink-fenced"
    new.deliver(topic.batch(2, epoch=2))
    assert topic.batches() == ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"]


def test_a_task_that_was_given_up_and_still_runs_does_no_harm(topic: Bench) -> None:
    """It opens the writer, finds that it has nothing to do, and has shut out the writer of the same job."""
    sink = topic.sink()
    sink.deliver(topic.batch(0, epoch=1))
    given_up = Writer(Access(topic.broker.servers), topic.identity, epoch=1)
    assert given_up.next_batch == 1
    sink.deliver(topic.batch(1, epoch=1))
    given_up.write(1, [Messages([None], ["the same rows, again"])])
    sink.deliver(topic.batch(2, epoch=1))
    assert topic.batches() == ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"]


class _StuckOnce:
    """A client of which one call never ends, as librdkafka's may after an outage."""

    def __init__(self, client: Any) -> None:
        self.client, self.end = client, threading.Event()

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.end.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def __len__(self) -> int:
        return len(self.client)


def test_a_call_that_never_ends_is_given_up_and_the_batch_written_by_a_new_client(
    topic: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_writer, "STUCK_S", 0.2)
    writer = Writer(Access(topic.broker.servers), topic.identity)
    stuck = _StuckOnce(writer._producer)
    writer._producer = cast(Any, stuck)
    writer.write(0, [Messages(["a"], ["once"])])
    stuck.end.set()
    assert [each.value() for each in topic.messages()] == [b"once"]


def test_other_queries_incarnations_and_jobs_are_writers_of_their_own(topic: Bench) -> None:
    access = Access(topic.broker.servers)
    others = [("job2", INCARNATION, QUERY), (JOB, "cafe", QUERY), (JOB, INCARNATION, "rises")]
    writers = [Writer(access, Identity(*each, topic.topic)) for each in [(JOB, INCARNATION, QUERY), *others]]
    for value, writer in zip("abcd", writers, strict=True):
        assert writer.next_batch is None
        writer.write(0, [Messages([None], [value])])
    assert sorted(each.value() or b"" for each in topic.messages()) == [b"a", b"b", b"c", b"d"]


def test_a_group_that_kafka_forgot_is_an_error_only_if_the_batch_may_be_there(topic: Bench) -> None:
    topic.sink().deliver(topic.batch(4))
    topic.forget_group()
    with pytest.raises(JobError, match=r"batch 4 of drops was begun before.* is gone .*: it expired") as raised:
        topic.sink().deliver(topic.batch(4, may_repeat=True))
    assert raised.value.code == "job.sink-forgotten"
    topic.sink().deliver(topic.batch(5))  # a job that was stopped, and not killed, has nothing to repeat
    topic.forget_group()
    with pytest.raises(JobError) as raised:
        topic.sink().deliver(topic.batch(6, may_repeat=True))
    (note,) = topic.folder.glob("*.sink")
    assert str(note) in raised.value.hint
    note.unlink()
    topic.sink().deliver(topic.batch(6, may_repeat=True))
    assert topic.batches() == [f"{batch}.{row}" for batch in (4, 5, 6) for row in (0, 1)]


def test_a_sink_that_is_new_takes_a_batch_that_is_repeated(topic: Bench) -> None:
    topic.sink().deliver(topic.batch(9, may_repeat=True))
    assert topic.batches() == ["9.0", "9.1"]


def test_a_checkpoint_that_is_older_than_the_topic_is_an_error(topic: Bench) -> None:
    topic.sink().deliver(topic.batch(9))
    with pytest.raises(JobError) as raised:
        topic.sink().deliver(topic.batch(5))
    assert raised.value.code == "job.sink-ahead"
    assert topic.batches() == ["9.0", "9.1"]


def test_batches_without_rows_write_the_number_again_before_it_expires(
    topic: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = topic.sink()
    sink.deliver(topic.batch(0, None))
    sink.deliver(topic.batch(1))
    sink.deliver(topic.batch(2, None))
    assert Writer(Access(topic.broker.servers), topic.identity).next_batch == 2
    monkeypatch.setattr(kafka_sink, "REFRESH_S", 0.0)
    sink = topic.sink()
    sink.deliver(topic.batch(3))
    sink.deliver(topic.batch(4, None))
    assert Writer(Access(topic.broker.servers), topic.identity).next_batch == 5
    assert topic.batches() == ["1.0", "1.1", "3.0", "3.1"]


def test_a_batch_that_fails_leaves_nothing_and_the_writer_can_go_on(topic: Bench) -> None:
    sink = topic.sink(options={"message.max.bytes": 2_000})
    large = pa.table({"k": ["a", "b" * 10_000], "n": [1, 2]})
    with pytest.raises(JobError, match=r"sink kafka topic-.* of drops failed in batch 0") as raised:
        sink.deliver(topic.batch(0, large))
    assert raised.value.code == "job.sink-failed"
    sink.deliver(topic.batch(0))
    assert topic.batches() == ["0.0", "0.1"]


def test_an_empty_batch_that_is_repeated_is_left_to_the_next_one_with_rows(topic: Bench) -> None:
    topic.sink().deliver(topic.batch(0, None, may_repeat=True))
    assert topic.batches() == []


def test_a_topic_that_is_missing_is_refused_before_the_first_batch(topic: Bench) -> None:
    topic.topic = "no-such-topic"
    with pytest.raises(JobError, match=r"drops: nothing can be written to the topic no-such-topic") as raised:
        topic.sink()
    assert raised.value.code == "job.sink"


def test_the_offset_is_the_number_of_the_next_batch(topic: Bench) -> None:
    """An operator sees it with Kafka's own tools."""
    topic.sink().deliver(topic.batch(41))
    consumer = Consumer({"bootstrap.servers": topic.broker.servers, "group.id": topic.identity.group})
    (found,) = consumer.committed([TopicPartition(topic.topic, PARTITION)], timeout=30)
    consumer.close()
    assert found.offset == 42
