"""What engines need of a row besides its columns: its slots, by which state is stored, and the hashes that break ties.

They are hashes of columns that are sent anyway. So tasks that read columns don't send them; the engine computes them
(`Hashes.hashed`): that takes a tenth of the time in which the same bytes go through Spark's shuffle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import single
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.worker.intake import ROUTE, SLOT, Intake, Route
from trimtab.worker.orders import Int64Array
from trimtab.worker.row_hash import arrival_hash, key_hash

Columns = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Hashes:
    """The hashes of the rows of one stream, whose columns of tier 1 are those of `intake`."""

    intake: Intake
    key_groups: int
    keep_original: bool

    def arrivals(self, columns: Columns, count: int) -> dict[str, pa.Array]:
        """The columns that break ties in time, by name: a hash of all columns that a query reads."""
        found = dict[str, pa.Array]()
        for reading in self.intake.readings:
            if reading.arrival not in found:
                read = sorted({name for _, name in reading.columns})
                hashed = arrival_hash({self._spark_names[name]: columns[name] for name in read}, count)
                found[reading.arrival] = pa.array(hashed)
        return found

    def slots(self, route: Route, columns: Columns, count: int) -> Int64Array:
        """The slot of each row on a route: the key group in front, and as much of the key's hash as fits."""
        key = key_hash([columns[name] for name in (route.keys if route.is_keyed else self.names)], count)
        rest = (key.view(np.uint64) >> np.uint64(64 - GROUP_SHIFT)).view(np.int64)
        slots: Int64Array = np.mod(key, self.key_groups) << GROUP_SHIFT | rest
        return slots

    def take_long(self, columns: Columns) -> bool:
        """Whether the hashes of these columns are sent, too: text is made of nested ones, value by value."""
        return any(pa.types.is_nested(columns[name].type) for name in self.names)

    def hashed(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows as they are sent, with all columns of `schema`."""
        if SLOT in rows.column_names:
            return rows
        columns, count, routes = (
            {n: single(rows.column(n)) for n in rows.column_names},
            rows.num_rows,
            self.intake.routes,
        )
        if len(routes) == 1:
            slots = self.slots(routes[0], columns, count)
        else:
            slots, on_route = np.empty(count, np.int64), np.asarray(columns[ROUTE])
            for number, route in enumerate(routes):
                own = on_route == number
                mask, names = pa.array(own), route.keys if route.is_keyed else self.names
                slots[own] = self.slots(route, {name: columns[name].filter(mask) for name in names}, int(own.sum()))
        columns |= self.arrivals(columns, count)
        columns[SLOT] = pa.array(slots)
        return pa.table([columns[name] for name in schema.names], names=schema.names)

    @cached_property
    def arrival_names(self) -> tuple[str, ...]:
        """The names of the columns that break ties."""
        return tuple(dict.fromkeys(reading.arrival for reading in self.intake.readings))

    @cached_property
    def names(self) -> list[str]:
        """The columns of the stream that are sent, in order."""
        intake = self.intake
        needed = {name for r in intake.readings for _, name in r.columns} | {intake.time}
        needed |= {r.wanted for r in intake.readings if r.wanted is not None and len(intake.readings) > 1}
        needed |= {name for route in intake.routes for name in route.keys}
        names = [c.name for c in intake.columns if c.name in needed]
        return names + [r.failed for r in intake.readings if r.failed is not None]

    @cached_property
    def _spark_names(self) -> Mapping[str, str]:
        """What Spark calls the columns when it hashes them: where it computes nothing, it doesn't rename them."""
        intake = self.intake
        is_renamed = intake.is_computed or intake.is_filtered or self.keep_original
        return {c.name: c.name if is_renamed else str(c.source) for c in intake.columns}
