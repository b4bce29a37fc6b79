"""The source Kafka without a broker: its arguments, and what it says when something is missing."""

from __future__ import annotations

import pickle
import sys
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from trimtab.errors import JobError
from trimtab.sources.kafka import Kafka
from trimtab.sources.kafka_clients import borrowed_consumer
from trimtab.sources.source import Range, close_source, part_of

NOBODY = "127.0.0.1:1"
MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no schema for JSON": ({"schema": None}, "source.schema", "JSON needs a schema"),
    "a schema for text": ({"value": "string"}, "source.schema", "string has the one column value"),
    "columns for Avro": ({"value": "avro", "schema": pa.schema({})}, "source.schema", "Avro needs its schema"),
    "an unknown value": ({"value": "xml"}, "source.value", "'xml' is no kind of value"),
    "an unknown start": ({"start": "first"}, "source.start", "'first' is no place to start"),
    "a time without a zone": ({"start": datetime(2030, 1, 1)}, "source.start", "has no zone"),
    "no topics": ({"topics": []}, "source.topic", "name at least one"),
    "the same topic twice": ({"topics": ["a", "a"]}, "source.topic", "name at least one, once"),
    "an unknown column": ({"columns": ["size"]}, "source.columns", "have no size"),
    "a column of the value": ({"schema": "key INT", "columns": ["key"]}, "source.columns", "key would be there twice"),
    "an option of trimtab's": ({"options": {"enable.auto.commit": True}}, "source.option", "the checkpoint has"),
}


def kafka(**changed: Any) -> Kafka:
    return Kafka(**{"servers": NOBODY, "topics": "t", "schema": "k BIGINT", "patience_s": 0.3, **changed})


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found_before_anything_is_read(mistake: str) -> None:
    changed, code, text = MISTAKES[mistake]
    with pytest.raises(JobError) as caught:
        kafka(**changed)
    assert caught.value.code == code
    assert text in str(caught.value)


def test_a_schema_may_be_arrows_and_its_columns_may_always_be_null() -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    assert kafka(schema=schema).schema == kafka().schema == pa.schema({"k": pa.int64()})


def test_columns_of_messages_follow_those_of_the_value() -> None:
    columns = ["key", "topic", "partition", "offset", "timestamp", "headers"]
    assert kafka(columns=columns).schema.names == ["k", *columns]


def test_a_partition_belongs_to_its_topic() -> None:
    assert part_of(kafka(), "a.b-c:12") == "a.b-c"


def test_a_source_is_pickled_before_and_after_it_was_used() -> None:
    source = kafka()
    for _ in range(2):
        assert pickle.loads(pickle.dumps(source)).schema == source.schema
        with pytest.raises(JobError):
            source.latest()


def test_no_password_is_shown() -> None:
    source = kafka(options={"sasl.password": "secret"})
    assert repr(source) == "Kafka('127.0.0.1:1', 't')"
    assert "secret" not in repr(source.__dict__)


def test_servers_that_are_not_there_are_named_soon() -> None:
    for ask in (kafka().partitions, kafka().latest, lambda: kafka().read(Range("t:0", 0, 1))):
        with pytest.raises(JobError, match=f"Kafka at {NOBODY} gave no answer for 0 s while") as caught:
            ask()
        assert caught.value.code == "source.unreachable"
        assert "Connect" in caught.value.message, "it says what is wrong with the connection"


def test_an_option_that_there_is_not_is_named() -> None:
    for ask in (kafka(options={"no.such": 1}).latest, lambda: kafka(options={"no.such": 1}).read(Range("t:0", 0, 1))):
        with pytest.raises(JobError, match=r"no\.such") as caught:
            ask()
        assert caught.value.code == "source.option"


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    source = kafka()
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(JobError, match=r"trimtab\[kafka\]") as caught:
        source.partitions()
    assert caught.value.code == "source.package"


def test_options_reach_all_clients_that_know_them() -> None:
    options = {"security.protocol": "SSL", "enable.ssl.certificate.verification": False, "fetch.min.bytes": 7}
    access = kafka(options=options)._access
    consuming, asking = access.settings(consuming=True), access.settings(consuming=False)
    assert options.items() <= consuming.items()
    assert consuming["isolation.level"] == "read_committed"
    assert options.keys() & asking.keys() == {"security.protocol", "enable.ssl.certificate.verification"}
    assert consuming["bootstrap.servers"] == asking["bootstrap.servers"] == NOBODY


def test_defaults_may_be_changed_by_options() -> None:
    access = kafka(options={"group.id": "allowed", "isolation.level": "read_uncommitted"})._access
    assert access.settings(consuming=True)["group.id"] == "allowed"
    assert not access.committed_only


def test_a_source_that_is_closed_closes_the_connections_of_its_own_and_opens_new_ones_when_it_is_used() -> None:
    source, other = kafka(options={"client.id": "mine"}), kafka(options={"client.id": "others"})
    handles = []
    for each in (source, other):
        with borrowed_consumer(each._access) as client, borrowed_consumer(each._access) as second:
            handles.append((client.handle, second.handle))
    source.close()
    source.close()
    for handle in handles[0]:
        with pytest.raises(RuntimeError, match="closed"):
            handle.assignment()
    assert [handle.assignment() for handle in handles[1]] == [[], []]
    with borrowed_consumer(source._access) as client:
        assert client.handle.assignment() == []
    close_source(source)
    close_source(other)


def test_connections_are_found_again_whatever_functions_are_among_the_options() -> None:
    source = kafka(options={"throttle_cb": partial(print, "slow"), "client.id": "mine"})
    first, second = (pickle.loads(pickle.dumps(source)) for _ in range(2))  # as in two tasks
    with borrowed_consumer(first._access) as client:
        handle = client.handle
    with borrowed_consumer(second._access) as client:
        assert client.handle is handle
    second.close()
    assert kafka(options={"a": 1})._access.key == kafka(options={"a": 1})._access.key
    others = [kafka(options={"throttle_cb": partial(print, each)}) for each in ("one", "other")]
    assert others[0]._access.key != others[1]._access.key


def test_a_source_that_can_not_be_closed_keeps_nothing_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Kafka) -> None:
        raise OSError("the cable is cut")

    monkeypatch.setattr(Kafka, "close", fail)
    close_source(kafka())
    assert "Kafka('127.0.0.1:1', 't') can't be closed" in caplog.text
    close_source(None)
