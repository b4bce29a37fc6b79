"""Outputs are handed over side by side only where sinks allow it; once one fails, no further one begins."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from trimtab.driver.happenings import HandOver
from trimtab.sources.kafka_clients import Access
from trimtab.spark import side_by_side as module
from trimtab.spark.kafka_sink import SMALL, KafkaSink
from trimtab.spark.parquet_sink import ParquetSink
from trimtab.spark.side_by_side import side_by_side
from trimtab.spark.sinks import FunctionSink, Sink
from trimtab.worker.orders import Output

ROWS = {"large topic": (Output(SMALL, b""), Output(1, b"")), "topic from files": (Output(1, b"", "a.parquet"),)}
"""What engines put out; of others one row each."""


def outputs(*names: str) -> list[HandOver]:
    return [HandOver(name, cast(Any, None), ROWS.get(name, (Output(1, b""), Output(1, b""))), False) for name in names]


SINKS: dict[str, list[Sink]] = {
    "file": [ParquetSink("a")],
    "files": [ParquetSink("b"), ParquetSink("c")],
    "function": [FunctionSink(lambda _frame, _batch: None)],
    "both": [ParquetSink("d"), FunctionSink(lambda _frame, _batch: None)],
    "parts": [ParquetSink("e", partition_by=("day",))],
    "topic": [KafkaSink(Access("nowhere:1"), "a"), ParquetSink("f")],
    "large topic": [KafkaSink(Access("nowhere:1"), "b")],
    "topic from files": [KafkaSink(Access("nowhere:1"), "c")],
}


def test_only_sinks_that_need_no_spark_jobs_are_called_in_other_threads() -> None:
    threads: dict[str, str] = {}

    def hand_over(output: HandOver) -> None:
        threads[output.name] = threading.current_thread().name

    side_by_side(outputs(*SINKS, "no sink"), SINKS, hand_over)
    here = threading.current_thread().name
    apart = {name for name, thread in threads.items() if thread != here}
    assert apart == {"file", "files", "topic", "no sink"}
    assert set(threads) == {*SINKS, "no sink"}


def test_topics_are_written_at_the_same_time() -> None:
    names = [f"topic {number}" for number in range(module.AT_ONCE)]
    together = threading.Barrier(len(names), timeout=30)
    sinks = {name: [KafkaSink(Access("nowhere:1"), name)] for name in names}
    side_by_side(outputs(*names), sinks, lambda _: cast(None, together.wait()))


def test_once_an_output_fails_those_under_way_end_and_no_other_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 1)
    done, has_begun, is_failing = list[str](), threading.Event(), threading.Event()

    def hand_over(output: HandOver) -> None:
        if output.name == "file":
            assert has_begun.wait(30)
            is_failing.set()
            raise ValueError(output.name)
        has_begun.set()
        assert is_failing.wait(30)
        done.append(output.name)

    with pytest.raises(ValueError, match="file"):
        side_by_side(outputs("file", "topic", "function", "files"), SINKS, hand_over)
    assert done == ["function"]
