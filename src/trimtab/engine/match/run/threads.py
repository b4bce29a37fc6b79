"""Live threads as arrays: loaded from the tables of a state, taken from a kernel, saved as tables again.

With the rows and keys of a batch they are what a kernel works on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.match.compile.registers import NODE
from trimtab.engine.match.ir.state_schema import FLOATS, INTS, NODE_COLUMNS, NODES, OBJECTS, ROWS, THREADS
from trimtab.engine.match.kernels.interface import NOTHING, KeysBefore, RowRanges, ThreadsAfter, ThreadsBefore, Time
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.run.rowset import Rowset, sums_before
from trimtab.engine.operator import State
from trimtab.keyed_state import KEY

NO_NODE = -1


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
        """The threads of a state of `count` keys, with row numbers of the rowset."""
        layout = generated.layout
        width, float_width = layout.int_width, len(layout.floats)
        table, nodes = state.get(THREADS), np.zeros((0, len(NODE_COLUMNS)), np.int64)
        node_offsets = np.zeros(count + 1, np.int64)
        if table is None or not table.num_rows:
            ints, floats = np.zeros((0, width), np.int64), np.zeros((0, float_width))
            return cls(np.zeros(count + 1, np.int64), ints, floats, [], node_offsets, nodes)
        # Row numbers of a state count from the key's first row there.
        place = rowset.place_of_kept
        row_base = _key_offsets(state[ROWS].column(KEY).to_numpy(), len(rowset.old_keys))
        old = table.column(KEY).to_numpy()
        base = row_base[old]
        ints = np.full((table.num_rows, width), NO_NODE)
        for j in range(width):
            if j != NODE or f"{INTS}{j}" in table.column_names:
                ints[:, j] = table.column(f"{INTS}{j}").to_numpy()
        for column in generated.row_fields:
            rows = ints[:, column]
            known = rows >= 0
            ints[known, column] = place[(rows + base)[known]]
        floats = np.zeros((len(ints), float_width))
        for j in range(float_width):
            floats[:, j] = table.column(f"{FLOATS}{j}").to_numpy()
        columns = [
            [tuple(tuple(row.values()) for row in value) for value in table.column(f"{OBJECTS}{j}").to_pylist()]
            for j in range(len(layout.objects))
        ]
        objects: list[object] = [value for row in zip(*columns, strict=True) for value in row]
        if NODES in state:
            nodes = np.stack([state[NODES].column(c).to_numpy() for c in NODE_COLUMNS], axis=1)
            of_nodes = state[NODES].column(KEY).to_numpy()
            nodes[:, 0] = place[nodes[:, 0] + row_base[of_nodes]]
            keys = rowset.old_keys[of_nodes]
            order = _order_by_key(keys)
            node_offsets, nodes = _key_offsets(keys, count), nodes if order is None else nodes[order]
        keys = rowset.old_keys[old]
        order = _order_by_key(keys)
        if order is not None:
            ints, floats = ints[order], floats[order]
            width = len(layout.objects)
            objects = [objects[at * width + j] for at in order.tolist() for j in range(width)]
        return cls(_key_offsets(keys, count), ints, floats, objects, node_offsets, nodes)

    @classmethod
    def left(cls, after: ThreadsAfter, generated: Generated) -> Threads:
        """The threads that a kernel has left."""
        layout, count, nodes = generated.layout, after.saved_count, after.saved_node_count
        width, float_width = layout.int_width, len(layout.floats)
        return cls(
            np.asarray(after.saved_offsets, np.int64),
            np.asarray(after.saved_ints[: count * width], np.int64).reshape(count, width),
            np.asarray(after.saved_floats[: count * float_width], np.float64).reshape(count, float_width),
            [] if generated.compiled else list(after.saved_objects[: count * len(layout.objects)]),
            np.asarray(after.saved_node_offsets, np.int64),
            np.asarray(after.saved_nodes[: nodes * len(NODE_COLUMNS)], np.int64).reshape(nodes, len(NODE_COLUMNS)),
        )

    @property
    def before(self) -> ThreadsBefore:
        """The threads as a kernel takes them."""
        objects = self.objects or NOTHING
        return ThreadsBefore(
            self.offsets, self.ints.ravel(), self.floats.ravel(), objects, self.node_offsets, self.nodes.ravel()
        )

    @property
    def keys(self) -> Int64Array:
        """The key of each thread."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def tables(self, renumber: Int64Array, generated: Generated) -> dict[str, pa.Table]:
        """The threads as tables of the state; `renumber` gives the number of each key there."""
        layout = generated.layout
        threads: dict[str, pa.Array] = {KEY: pa.array(renumber[self.keys], pa.int64())}
        for j in range(self.ints.shape[1]):
            if j == NODE and not generated.paths:
                continue
            threads[f"{INTS}{j}"] = pa.array(self.ints[:, j])
        for j in range(self.floats.shape[1]):
            threads[f"{FLOATS}{j}"] = pa.array(self.floats[:, j])
        for j, register in enumerate(layout.objects):
            args = getattr(register, "args", ())
            fields = pa.struct([pa.field(f"a{n}", a.type) for n, a in enumerate(args)])
            values = self.objects[j :: len(layout.objects)]
            rows = [[{f"a{n}": v for n, v in enumerate(row)} for row in value] for value in values]  # type: ignore[attr-defined]
            threads[f"{OBJECTS}{j}"] = pa.array(rows, pa.list_(fields))
        tables = {THREADS: pa.table(threads)}
        if generated.paths:
            counts = np.diff(self.node_offsets)
            node_key = np.repeat(np.arange(len(counts)), counts)
            columns = {name: pa.array(self.nodes[:, j]) for j, name in enumerate(NODE_COLUMNS)}
            tables[NODES] = pa.table({KEY: pa.array(renumber[node_key], pa.int64())} | columns)
        return tables


class Batch(NamedTuple):
    """The rows and state that a query works on, whatever its kernel is."""

    rowset: Rowset
    rows: RowRanges
    keys: KeysBefore
    time: Time
    threads: Threads
    row_count: int  # the number of rows to process now
    is_shared: bool = False  # whether other queries may work on the same rows


def _key_offsets(keys: Int64Array, count: int) -> Int64Array:
    """Where each key's lines of a table begin, and where the last key's end; `keys` has the key of each line."""
    return sums_before(np.bincount(keys, minlength=count))


def _order_by_key(keys: Int64Array) -> Int64Array | None:
    """The order that sorts lines by key; a key's stay as they are. None: they are sorted."""
    return None if (keys[1:] >= keys[:-1]).all() else np.argsort(keys, kind="stable")
