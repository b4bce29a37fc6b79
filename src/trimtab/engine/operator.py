"""The one shape that every keyed step of a query has: pattern, window, or a user's own.

An operator is a description. It advances over batches: rows in, rows out, and the state that it leaves is a set of
Arrow tables. It keeps nothing else, so a batch can be repeated, moved to another process, or resumed after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from trimtab.engine.metering import Meter

State = Mapping[str, pa.Table]
"""State as columns, made so that a store can keep it key by key.

The table `keys` has one row per key: the partition columns, and `deadline_us`, the watermark at which an idle key
wants to be visited (null: never). Every other table has an int64 column `key`, the row of its key in `keys`. An empty
mapping is the state before the first row.

A state may be cut by key and put together again: keys taken out, put in another order, brought together with keys of
other states of the same operator. That takes no more than new numbers in `key`: each other number that points at a
row of a state's table counts from the first row of its own key there (negative: no row). Whoever does it leaves the
rows of a key in their order, and the tables sorted by `key`.

A key that gets no rows need not be there before its deadline: visited or not, what comes out is the same. A visited
key leaves a deadline behind the watermark, or none."""

ARRIVAL = "__arrival"
"""The int64 column that every batch carries. Rows of a key that are equal in all that they are ordered by are taken in
the order of these numbers, also where some of them waited since an earlier batch. Any number will do: the row's number
in order of arrival, or a hash of the row. Rows that have it in common, too, may be taken in any order."""

TIME_US = "__time_us"
"""The int64 column that every output carries: the event time that a row is dated by, in microseconds since the epoch,
so that outputs of several engines can be merged. For a pattern that is the time of the match's last row (in all of its
rows; of an unmatched row or an empty match it is the row's own), for OVER the row's time, for GROUP BY the end of the
window, for a user's operator the largest time that the key was handed, or the watermark that woke it. Null where there
is no event time."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of time while a batch runs.

    `watermark_us`: no row older than this will come any more (rows at or behind it wait). None: there is no event
    time, rows are taken in the order they come. `closing`: the input ends with this batch. `meter`: who wants to know
    how long keys took; it has no part in the answer.
    """

    watermark_us: int | None = None
    closing: bool = False
    meter: Meter | None = field(default=None, compare=False)


class Operator(Protocol):
    """A keyed step: pure, so the same rows, state and moment always give the same output and state."""

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Take a batch in, give what is decided by now and the state to carry.

        Called once per batch, also for an empty one, so that idle keys can time out.
        """
        ...


_OF_THE_ENGINE = re.compile(r"__(?!c\d)")


def is_internal(column: str) -> bool:
    """Whether a column is the engine's own, and nothing that a user would know a key by.

    A column whose name the engine uses itself goes by `__c` and a number, and is the user's all the same.

    >>> is_internal("__slot"), is_internal("__c0"), is_internal("symbol")
    (True, False, False)
    """
    return _OF_THE_ENGINE.match(column) is not None
