"""What engines need of a row besides its columns: its slots, by which state is stored, and the hashes that break ties.

They are hashes of columns that are sent anyway. So tasks that read columns don't send them, and the engine computes
them (`worker/left_out.py`): that takes a tenth of the time in which the same bytes go through Spark's shuffle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

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

    def arrivals(self, columns: Columns, count: int, names: Collection[str]) -> dict[str, pa.Array]:
        """The columns of these names, which break ties in time: each is a hash of some columns."""
        found = dict[str, pa.Array]()
        for reading in self.intake.readings:
            if reading.arrival in names and reading.arrival not in found:
                hashed = arrival_hash({self._spark_names[name]: columns[name] for name in reading.ties}, count)
                found[reading.arrival] = pa.array(hashed)
        return found

    def slots(self, route: Route, columns: Columns, count: int) -> Int64Array:
        """The slot of each row on a route: the key group in front, and as much of the key's hash as fits."""
        key = key_hash([columns[name] for name in self._keys(route)], count)
        rest = (key.view(np.uint64) >> np.uint64(64 - GROUP_SHIFT)).view(np.int64)
        slots: Int64Array = np.mod(key, self.key_groups) << GROUP_SHIFT | rest
        return slots

    def left_out(self, columns: Columns) -> frozenset[str]:
        """The hashes that needn't be sent: those of columns that are sent and not nested, as text is made of these."""
        plain = {name for name in self.names if name in columns and not pa.types.is_nested(columns[name].type)}
        found = {reading.arrival for reading in self.intake.readings if plain.issuperset(reading.ties)}
        is_of_plain = all(plain.issuperset(self._keys(route)) for route in self.intake.routes)
        return frozenset(found | {SLOT} if is_of_plain else found)

    def made(self, columns: Columns, count: int, names: Collection[str]) -> Columns:
        """Those of these names that are hashes."""
        found = self.arrivals(columns, count, names)
        if SLOT in names:
            found[SLOT] = pa.array(self._slots_on_routes(columns, count))
        return found

    def _slots_on_routes(self, columns: Columns, count: int) -> Int64Array:
        """The slot of each row on its own route."""
        routes = self.intake.routes
        if len(routes) == 1:
            return self.slots(routes[0], columns, count)
        slots, on_route = np.empty(count, np.int64), np.asarray(columns[ROUTE])
        for number, route in enumerate(routes):
            own = on_route == number
            mask = pa.array(own)
            keys = {name: columns[name].filter(mask) for name in self._keys(route)}
            slots[own] = self.slots(route, keys, int(own.sum()))
        return slots

    def _keys(self, route: Route) -> Sequence[str]:
        return route.keys if route.is_keyed else self.names

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
