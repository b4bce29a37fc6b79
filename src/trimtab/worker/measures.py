"""Measures: what the control of the intake wants to know of a batch, beside its time. Plain values that add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow.compute as pc

from trimtab.sources.source import Rows
from trimtab.worker.free_memory import free_memory_lately

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured of the rows of a batch, or of some of them.

    size_bytes         how large they were as Arrow columns
    oldest_us          when the first of them was appended to its source; None: the source doesn't tell
    free_memory_share  the least share of the memory that was free where they were; None: unknown
    reading_s          for how long tasks read them, by executor: the sum over its tasks

    >>> Measures(10, 7, 0.5) + Measures(5, 3) + Measures()
    Measures(size_bytes=15, oldest_us=3, free_memory_share=0.5, reading_s={})
    """

    size_bytes: int = 0
    oldest_us: int | None = None
    free_memory_share: float | None = None
    reading_s: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: Measures) -> Measures:
        """The measures of both together."""
        return Measures(
            self.size_bytes + other.size_bytes,
            least(self.oldest_us, other.oldest_us),
            least(self.free_memory_share, other.free_memory_share),
            added(self.reading_s, other.reading_s),
        )

    @classmethod
    def of(cls, rows: Rows) -> Measures:
        """The measures of rows that were read just now, and are still in memory."""
        oldest = None if rows.appended_us is None else pc.min(rows.appended_us).as_py()
        others = 0 if rows.undecoded is None else rows.undecoded.nbytes
        return cls(rows.table.nbytes + others, oldest, free_memory_lately())


def added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The sums of what both have by the same names.

    >>> added({"a": 1.0}, {"a": 2.0, "b": 3.0})
    {'a': 3.0, 'b': 3.0}
    """
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


def least(*values: Number | None) -> Number | None:
    """The smallest of the values that are known; None: none is.

    >>> least(3, None, 2), least(None)
    (2, None)
    """
    return min((value for value in values if value is not None), default=None)
