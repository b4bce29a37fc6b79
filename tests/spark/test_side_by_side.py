"""Outputs are handed over side by side only where sinks allow it, and none is left out when one fails."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from trimtab.driver.happenings import HandOver
from trimtab.spark.parquet_sink import ParquetSink
from trimtab.spark.side_by_side import side_by_side
from trimtab.spark.sinks import FunctionSink, Sink


def outputs(*names: str) -> list[HandOver]:
    return [HandOver(name, cast(Any, None), (), False) for name in names]


SINKS: dict[str, list[Sink]] = {
    "file": [ParquetSink("a")],
    "files": [ParquetSink("b"), ParquetSink("c")],
    "function": [FunctionSink(lambda _frame, _batch: None)],
    "both": [ParquetSink("d"), FunctionSink(lambda _frame, _batch: None)],
    "parts": [ParquetSink("e", partition_by=("day",))],
}


def test_only_sinks_that_write_files_are_called_in_other_threads() -> None:
    threads: dict[str, str] = {}

    def hand_over(output: HandOver) -> None:
        threads[output.name] = threading.current_thread().name

    side_by_side(outputs(*SINKS, "no sink"), SINKS, hand_over)
    here = threading.current_thread().name
    assert {name for name, thread in threads.items() if thread == here} == {"function", "both", "parts"}
    assert set(threads) == {*SINKS, "no sink"}


def test_an_error_is_raised_when_all_outputs_that_were_begun_are_done() -> None:
    done = []

    def hand_over(output: HandOver) -> None:
        if output.name == "file":
            raise ValueError(output.name)
        done.append(output.name)

    with pytest.raises(ValueError, match="file"):
        side_by_side(outputs(*SINKS), SINKS, hand_over)
    assert sorted(done) == sorted(set(SINKS) - {"file"})
