"""What is observed of a batch for the control of the intake, and what isn't asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.driver.reading import Read
from trimtab.sources.source import Range
from trimtab.spark.under_way import NOTHING, BatchUnderWay

NO_FRAME: Any = None


def no_slots() -> Mapping[str, int]:
    return {}


def test_executors_are_only_asked_for_if_the_intake_is_limited() -> None:
    asked, ranges = list[int](), (Range("a", 0, 5),)

    def slots() -> Mapping[str, int]:
        asked.append(1)
        return {"x": 4}

    def intake(read: Read) -> Any:
        return BatchUnderWay(NO_FRAME, 1.0, read).intake(3.0, 3.0, slots)

    assert (intake(NOTHING), intake(Read(ranges)), asked) == (None, None, [])
    found = intake(Read(ranges, limit_rows=100))
    assert (found.limit_rows, found.batch_s, found.reading_s, asked) == (100, 2.0, {"x": None}, [1])


def test_the_wait_for_a_decision_is_no_time_that_rows_took() -> None:
    read = Read((Range("a", 0, 5),), rows=5.0, limit_rows=5)
    seen = BatchUnderWay(NO_FRAME, 10.0, read, waited_s=0.15, is_plain=True).intake(12.0, 1e9, no_slots)
    assert seen is not None
    assert (seen.batch_s, seen.limit_rows, seen.is_plain) == (1.85, 5, True)
