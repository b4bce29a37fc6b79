"""The crash law's streams and outputs as topics of Kafka: filled once, and read with `read_committed`."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.support.broker import Broker
from tests.support.crash_answers import Answer, counted, file_answer, schemas
from tests.support.crash_job import QUERIES, STREAMS, input_topic, output_topic
from trimtab.sources.json_values import JsonValues
from trimtab.spark.kafka_rows import messages_of

PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of all jobs of a law: one for each stream, and for each job one for each query."""

    broker: Broker
    folder: Path  # the input as files

    def fill(self) -> None:
        """Make the streams' topics, with the rows of the files in their order."""
        producer = Producer({"bootstrap.servers": self.broker.servers, "linger.ms": 5})
        for stream in STREAMS:
            topic = self.broker.make_topic(input_topic(stream), partitions=PARTITIONS)
            for path in sorted((self.folder / stream).glob("*.parquet")):
                rows = pq.read_table(path)
                for key, value in zip(rows["k"].to_pylist(), messages_of(rows).values, strict=True):
                    producer.produce(topic, value, partition=key % PARTITIONS)
                producer.poll(0)
        assert producer.flush(60) == 0, "the input is not in Kafka"

    def begin(self, job: str) -> list[str]:
        """Make the topics that a job writes to; returns the arguments of its process."""
        for query in QUERIES:
            self.broker.make_topic(output_topic(job, query), partitions=PARTITIONS)
        return ["--kafka", self.broker.servers, "--kafka-job", job]

    def answer(self, job: str, output: Path) -> Answer:
        """What a job wrote: to topics, and to files."""
        found = {name: self._rows(job, name, schema) for name, schema in schemas(self.folder).items()}
        return {**file_answer(output), **found}

    def doubled(self, job: str) -> list[str]:
        """Messages that name the same batch and row as another one of their topic."""
        found = []
        for query in QUERIES:
            names = collections.Counter(map(_name, self._messages(output_topic(job, query))))
            found += [f"{query}: {count} messages are {name}" for name, count in names.items() if count > 1]
        return found

    def _rows(self, job: str, query: str, schema: pa.Schema) -> collections.Counter[tuple[object, ...]]:
        values = pa.array([each.value() for each in self._messages(output_topic(job, query))], pa.binary())
        decoded = JsonValues(schema).decode(values)
        assert not decoded.reasons, decoded.reasons
        return counted(decoded.table)

    def _messages(self, topic: str) -> Iterator[Message]:
        settings = {"bootstrap.servers": self.broker.servers, "group.id": "law", "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
            left = PARTITIONS
            while left:
                message = consumer.poll(60)
                assert message is not None, f"nothing was read of {topic}, and no end: is a transaction left open?"
                if (error := message.error()) is None:
                    yield message
                else:
                    assert error.code() == error._PARTITION_EOF, error
                    left -= 1
        finally:
            consumer.close()


def _name(message: Message) -> str:
    said = dict(message.headers() or [])
    return f"{said['trimtab.batch']!r}, {said['trimtab.row']!r}"
