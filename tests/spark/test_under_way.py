"""What is observed of a batch for the control of the intake."""

from __future__ import annotations

from typing import Any

from trimtab.driver.reading import Read
from trimtab.sources.source import Range
from trimtab.spark.under_way import BatchUnderWay

NO_FRAME: Any = None


def test_the_wait_for_a_decision_is_no_time_that_rows_took() -> None:
    read = Read((Range("a", 0, 5),), rows=5.0, limit_rows=5)
    seen = BatchUnderWay(NO_FRAME, 10.0, read, waited_s=0.15, is_plain=True).intake(12.0, 1e9, {})
    assert seen is not None
    assert (seen.batch_s, seen.limit_rows, seen.is_plain) == (1.85, 5, True)


def test_nothing_is_observed_of_a_batch_without_a_limit() -> None:
    assert BatchUnderWay(NO_FRAME, 10.0, Read((Range("a", 0, 5),))).intake(12.0, 1e9, {}) is None
