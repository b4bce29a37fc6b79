"""Ranges that are read at the same time, and those that are not."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pyarrow as pa
import pytest

from trimtab.sources.side_by_side import SMALL, rows_of
from trimtab.sources.source import Partition, Range, Rows

PATIENCE_S = 30


class Meeting:
    """A source whose ranges can be read only when this many are being read, of which one is refused."""

    schema = pa.schema({"start": pa.int64()})

    def __init__(self, meet: int, at_once: int = 4, refused: str = "") -> None:
        self.at_once, self._refused = at_once, refused
        self._barrier = threading.Barrier(meet)

    def partitions(self) -> Mapping[str, Partition]:
        return {}

    def latest(self) -> Mapping[str, int]:
        return {}

    def read(self, part: Range) -> Rows:
        self._barrier.wait(PATIENCE_S)
        if part.partition == self._refused:
            raise ValueError(part.partition)
        return Rows(pa.table({"start": [part.start]}))


def starts(source: Meeting, parts: list[Range]) -> list[int]:
    return [start for rows in rows_of(source, parts) for start in rows.table["start"].to_pylist()]


def test_small_ranges_are_read_at_the_same_time_and_given_in_order() -> None:
    parts = [Range(name, start, start + 1) for start, name in enumerate("abcd")]
    assert starts(Meeting(4), parts) == [0, 1, 2, 3]
    assert starts(Meeting(2, at_once=2), parts) == [0, 1, 2, 3]


def test_large_ranges_and_those_of_other_sources_are_read_one_after_the_other() -> None:
    parts = [Range("a", 0, SMALL), Range("b", 7, 9)]
    assert starts(Meeting(1), parts) == [0, 7]
    assert starts(Meeting(1, at_once=1), parts[1:]) == [7]
    assert starts(Meeting(1), []) == []


def test_an_error_is_raised_where_it_belongs() -> None:
    parts = [Range(name, start, start + 1) for start, name in enumerate("ab")]
    found = rows_of(Meeting(2, refused="b"), parts)
    assert next(found).table["start"].to_pylist() == [0]
    with pytest.raises(ValueError, match="b"):
        next(found)
