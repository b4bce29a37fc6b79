"""Which Kafka sink `.write("kafka", ...)` makes, and what it refuses without a broker."""

from __future__ import annotations

import builtins
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from trimtab.errors import JobError
from trimtab.spark.kafka_sink import KafkaSink
from trimtab.spark.sinks import FormatSink, make_sink, prepare_sinks

NO_SPARK = cast(SparkSession, None)
OPTIONS = {"servers": "127.0.0.1:1", "topic": "alerts"}


def sink(**options: Any) -> KafkaSink:
    found = make_sink(NO_SPARK, "kafka", {**OPTIONS, **options})
    assert isinstance(found, KafkaSink)
    return found


def test_sparks_options_ask_for_sparks_connector() -> None:
    assert isinstance(make_sink(NO_SPARK, "kafka", {"Kafka.Bootstrap.Servers": "b:1", "topic": "alerts"}), FormatSink)
    assert sink(key="k") == KafkaSink(sink().access, "alerts", "k")


def test_options_of_librdkafka_are_given_together_or_by_name() -> None:
    together = sink(options={"security.protocol": "SSL", "retries": 3})
    assert dict(together.access.options) == {"security.protocol": "SSL", "retries": 3}
    assert dict(sink(**{"security.protocol": "SSL"}).access.options) == {"security.protocol": "SSL"}
    assert "SSL" not in repr(together)  # passwords are among them


def test_numbers_may_be_texts_as_in_job_files() -> None:
    found = sink(writers="2", patience_s="1.5")
    assert (found.writers, found.access.patience_s) == (2, 1.5)
    assert (sink().writers, sink().access.patience_s) == (None, 60.0)


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"servers": ""}, "a kafka sink needs servers"),
        ({"topic": None}, "a kafka sink needs topic"),
        ({"keys": "k"}, "a kafka sink has no option keys"),
        ({"options": {"transactional.id": "mine"}}, "the option transactional.id of Kafka can't be given"),
        ({"bootstrap.servers": "b:1"}, "the option bootstrap.servers of Kafka can't be given"),
        ({"writers": 0}, "a kafka sink has writers=0"),
        ({"writers": "2.5"}, "a kafka sink has writers='2.5'"),
        ({"patience_s": "long"}, "a kafka sink has patience_s='long'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], reported: str) -> None:
    with pytest.raises(JobError, match=reported) as raised:
        sink(**options)
    assert raised.value.code == "job.sink"


def test_what_cannot_work_is_refused_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JobError, match="drops: there is no column key to be the key"):
        sink(key="key").prepare("drops", ["k"])
    with pytest.raises(JobError, match=r"drops: no Kafka broker of its sink can be reached: 127.0.0.1:1"):
        sink().prepare("drops", ["k"])
    imported = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("confluent_kafka"):
            raise ImportError("No module named 'confluent_kafka'")
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(JobError, match=r"drops: writing to Kafka needs the package confluent-kafka") as raised:
        sink().prepare("drops", ["k"])
    assert raised.value.hint == "pip install 'trimtab[kafka]'"


def test_a_query_may_write_to_a_topic_once_and_others_may_too() -> None:
    with pytest.raises(JobError, match="drops and drops both write to the topic alerts"):
        prepare_sinks({"drops": ([sink(), sink()], ["k"])}, "checkpoint")
    assert sink().place("drops") != sink().place("rises")
