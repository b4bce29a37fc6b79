"""What is reported of a batch, and what isn't asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.driver.reading import Read
from trimtab.sources.source import Range
from trimtab.spark.under_way import NOTHING, BatchUnderWay


def test_executors_are_only_asked_for_if_the_intake_is_limited() -> None:
    asked, ranges = list[int](), (Range("a", 0, 5),)
    no_frame: Any = None

    def slots() -> Mapping[str, int]:
        asked.append(1)
        return {"x": 4}

    def intake(read: Read) -> Any:
        return BatchUnderWay(no_frame, 1.0, read).intake(3.0, 3.0, slots)

    assert (intake(NOTHING), intake(Read(ranges)), asked) == (None, None, [])
    found = intake(Read(ranges, limit_rows=100))
    assert (found.limit_rows, found.batch_s, found.reading_s, asked) == (100, 2.0, {"x": None}, [1])
