"""The one shape that every keyed step of a query has: pattern, window, or a user's own.

An operator is a description. It advances over batches: rows in, rows out, and the state that it leaves is a set of
Arrow tables. It keeps nothing else, so a batch can be repeated, moved to another process, or resumed after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

State = Mapping[str, pa.Table]
"""State as columns. The table `keys` has one row per key: the partition columns, and `deadline_us`, the watermark at
which an idle key wants to be visited (null: never). Every other table has an int64 column `key`, the row of its key in
`keys`. An empty mapping is the state before the first row."""

ARRIVAL = "__arrival"
"""The int64 column that every batch carries: the row's number in order of arrival, which breaks ties in time."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of time while a batch runs.

    `watermark_us`: no row older than this will come any more (rows at or behind it wait). None: there is no event
    time, rows are taken in the order they come. `closing`: the input ends with this batch.
    """

    watermark_us: int | None = None
    closing: bool = False


class Operator(Protocol):
    """A keyed step: pure, so the same rows, state and moment always give the same output and state."""

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Take a batch in, give what is decided by now and the state to carry.

        Called once per batch, also for an empty one, so that idle keys can time out.
        """
        ...
