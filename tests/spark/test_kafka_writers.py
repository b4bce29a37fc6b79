"""The writers of a Kafka sink: which rows are whose, who writes them, and what a repetition does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from tests.spark.test_kafka_sink import Bench, headers
from tests.support.broker import Broker
from trimtab.errors import JobError
from trimtab.sources.kafka_clients import Access
from trimtab.spark import kafka_sink
from trimtab.spark.kafka_fleet import Fleet
from trimtab.spark.kafka_jobs import Cargo
from trimtab.spark.kafka_rows import in_lists, message_columns, shares
from trimtab.spark.kafka_sink import KafkaSink
from trimtab.spark.sinks import Delivery

WRITERS = 3
KEYS = [f"key {number % 17}" for number in range(100)]
ROWS = pa.table({"k": KEYS, "n": range(100)})


@pytest.fixture
def topic(broker: Broker, tmp_path: Path) -> Bench:
    return Bench(broker, tmp_path)


def written(topic: Bench) -> list[tuple[int, int, str, str]]:
    """What readers see, in order of batches and rows: both numbers, key and value."""
    found = []
    for message in topic.messages():
        said = {name: value.decode() for name, value in headers(message)}
        key, value = (each.decode() if isinstance(each, bytes) else "" for each in (message.key(), message.value()))
        found.append((int(said["trimtab.batch"]), int(said["trimtab.row"]), key, value))
    return sorted(found)


def sink(topic: Bench, **options: Any) -> KafkaSink:
    return topic.sink(key="k", writers=WRITERS, **options)


def with_file(topic: Bench, batch: int, **more: Any) -> Delivery:
    """A batch of `ROWS` of which an engine left half in a file."""
    pq.write_table(ROWS.slice(50), topic.folder / "e0.parquet")
    return topic.batch(batch, ROWS.slice(0, 50), files=("e0.parquet",), **more)


def values(rows: pa.Table = ROWS) -> Counter[str]:
    return Counter(map(str, in_lists(message_columns(rows, "k")).values))


def test_messages_with_a_key_have_one_writer_and_stay_in_order(topic: Bench) -> None:
    sink(topic).deliver(topic.batch(0, ROWS))
    found = written(topic)
    assert Counter(value for *_, value in found) == values()
    assert len({row for _, row, _, _ in found}) == len(found)
    for key in set(KEYS):
        own = [(row, value) for _, row, of, value in found if of == key]
        assert len({row % WRITERS for row, _ in own}) == 1
        assert [value for _, value in own] == [f'{{"k":"{key}","n":{n}}}' for n in range(100) if KEYS[n] == key]
    assert {row % WRITERS for _, row, _, _ in found} == set(range(WRITERS))


def whose(key: str | None, value: str | None, writers: int) -> int:
    """The writer of a message, by Spark's hash of a text: a batch that a later build repeats needs the same ones."""
    text = value if key is None else key
    hashed = 42 if text is None else xxhash.xxh64_intdigest(text.encode(), 42)
    return int(np.uint64(hashed).astype(np.int64)) % writers


@pytest.mark.parametrize("writers", [1, 2, 5])
def test_shares_are_those_of_a_plain_loop(writers: int) -> None:
    keys = ["x", "y", "x", "", None, None, None, "z"]
    texts = pa.table({"v": ["a", "b", "c", "d", "e", None, "e", None], "k": keys})
    rows = texts.append_column("row", pa.array(range(len(keys))))
    expected: dict[int, list[int]] = {}
    for row, (key, value) in enumerate(zip(keys, texts["v"].to_pylist(), strict=True)):
        expected.setdefault(whose(key, value, writers), []).append(row)
    assert {number: share["row"].to_pylist() for number, share in shares(rows, writers).items()} == expected


def test_tasks_write_what_the_driver_would(topic: Bench, broker: Broker, spark: Any, tmp_path: Path) -> None:
    by_tasks, by_driver = sink(topic), Bench(broker, tmp_path / "other")
    by_driver.folder.mkdir()
    sink(by_driver).deliver(by_driver.batch(0, ROWS))
    by_tasks.deliver(with_file(topic, 0, spark=spark))
    assert written(topic) == written(by_driver)
    by_tasks.deliver(topic.batch(1, ROWS))  # the driver opens the writers again that the tasks opened
    by_tasks.deliver(with_file(topic, 1, spark=spark, may_repeat=True))
    by_tasks.deliver(with_file(topic, 2, spark=spark))
    sink(topic).deliver(with_file(topic, 2, spark=spark, may_repeat=True))
    assert Counter(batch for batch, *_ in written(topic)) == {0: 100, 1: 100, 2: 100}


def test_a_task_that_fails_fails_the_batch(topic: Bench, spark: Any) -> None:
    found = sink(topic, options={"message.max.bytes": 2_000})
    large = pa.table({"k": ["a", "b" * 10_000], "n": [1, 2]})
    pq.write_table(large, topic.folder / "e0.parquet")
    with pytest.raises(JobError, match=r"failed in batch 0: .*writer \d: KafkaException") as raised:
        found.deliver(topic.batch(0, large.slice(0, 0), files=("e0.parquet",), spark=spark))
    assert raised.value.code == "job.sink-failed"


def test_a_repetition_lets_only_those_write_that_are_missing(topic: Bench) -> None:
    first = sink(topic)
    first.deliver(topic.batch(0, ROWS))
    assert first._fleet is not None
    found = shares(message_columns(ROWS, "k"), WRITERS)
    first._fleet.write(1, {1: [in_lists(found[1])]})  # and then the driver dies
    sink(topic).deliver(topic.batch(1, ROWS, may_repeat=True))
    assert Counter(value for *_, value in written(topic)) == values() + values()
    assert len(written(topic)) == len({(batch, row) for batch, row, _, _ in written(topic)})


def in_this_process(cargo: Cargo, delivery: Delivery) -> None:
    """`write_by_tasks` without Spark."""
    sent = list(cargo.parcels(delivery.pieces()))
    for number in range(WRITERS):
        cargo.write(number, [parcel for writer, parcel in reversed(sent) if writer == number])


def test_tasks_of_a_job_that_was_replaced_write_nothing(topic: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They open the writers after the later job did, so that Kafka alone would let them."""
    monkeypatch.setattr(kafka_sink, "write_by_tasks", in_this_process)
    old, new = sink(topic), sink(topic)
    old.deliver(with_file(topic, 0, epoch=1))
    new.deliver(topic.batch(1, ROWS.slice(0, 1), epoch=2))  # claims all writers, and writes with one
    for delivery in (with_file(topic, 1, epoch=1), topic.batch(1, ROWS, epoch=1)):
        with pytest.raises(JobError, match="batches of a later start") as raised:
            old.deliver(delivery)
        assert raised.value.code == "job.sink-fenced"
    assert Counter(batch for batch, *_ in written(topic)) == {0: 100, 1: 1}


def test_the_number_of_writers_stays(topic: Bench) -> None:
    sink(topic).deliver(topic.batch(0, ROWS))
    with pytest.raises(JobError, match="has 3 writers of drops, which stay, and not 5") as raised:
        topic.sink(writers=5).deliver(topic.batch(1, ROWS))
    assert (raised.value.code, raised.value.hint[:15]) == ("job.sink", "write writers=3")
    unsaid = topic.sink(key="k", writers=None)
    unsaid.deliver(topic.batch(1, ROWS))
    assert Counter(row % WRITERS for batch, row, *_ in written(topic) if batch == 1) == Counter(
        row % WRITERS for batch, row, *_ in written(topic) if batch == 0
    )


def test_a_group_that_is_gone_of_one_writer_is_enough_to_ask(topic: Bench) -> None:
    first = sink(topic)
    first.deliver(topic.batch(0, ROWS))
    assert first._fleet is not None
    gone = f"{first._fleet.identity.sink}-1-of-{WRITERS}"
    for future in topic.broker.admin.delete_consumer_groups([gone]).values():
        future.result()
    with pytest.raises(JobError) as raised:
        sink(topic).deliver(topic.batch(0, ROWS, may_repeat=True))
    assert raised.value.code == "job.sink-forgotten"


def test_writers_without_rows_write_their_numbers_again_before_they_expire(
    topic: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_sink, "REFRESH_S", 0.0)
    found = sink(topic)
    found.deliver(topic.batch(0, ROWS))
    found.deliver(topic.batch(7, ROWS.slice(0, 1)))
    identity = topic.identity.__class__("job1", "c0ffee", "drops", topic.topic, writers=WRITERS)
    assert Fleet(Access(topic.broker.servers), identity, 0).next_batches == [8, 8, 8]
