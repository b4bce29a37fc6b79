"""Reads row values at positions of the kernel's order, a column at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import Int64Array, repeat_constant, single, take
from trimtab.engine.match.ir.expression import Const, RowValue, Source


@dataclass(frozen=True)
class RowReader:
    """The rows at hand: a table, and the number of its row at each position of the kernel's order."""

    table: pa.Table
    order: Int64Array

    def rows(self, positions: Int64Array) -> Int64Array:
        """Positions as rows of the table; negative stays negative."""
        if len(positions) and positions.min() >= 0:
            return self.order[positions]
        if not len(self.order):
            return np.full(len(positions), -1)
        return np.where(positions < 0, -1, self.order[np.clip(positions, 0, None)])

    def column(self, name: str, positions: Int64Array) -> pa.Array:
        """A column's values at some positions, null at negative ones."""
        return take(self.table.column(name), self.rows(positions))

    def values(self, value: RowValue, positions: Int64Array, labels: Int64Array | None) -> pa.Array:
        """A row value at some positions, whose rows have these labels (-1: outside the match)."""
        if len(value.sources) == 1:
            found = self._source(value.sources[0], positions, value.type)
        else:
            assert labels is not None
            choices = [self._source(s, positions, value.type) for s in value.sources]
            index = np.where(labels < 0, len(choices) - 1, labels)
            flat = index * len(positions) + np.arange(len(positions))
            found = pa.concat_arrays(choices).take(pa.array(flat))
        missing = positions < 0
        if not missing.any():
            return found
        default = repeat_constant(value.default.value, value.type, len(positions))
        return single(pc.if_else(pa.array(missing), default, found))

    def _source(self, source: Source, positions: Int64Array, type_: pa.DataType) -> pa.Array:
        if isinstance(source, Const):
            return repeat_constant(source.value, type_, len(positions))
        found = self.column(source, positions)
        return found if found.type == type_ else found.cast(type_, safe=False)
