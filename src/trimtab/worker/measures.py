"""Measures: what the control of the intake wants to know of a batch, beside its time. Plain values that add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import pyarrow.compute as pc

from trimtab.sources.source import Rows
from trimtab.worker.free_memory import free_memory_share

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured of the rows of a batch, or of some of them.

    size_bytes         how large they were as Arrow columns
    oldest_us          when the first of them was appended to its source; None: the source doesn't tell
    free_memory_share  the least share of the memory that was free where they were; None: unknown

    >>> Measures(10, 7, 0.5) + Measures(5, 3) + Measures()
    Measures(size_bytes=15, oldest_us=3, free_memory_share=0.5)
    """

    size_bytes: int = 0
    oldest_us: int | None = None
    free_memory_share: float | None = None

    def __add__(self, other: Measures) -> Measures:
        """The measures of both together."""
        return Measures(
            self.size_bytes + other.size_bytes,
            least(self.oldest_us, other.oldest_us),
            least(self.free_memory_share, other.free_memory_share),
        )

    @classmethod
    def of(cls, rows: Rows) -> Measures:
        """The measures of rows that were read just now, and are still in memory."""
        oldest = None if rows.appended_us is None else pc.min(rows.appended_us).as_py()
        others = 0 if rows.undecoded is None else rows.undecoded.nbytes
        return cls(rows.table.nbytes + others, oldest, free_memory_share())


def least(*values: Number | None) -> Number | None:
    """The smallest of the values that are known; None: none is.

    >>> least(3, None, 2), least(None)
    (2, None)
    """
    return min((value for value in values if value is not None), default=None)
