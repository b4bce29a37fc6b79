"""Made-up rows at a steady rate, for demonstrations and tests.

Every row is a pure function of the seed, its partition and its position: any range can be read anywhere, any number of
times. No random generator has a state here: numbers come from a hash of a counter (splitmix64).
"""

from __future__ import annotations

import copy
import datetime
import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.errors import JobError
from trimtab.sources.source import Partition, Range, Rows
from trimtab.state.files import Folder

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us", "UTC"), "x": pa.float64(), "n": pa.int64()})
UNPACED_PER_S = 1000.0
"""How many rows a second of event time has if all rows are there at once."""
KEYS_AT_MOST = 10_000_000  # skewed keys are looked up in a table with an entry for each
BEGAN = "began.json"

# Of splitmix64: Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators".
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1
_KEY, _VALUE = 1, 2  # the columns that are drawn: each has a sequence of its own

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


class Rate:
    """Rows that appear at a steady rate, or all at once.

    k    int64: the key, from 0 to `keys` - 1
    ts   timestamp in UTC: `start`, and later with each position
    x    double, evenly distributed in [0, 1)
    n    int64: the position in the partition

    Args:
        rows_per_s: How many rows appear each second, over all partitions. None: all are there at once, 1000 to each
            second of event time; then `rows` is needed.
        partitions: How many partitions there are; their names are "0", "1" and so on.
        keys: How many keys there are.
        skew: How unequal they are: key k has a weight of 1 / (k + 1) ** skew (Zipf's law). 0: all have the same.
        seed: Other seeds give other keys and values.
        start: The event time of the first row of each partition; without a zone it is in UTC.
        rows: How many rows there are in all; None: it never ends.
        clock: The seconds since 1970.

    >>> source = Rate(None, rows=4, keys=10)
    >>> source.latest()
    {'0': 4}
    >>> source.read(Range("0", 2, 4)).table.column("n").to_pylist()
    [2, 3]

    Raises JobError `job.source` for values that make no sense.
    """

    rows_each = 1.0  # it remembers when it began, and positions are rows all the same
    is_near = True

    def __init__(
        self,
        rows_per_s: float | None,
        *,
        partitions: int = 1,
        keys: int = 1000,
        skew: float = 0.0,
        seed: int = 0,
        start: datetime.datetime = START,
        rows: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if rows_per_s is None and rows is None:
            raise JobError("job.source", "a rate of None has all rows at once", "say how many there are: rows=1000")
        if rows_per_s is not None and not 0 < rows_per_s < float("inf"):
            raise JobError("job.source", f"{rows_per_s} rows a second are no rate", "give a number above 0, or None")
        if not (
            partitions > 0 and 0 < keys <= KEYS_AT_MOST and 0 <= skew < float("inf") and (rows is None or rows >= 0)
        ):
            message = f"{partitions=}, {keys=}, {skew=}, {rows=} don't go together"
            hint = f"partitions and keys are 1 or more (keys at most {KEYS_AT_MOST:,}), skew and rows 0 or more"
            raise JobError("job.source", message, hint)
        self._rows_per_s, self._partitions, self._rows = rows_per_s, partitions, rows
        self._keys, self._skew, self._seed = keys, float(skew), seed
        moment = start if start.tzinfo is not None else start.replace(tzinfo=datetime.UTC)
        self._start_us = (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(
            microseconds=1
        )
        self._clock = clock
        self._began_s = self._newest_s = clock()

    def __repr__(self) -> str:
        """How it was made."""
        return f"Rate({self._rows_per_s}, partitions={self._partitions}, rows={self._rows}, seed={self._seed})"

    @property
    def schema(self) -> pa.Schema:
        """The columns k, ts, x and n."""
        return SCHEMA

    def opened(self, folder: Folder) -> Rate:
        """The same, with the time when the first row appeared kept in a folder: a restarted job goes on from there."""
        folder.make()
        if not folder.exists(BEGAN):
            folder.write(BEGAN, json.dumps({"began_s": self._began_s}).encode())
        bound = copy.copy(self)
        bound._began_s = float(json.loads(folder.read(BEGAN))["began_s"])
        return bound

    def partitions(self) -> Mapping[str, Partition]:
        """All partitions; each begins at 0."""
        return {str(number): Partition(0, 0) for number in range(self._partitions)}

    def latest(self) -> Mapping[str, int]:
        """What has appeared by now."""
        return {str(number): self._end(number) for number in range(self._partitions)}

    def real_ends(self) -> Mapping[str, int]:
        """All rows that ever appear: a clock that was set back while the job was down takes none away."""
        return {str(number): self._bound(number) for number in range(self._partitions)}

    def read(self, part: Range) -> Rows:
        """The rows of a range."""
        positions = np.arange(part.start, part.end, dtype=np.int64)
        # Whole microseconds before the sum: as floats, times since 1970 would lose some of them.
        after_us = np.floor(positions * (1e6 / (self._per_partition_s or UNPACED_PER_S))).astype(np.int64)
        key = _drawn(self._seed, int(part.partition), _KEY, positions)
        columns = {
            "k": _keys_of(key, self._keys, self._skew),
            "ts": pa.array(self._start_us + after_us, SCHEMA.field("ts").type),
            "x": _drawn(self._seed, int(part.partition), _VALUE, positions),
            "n": positions,
        }
        appended = None if self._rows_per_s is None else pa.array(int(self._began_s * 1e6) + after_us)
        return Rows(pa.table(columns, schema=SCHEMA), appended, positions=pa.array(positions))

    @property
    def _per_partition_s(self) -> float | None:
        return None if self._rows_per_s is None else self._rows_per_s / self._partitions

    def _end(self, number: int) -> int:
        bound = self._bound(number)
        if self._per_partition_s is None:
            return bound
        self._newest_s = max(self._newest_s, self._clock())  # a clock that is set back takes no rows away
        appeared = max(0, int((self._newest_s - self._began_s) * self._per_partition_s))
        return min(bound, appeared)

    def _bound(self, number: int) -> int:
        """How many rows a partition has in the end."""
        if self._rows is None:
            return sys.maxsize
        return self._rows // self._partitions + (number < self._rows % self._partitions)


def _drawn(seed: int, partition: int, column: int, positions: Int64Array) -> Float64Array:
    """A number in [0, 1) for each position."""
    base = 0
    for part in (seed, partition, column):
        base = _mixed((base ^ (part & _MASK)) + _GOLDEN & _MASK)
    bits = positions.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(base)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_FIRST)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_SECOND)
    bits ^= bits >> np.uint64(31)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(bits: int) -> int:
    bits = (bits ^ (bits >> 30)) * _FIRST & _MASK
    bits = (bits ^ (bits >> 27)) * _SECOND & _MASK
    return bits ^ (bits >> 31)


def _keys_of(drawn: Float64Array, keys: int, skew: float) -> Int64Array:
    if skew == 0:
        return np.floor(drawn * keys).astype(np.int64)
    # The last bound is left out: what is above all others belongs to the last key, however sums were rounded.
    return np.searchsorted(_bounds(keys, skew)[:-1], drawn, side="right").astype(np.int64)


@lru_cache(maxsize=8)
def _bounds(keys: int, skew: float) -> Float64Array:
    """Where each key's share of [0, 1) ends."""
    sums: Float64Array = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -skew)
    sums /= sums[-1]
    return sums
