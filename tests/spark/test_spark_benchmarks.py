"""Benchmarks of sources and rules still run, on very few rows, and still find the same matches where they compare them.

What is measured beside them in Spark and Flink is left out: see `tests/test_benchmark_peers.py`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spark import floor, kafka, kafka_latency, many_rules, own_small, own_source, run, transform_with_state
from benchmarks.spark.session import Batch
from tests.support import broker as brokers
from tests.support.broker import Broker
from tests.test_benchmarks import check


@pytest.fixture(autouse=True)
def no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's stateful Python, and the floor, seem to take a second a batch."""

    def measured(_spark: Any, folder: Path, _checkpoint: Path, *, files_per_batch: int = 1) -> tuple[Batch, ...]:
        count = len(list(folder.iterdir())) // files_per_batch
        return tuple(Batch(number, 1_000, 1_000, 1_000, {}) for number in range(count))

    for peer in (transform_with_state, floor):
        monkeypatch.setattr(peer, "run", measured)


@pytest.fixture
def one_broker(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks use the broker that is there."""

    @contextlib.contextmanager
    def running() -> Iterator[Broker]:
        yield broker

    monkeypatch.setattr(brokers, "running_broker", running)


def test_own_files_are_measured_beside_the_same_files_read_by_spark(spark: Any, tmp_path: Path) -> None:
    sizes = replace(own_source.QUICK, batches=1, warm_up=0, rows=2_000)
    check(own_source.run(spark, tmp_path, sizes))


def test_small_batches_of_own_files_are_measured(spark: Any, tmp_path: Path) -> None:
    check(own_small.run(spark, tmp_path, replace(own_small.QUICK, batches=2, warm_up=1, rows=200)))


def test_rules_find_the_same_in_esper_and_whoever_reads(spark: Any, tmp_path: Path) -> None:
    check(many_rules.run(spark, tmp_path, replace(many_rules.QUICK, rules=2, alike=2, rows=2_000)))


@pytest.mark.usefixtures("one_broker")
def test_messages_are_matched_the_same_for_every_batch_size(spark: Any, tmp_path: Path) -> None:
    sizes = replace(kafka.QUICK, messages=4_000, partitions=2, warm_up=300, batches=(2_000, 0))
    result = kafka.run(spark, tmp_path, sizes)
    check(result)
    assert [bar.claim for bar in result.bars[1:] if not bar.holds] == [], "none late, and the same matches"


@pytest.mark.usefixtures("one_broker")
def test_small_batches_from_kafka_are_measured_until_their_sink(spark: Any, tmp_path: Path) -> None:
    sizes = replace(kafka_latency.QUICK, batches=2, warm_up=1, seconds=1.0, warm_up_s=0.0)
    check(kafka_latency.run(spark, tmp_path, sizes))


@pytest.mark.papers
def test_the_page_is_made_from_the_results() -> None:
    results = json.loads(run.RESULTS.read_text(encoding="utf-8"))
    assert list(results["benchmarks"]) == list(run.BENCHMARKS)
    assert run.PAGE.read_text(encoding="utf-8") == run.page(results)
