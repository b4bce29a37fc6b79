"""Tier 1 and the splitter of a bottle: from rows of the stream to rows at their engines, in one process.

DuckDB computes the columns, and keys are hashed by a hash of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from trimtab.deciding.placement import SHARES, Placement
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.rowwise.local import IntakeStep
from trimtab.worker.intake import ORIGINAL, ROUTE, SLOT, Computed, Intake

Int64Array = npt.NDArray[np.int64]
SLOT_BITS = GROUP_SHIFT
MOST_CACHED = 500
_COMPUTED: dict[tuple[int, tuple[Computed, ...]], tuple[pa.Table, list[pa.ChunkedArray]]] = {}
"""Computed columns of batches: laws run several jobs over the same ones, and DuckDB takes milliseconds each time."""


@dataclass(frozen=True, slots=True, eq=False)
class RowsToEngines:
    """Computes the columns that a stream's queries need, and the engine of each row.

    `slot_bits`: how many bits of a key's hash its slot keeps. With few, keys share slots, which is rare on Spark.
    """

    layout: Intake
    schema: pa.Schema
    key_groups: int
    slot_bits: int
    keep_original: bool

    def arriving(self, rows: pa.Table, first_number: int) -> pa.Table:
        """The rows as the engines get them; `first_number` is the first row's number in the stream."""
        columns = {each.name: column for each, column in zip(self.layout.columns, self._computed(rows), strict=True)}
        numbers = np.arange(rows.num_rows, dtype=np.int64) + first_number
        for reading in self.layout.readings:
            columns[reading.arrival] = pa.array(numbers)
            if reading.failed is not None:
                columns[reading.failed] = pa.array(np.zeros(rows.num_rows, np.bool_))
        if self.keep_original:
            columns[ORIGINAL] = pa.chunked_array(rows.to_struct_array().chunks, pa.struct(list(self.schema)))
        table = pa.table(columns)
        copies = []
        for number, route in enumerate(self.layout.routes):
            slots = pa.array(self._slots([table.column(key) for key in route.keys], rows.num_rows))
            copy = table.append_column(SLOT, slots)
            if len(self.layout.routes) > 1:
                copy = copy.append_column(ROUTE, pa.array(np.full(rows.num_rows, number, np.int32)))
            copies.append(copy)
        whole = pa.concat_tables(copies)
        return whole.filter(self._wanted(whole)) if self.layout.is_filtered else whole

    def engines(self, arriving: pa.Table, placement: Placement) -> npt.NDArray[np.int32]:
        """The splitter: the engine of each row, by its key group, or by its share where its key is spread."""
        slots = arriving.column(SLOT).to_numpy()
        engines: npt.NDArray[np.int32] = placement.array()[slots >> GROUP_SHIFT]
        split = [reading.route for reading in self.layout.split_readings]
        if split and placement.spread:
            own = np.isin(arriving.column(ROUTE).to_numpy(), split) if len(self.layout.routes) > 1 else True
            shares = arriving.column(self.layout.split_readings[0].arrival).to_numpy() % SHARES
            for each in placement.spread:
                engines = np.where(own & (slots == each.slot), np.array(each.engines, np.int32)[shares], engines)
        return engines

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

    def _wanted(self, rows: pa.Table) -> pa.Array:
        """Which rows some query reads: the others are left out, as on Spark."""
        wanted = np.zeros(rows.num_rows, np.bool_)
        for reading in self.layout.readings:
            wanted |= np.asarray(rows.column(reading.wanted).combine_chunks().fill_null(False))
        return pa.array(wanted)


def _hash(key: tuple[object, ...]) -> int:
    """Equal keys give equal hashes: there is one zero and one NaN."""
    plain = [value + 0.0 if isinstance(value, float) else value for value in key]
    return xxhash.xxh64_intdigest(repr(plain).encode())
