"""Tier 1 of a bottle: from rows of the stream to rows for the splitter, in one process.

DuckDB computes the columns, and keys are hashed by a hash of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from tests.support.plain_splitter import slot_of
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.rowwise.local import IntakeStep
from trimtab.worker.intake import ORIGINAL, PARTITION, Computed, Intake

Int64Array = npt.NDArray[np.int64]
SLOT_BITS = GROUP_SHIFT
MOST_CACHED = 500
_COMPUTED: dict[tuple[int, tuple[Computed, ...]], tuple[pa.Table, list[pa.ChunkedArray]]] = {}
"""Computed columns of batches: laws run several jobs over the same ones, and DuckDB takes milliseconds each time."""

_SENT: dict[tuple[int, int], tuple[object, pa.Table, Int64Array, pa.Table]] = {}
"""What tier 1 made of batches, likewise."""


@dataclass(frozen=True, slots=True, eq=False)
class TierOneInBottle:
    """Computes the columns that a stream's queries need, and the slot of each row.

    `slot_bits`: how many bits of a key's hash its slot keeps. With few, keys share slots, which is rare on Spark.
    """

    layout: Intake
    schema: pa.Schema
    key_groups: int
    slot_bits: int
    keep_original: bool

    def sent(self, rows: pa.Table, numbers: Int64Array) -> pa.Table:
        """The rows as tier 1 makes them; `numbers` break ties."""
        key = (id(self), id(rows))
        if key not in _SENT:
            if len(_SENT) >= MOST_CACHED:
                _SENT.clear()
            _SENT[key] = (self, rows, numbers, self._sent(rows, numbers))  # all of them, so that their ids stay
        _, _, known, table = _SENT[key]
        return table if known is numbers else self._sent(rows, numbers)

    def _sent(self, rows: pa.Table, numbers: Int64Array) -> pa.Table:
        columns = {each.name: column for each, column in zip(self.layout.columns, self._computed(rows), strict=True)}
        for reading in self.layout.readings:
            columns[reading.arrival] = pa.array(numbers)
            if reading.failed is not None:
                columns[reading.failed] = pa.array(np.zeros(rows.num_rows, np.bool_))
        if self.keep_original:
            columns[ORIGINAL] = pa.chunked_array(rows.to_struct_array().chunks, pa.struct(list(self.schema)))
        if self.layout.partition is not None:
            columns[PARTITION] = rows.column(self.layout.partition).cast(pa.string())
        for number, route in enumerate(self.layout.routes):
            columns[slot_of(number)] = pa.array(self._slots([columns[key] for key in route.keys], rows.num_rows))
        return pa.table(columns)

    def slots_of(self, query: str, rows: pa.Table) -> Int64Array:
        """The slots of rows, by the keys of a query."""
        [route] = [self.layout.routes[each.route] for each in self.layout.readings if each.query == query]
        columns = {each.name: column for each, column in zip(self.layout.columns, self._computed(rows), strict=True)}
        return self._slots([columns[key] for key in route.keys], rows.num_rows)

    def _computed(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """The columns of tier 1, all of them at once."""
        wanted = self.layout.columns
        key = (id(rows), wanted)
        if key not in _COMPUTED:
            if len(_COMPUTED) >= MOST_CACHED:
                _COMPUTED.clear()
            kinds = tuple(pa.null() if each.type is None else each.type for each in wanted)  # bare columns have none
            found = IntakeStep(tuple((each.name, each.text) for each in wanted), types=kinds).run(rows)
            _COMPUTED[key] = (rows, [found.column(each.name) for each in wanted])  # the rows, so that their id stays
        return _COMPUTED[key][1]

    def _slots(self, keys: Sequence[pa.ChunkedArray], rows: int) -> Int64Array:
        values = zip(*(column.to_pylist() for column in keys), strict=True) if keys else [()] * rows
        hashes = np.array([_hash(key) for key in values], np.uint64)
        groups = (hashes % np.uint64(self.key_groups)).astype(np.int64)
        return groups << GROUP_SHIFT | (hashes >> np.uint64(16)).astype(np.int64) & ((1 << self.slot_bits) - 1)


def _hash(key: tuple[object, ...]) -> int:
    """Equal keys give equal hashes: there is one zero and one NaN."""
    plain = [value + 0.0 if isinstance(value, float) else value for value in key]
    return xxhash.xxh64_intdigest(repr(plain).encode())
