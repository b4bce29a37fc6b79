"""What a source of a stream is: partitions with positions, and ranges of them that workers read as Arrow tables.

The driver decides from which position to which each batch reads, and writes that into the batch's plan. Workers then
read the ranges, side by side. No Spark here, and no decision: a source only says what there is, and reads it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import pyarrow as pa

from trimtab.state.files import Folder

_log = logging.getLogger("trimtab")


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of one partition: those from the position `start` up to, but not including, `end`."""

    partition: str
    start: int
    end: int


def positions_of(ranges: Sequence[Range]) -> int:
    """How many positions some ranges have."""
    return sum(each.end - each.start for each in ranges)


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a source that is read in order.

    earliest   the first position that can still be read
    start      the position at which a job begins that has never read this partition
    """

    earliest: int
    start: int


class Clock(Enum):
    """Whose clock shows when rows were appended, and so what that says of how far ahead a row is."""

    SOURCE = "the source's own: it alone decides"
    WRITER = "that of those who wrote the rows: it is believed as far as the job's clock has come"
    FILE = "when the row's file was changed: it says nothing, as copies keep times or get new ones"


@dataclass(frozen=True, slots=True)
class Rows:
    """What a range holds.

    table         the rows that could be decoded, in the order of their positions, with the source's schema
    appended_us   when each of them was appended to the source, in microseconds since 1970; None: that isn't known
    undecoded     the others, with the columns `UNDECODED`; None: there are none
    clock         whose clock shows when rows were appended
    positions     where in the partition each of them is, as int64, so that quarantine can say it; None: it doesn't
    """

    table: pa.Table
    appended_us: pa.Array | None = None
    undecoded: pa.Table | None = None
    clock: Clock = Clock.SOURCE
    positions: pa.Array | None = None


MEMORY_OF = "source.json"
"""The file that says which source remembers in the first folder: see `opened`."""

UNDECODED = pa.schema({"partition": pa.string(), "position": pa.int64(), "value": pa.binary(), "reason": pa.string()})
"""What is known of a row whose value can't be decoded: where it is, its bytes as they came, and what is wrong."""


@runtime_checkable
class Source(Protocol):
    """Where the rows of a stream come from.

    A position is a whole number that counts through a partition. Positions may have gaps, and a row keeps its own: the
    same range, read again, gives the same rows in the same order. That is what lets a batch be repeated after a crash.

    A source is pickled, and read in other processes: it opens its connections when it is first used there.

    It may have an attribute `identity` (see `identity_of`), and a method `part_of` (see there).
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def partitions(self) -> Mapping[str, Partition]:
        """The partitions that there are now, by name."""

    def latest(self) -> Mapping[str, int]:
        """Where each partition ends now: the position after its last row."""

    def read(self, part: Range) -> Rows:
        """The rows of a range, which lies between the partition's `earliest` and `latest`."""


@runtime_checkable
class Remembering(Source, Protocol):
    """A source that has to remember what it found, such as files, whose positions are not theirs.

    Each position may be many rows, unless the source has an attribute `rows_each` that says how many.
    """

    def opened(self, folder: Folder) -> Source:
        """The same source, which keeps what it has to remember in this folder of the job's checkpoint."""


def identity_of(source: Source | None) -> str:
    """What tells a source from others whose positions mean other rows: its attribute `identity`, or its class's name.

    "": there is no source.
    """
    return "" if source is None else str(getattr(source, "identity", type(source).__name__))


def part_of(source: Source, partition: str) -> str:
    """What a user has named that a partition belongs to, such as a topic: all of the source, if it doesn't say."""
    found = getattr(source, "part_of", None)
    return "" if found is None else str(found(partition))


def opened(source: Source, home: Folder) -> Source:
    """The source as a job reads it; `home` is the folder of the stream.

    What a source has to remember isn't given to another one: `MEMORY_OF` says whose the first folder is.
    """
    if not isinstance(source, Remembering):
        return source
    home.make()
    identity = identity_of(source)
    if not home.exists(MEMORY_OF):
        with suppress(FileExistsError):  # another process was quicker; only one of them gets the job's lock
            home.write(MEMORY_OF, json.dumps({"identity": identity}).encode(), replace=False)
    is_first = json.loads(home.read(MEMORY_OF))["identity"] == identity
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return source.opened(home.child("source" if is_first else f"source-{digest}"))


def rows_each(source: Source) -> float:
    """How many rows a position has, as far as that is known before any are read; infinite: it isn't."""
    return float(getattr(source, "rows_each", math.inf if isinstance(source, Remembering) else 1.0))


def is_near(source: Source) -> bool:
    """Whether reading a range several times at once takes nothing but time: no network, and no server that is asked.

    A source says so by an attribute of this name.
    """
    return bool(getattr(source, "is_near", False))


def complete_s(source: Source, asked_s: float) -> float:
    """As of when what a source has just answered holds; it was asked at `asked_s`, in seconds since 1970.

    A source that finds rows later than they come says as `complete_s` by when all that had come is in its answers.
    """
    return min(asked_s, float(getattr(source, "complete_s", asked_s)))


def real_ends(source: Source) -> Mapping[str, int]:
    """Up to where partitions have rows, whether these may be read now or not; nothing: where `latest` says.

    A source whose `latest` may fall though no row is lost has a method of this name.
    """
    ask: Callable[[], Mapping[str, int]] = getattr(source, "real_ends", dict)
    return ask()


def settle(source: Source, wait: Callable[[float], bool]) -> None:
    """Let a source that has a method `settle` wait for rows that are there and can't be read yet: see `Files`."""
    found = getattr(source, "settle", None)
    if found is not None:
        found(wait)


def close_source(source: Source | None) -> None:
    """Let a source that has a method `close` end what it keeps open in this process: its stream has ended.

    It may be used again afterwards. What it raises is logged: nothing may keep a job from ending.
    """
    end = getattr(source, "close", None)
    if end is not None:
        try:
            end()
        except Exception:
            _log.warning("%r can't be closed", source, exc_info=True)
