"""Calling a kernel: what it takes of the rows at hand, and the form in which it runs.

Machine code where there is some, or where it may be made and pays off; the same source as plain Python otherwise, and
where a number could leave 64 bits.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, is_string, single
from trimtab.engine.match.compile.registers import Fold
from trimtab.engine.match.ir.expression import Aggregate, Expr
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.kernels.bounds import Bounds, computes
from trimtab.engine.match.kernels.codegen import KernelPlan
from trimtab.engine.match.kernels.interface import (
    NODE_FIELDS,
    NOTHING,
    Column,
    Constants,
    Inputs,
    KeysBefore,
    Limits,
    Outputs,
    RowRanges,
    ThreadsAfter,
    ThreadsBefore,
    Time,
)
from trimtab.engine.match.kernels.plan import FIXED, Generated
from trimtab.engine.match.run.binding import numbers, ranks
from trimtab.engine.match.run.rowset import Rowset
from trimtab.engine.match.run.threads import Threads
from trimtab.engine.operator import Scalar
from trimtab.machine_code.policy import Missing, NotCompiledError, if_missing, when_missing


class Batch(NamedTuple):
    """What a query works on, whatever its kernel is."""

    rowset: Rowset
    rows: RowRanges
    keys: KeysBefore
    time: Time
    threads: Threads
    row_count: int  # how many rows are to be processed now


@dataclass(frozen=True)
class Caller:
    """Calls the kernels of one query."""

    query: MatchQuery
    scalar: Scalar | None
    thread_limit: int

    def call(self, plan: KernelPlan, batch: Batch, work: int) -> Outputs:
        """Run a kernel over a batch; `work` says how much the query has had to do so far, in plain rows."""
        generated = plan.generated
        columns, constants = self._bound(generated, batch.rowset)
        room = _matches_expected(generated, batch)
        room_ints, room_floats = room * len(generated.fields), room * len(generated.float_fields)
        inputs = Inputs(
            batch.rows, batch.keys, batch.time, _threads_before(batch.threads, generated), constants,
            Limits(self.thread_limit, *_scratch.room(room_ints, room_floats)), plan.tables, columns,
        )  # fmt: skip
        if generated.compiled:
            kernel, is_machine = kernels.load(generated.source, work)
            if is_machine and self._fits(generated, batch, columns):
                try:
                    with if_missing(Missing.COMPILE if when_missing() is Missing.COMPILE else Missing.REFUSE):
                        return kernel(inputs)
                except NotCompiledError:  # there is machine code, but not for these types
                    pass
            kernels.want(generated.source, inputs, work)
        # The scratch may be much larger than what is needed, and would be copied.
        lists = Limits(self.thread_limit, [0] * room_ints, [0.0] * room_floats)
        return kernels.interpret(generated.source)(inputs._replace(limits=lists))

    def _bound(self, generated: Generated, rowset: Rowset) -> tuple[tuple[Column, ...], Constants]:
        """The columns as the kernel reads them, and what its conditions refer to besides."""
        table, order = rowset.table, rowset.order
        if not generated.compiled:
            taken = (single(table.column(name)).take(pa.array(order)) for name in generated.columns)
            return tuple(Column(each.to_pylist(), ()) for each in taken), Constants((), generated.values, self.scalar)
        text = [c for c in generated.columns if is_string(table.schema.field(c).type)]
        ranked, constant_ranks = ranks({c: table.column(c) for c in text}, generated.strings)
        columns = []
        for name in generated.columns:
            bound = ranked[name] if name in ranked else numbers(table.column(name))
            nulls = np.zeros(len(order), np.bool_) if bound.nulls is None else bound.nulls[order]
            # The value at a null may be computed with before it is thrown away, and where there is no row the kernel
            # reads at -1 or OUTSIDE, which is -2: that has to be somewhere.
            values = bound.values[order] if len(order) != 1 else np.repeat(bound.values[order], 2)
            columns.append(Column(values, nulls))
        return tuple(columns), Constants(constant_ranks, NOTHING, 0)

    def _fits(self, generated: Generated, batch: Batch, columns: tuple[Column, ...]) -> bool:
        """Whether no number that the kernel computes can leave 64 bits."""
        if not self._computing:
            return True
        sums = [FIXED + j for j, r in enumerate(generated.layout.ints) if isinstance(r, Fold) and r.part == "sum"]
        carried = _magnitude(batch.threads.ints[:, sums])
        most_rows = int(np.max(np.subtract(batch.rows.ends, batch.rows.tails), initial=0))

        def column(name: str) -> int:
            return _magnitude(columns[generated.columns.index(name)].values) if name in generated.columns else 0

        return Bounds(column, most_rows, carried).fit(self._computing)

    @cached_property
    def _computing(self) -> tuple[Expr, ...]:
        """The conditions and aggregates in which numbers can grow."""
        exprs = [c for c in self.query.conditions if c is not None]
        exprs += [s for s in self.query.slots if isinstance(s, Aggregate)]
        return tuple(expr for expr in exprs if computes(expr))


def _matches_expected(generated: Generated, batch: Batch) -> int:
    """For how many matches there is to be room.

    Matches of an automaton can't overlap, so this is as many as there can be; other kernels find out how much room they
    need.
    """
    rows = batch.row_count
    expected = rows // max(1, generated.shortest) if generated.deterministic else rows // 8
    return expected + len(batch.threads.ints) + batch.rows.key_count + 1


def _threads_before(threads: Threads, generated: Generated) -> ThreadsBefore:
    objects = NOTHING if generated.compiled else threads.objects
    return ThreadsBefore(
        threads.offsets, threads.ints.ravel(), threads.floats.ravel(), objects,
        threads.node_offsets, threads.nodes.ravel(),
    )  # fmt: skip


def threads_after(after: ThreadsAfter, generated: Generated) -> Threads:
    """The threads that a kernel has left."""
    layout, count, nodes = generated.layout, after.saved_count, after.saved_node_count
    width, float_width = FIXED + len(layout.ints), len(layout.floats)
    return Threads(
        np.asarray(after.saved_offsets, np.int64),
        np.asarray(after.saved_ints[: count * width], np.int64).reshape(count, width),
        np.asarray(after.saved_floats[: count * float_width], np.float64).reshape(count, float_width),
        [] if generated.compiled else list(after.saved_objects[: count * len(layout.objects)]),
        np.asarray(after.saved_node_offsets, np.int64),
        np.asarray(after.saved_nodes[: nodes * NODE_FIELDS], np.int64).reshape(nodes, NODE_FIELDS),
    )


class _Scratch(threading.local):
    """Room for reported matches, kept from batch to batch: fresh memory costs a page fault for every 4 kB.

    Every batch turns its matches into columns before it ends, so the next one may write over them.
    """

    LARGEST = 1 << 25  # numbers kept; room for more is made and given back

    def __init__(self) -> None:
        self.ints = np.empty(0, np.int64)
        self.floats = np.empty(0, np.float64)

    def room(self, ints: int, floats: int) -> tuple[Int64Array, npt.NDArray[np.float64]]:
        """Arrays of at least these sizes, with anything in them."""
        found_i = self.ints if len(self.ints) >= ints else np.empty(ints, np.int64)
        found_f = self.floats if len(self.floats) >= floats else np.empty(floats, np.float64)
        if ints <= self.LARGEST and floats <= self.LARGEST:
            self.ints, self.floats = found_i, found_f
        return found_i, found_f


_scratch = _Scratch()


def _magnitude(values: npt.NDArray[Any]) -> int:
    """The largest of the numbers without their signs."""
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size and values.dtype.kind != "f" else 0
