"""Live threads between two batches: from the tables of a state to arrays, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.match.ir.state_schema import (
    NODE_COLUMNS,
    NODES,
    ROWS,
    THREADS,
    object_field,
    thread_float,
    thread_int,
    thread_object,
)
from trimtab.engine.match.kernels.plan import FIXED, Generated
from trimtab.engine.match.run.rowset import Rowset
from trimtab.engine.operator import State
from trimtab.keyed_state import KEY


@dataclass(frozen=True)
class Threads:
    """Live threads as arrays, keys in order; path nodes beside them."""

    offsets: Int64Array
    ints: Int64Array
    floats: Any
    objects: list[object]
    node_offsets: Int64Array
    nodes: Int64Array  # row, position, parent; parents, and nodes of threads, count from the key's first node

    @classmethod
    def load(cls, state: State, generated: Generated, rowset: Rowset, count: int) -> Threads:
        """The threads of a state, their rows numbered as they stand now."""
        layout = generated.layout
        width, fwidth = FIXED + len(layout.ints), len(layout.floats)
        table = state.get(THREADS)
        if table is None or not table.num_rows:
            zero = np.zeros(count + 1, np.int64)
            return cls(
                zero, np.zeros((0, width), np.int64), np.zeros((0, fwidth)), [], zero, np.zeros((0, 3), np.int64)
            )
        # Row numbers of a state count from the key's first row there.
        place = rowset.place_of_kept
        row_base = _offsets(state[ROWS].column(KEY).to_numpy(), count)
        offsets = _offsets(table.column(KEY).to_numpy(), count)
        base = np.repeat(row_base[:-1], np.diff(offsets))
        ints = np.stack([table.column(thread_int(j)).to_numpy() for j in range(width)], axis=1)
        for column in generated.row_fields:
            rows = ints[:, column]
            known = rows >= 0
            ints[known, column] = place[(rows + base)[known]]
        floats = (
            np.stack([table.column(thread_float(j)).to_numpy() for j in range(fwidth)], axis=1)
            if fwidth
            else np.zeros((len(ints), 0))
        )
        objects: list[object] = []
        if layout.objects:
            columns = [
                [tuple(tuple(row.values()) for row in value) for value in table.column(thread_object(j)).to_pylist()]
                for j in range(len(layout.objects))
            ]
            objects = [value for row in zip(*columns, strict=True) for value in row]
        nodes = np.zeros((0, 3), np.int64)
        node_offsets = np.zeros(count + 1, np.int64)
        if NODES in state:
            stored = state[NODES]
            nodes = np.stack([stored.column(c).to_numpy() for c in NODE_COLUMNS], axis=1)
            node_offsets = _offsets(stored.column(KEY).to_numpy(), count)
            nodes[:, 0] = place[nodes[:, 0] + np.repeat(row_base[:-1], np.diff(node_offsets))]
        return cls(offsets, ints, floats, objects, node_offsets, nodes)

    def tables(
        self, ints: Int64Array, nodes: Int64Array, renumber: Int64Array, thread_key: Int64Array,
        generated: Generated,
    ) -> dict[str, pa.Table]:  # fmt: skip
        """The threads as tables of the state."""
        layout = generated.layout
        threads: dict[str, pa.Array] = {KEY: pa.array(renumber[thread_key], pa.int64())}
        for j in range(ints.shape[1]):
            threads[thread_int(j)] = pa.array(ints[:, j])
        for j in range(self.floats.shape[1]):
            threads[thread_float(j)] = pa.array(self.floats[:, j])
        for j, register in enumerate(layout.objects):
            args = getattr(register, "args", ())
            fields = pa.struct([pa.field(object_field(n), a.type) for n, a in enumerate(args)])
            values = self.objects[j :: len(layout.objects)]
            rows = [[{object_field(n): v for n, v in enumerate(row)} for row in value] for value in values]  # type: ignore[attr-defined]
            threads[thread_object(j)] = pa.array(rows, pa.list_(fields))
        tables = {THREADS: pa.table(threads)}
        if generated.paths:
            counts = np.diff(self.node_offsets)
            node_key = np.repeat(np.arange(len(counts)), counts)
            columns = {name: pa.array(nodes[:, j]) for j, name in enumerate(NODE_COLUMNS)}
            tables[NODES] = pa.table({KEY: pa.array(renumber[node_key], pa.int64())} | columns)
        return tables


def _offsets(keys: Int64Array, count: int) -> Int64Array:
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets
