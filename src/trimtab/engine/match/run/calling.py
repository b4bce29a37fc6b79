"""Calls a kernel: prepares its inputs, chooses the form in which it runs, and words its failures.

Machine code runs if there is some, or if it may be compiled here and there are enough rows; otherwise, and where a
number could need more than 64 bits, the same source runs as plain Python.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, is_string
from trimtab.engine.match.compile.registers import Fold
from trimtab.engine.match.ir.expression import Aggregate, Expr
from trimtab.engine.match.ir.query import MatchQuery, SkipTo
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.kernels import interface
from trimtab.engine.match.kernels.bounds import Bounds, computes
from trimtab.engine.match.kernels.interface import NOTHING, Column, Constants, Failure, Inputs, Limits, Outputs
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.run.binding import Bound, joined, magnitude, ranks
from trimtab.engine.match.run.rowset import Rowset
from trimtab.engine.match.run.threads import Batch
from trimtab.engine.operator import Scalar, is_internal
from trimtab.errors import MatchError, ThreadLimitError, TrimtabError
from trimtab.machine_code.missing import Missing, NotCompiledError, if_missing, when_missing


@dataclass(frozen=True)
class Caller:
    """Calls the kernels of one query."""

    query: MatchQuery
    scalar: Scalar | None
    thread_limit: int

    def call(self, generated: Generated, batch: Batch, work: int) -> Outputs:
        """Run a kernel over a batch; `work` is how much the query has processed so far, in plain rows."""
        columns, constants = self._bound(generated, batch.rowset)
        room = _matches_expected(generated, batch)
        room_ints, room_floats = room * len(generated.fields), room * len(generated.float_fields)
        inputs = Inputs(
            batch.rows, batch.keys, batch.time, batch.threads.before, constants,
            Limits(self.thread_limit, *_scratch.room(room_ints, room_floats)), generated.tables, columns,
            generated.literals,
        )  # fmt: skip
        if generated.compiled:
            machine = kernels.load(generated.source, work)
            if machine is not None and self._fits(generated, batch, columns):
                try:
                    with if_missing(Missing.COMPILE if when_missing() is Missing.COMPILE else Missing.REFUSE):
                        return machine(inputs)
                except NotCompiledError:  # there is machine code, but not for these types
                    pass
            kernels.want(generated.source, inputs, work)
        # The scratch may be much larger than what is needed, and would be copied.
        lists = Limits(self.thread_limit, [0] * room_ints, [0.0] * room_floats)
        return kernels.interpret(generated.source)(inputs._replace(limits=lists))

    def _bound(self, generated: Generated, rowset: Rowset) -> tuple[tuple[Column, ...], Constants]:
        """The columns as the kernel reads them, and what its conditions use besides."""
        order, everywhere = rowset.order, np.arange(len(rowset.order))
        if not generated.compiled:
            taken = (rowset.column(name, everywhere) for name in generated.columns)
            return tuple(Column(each.to_pylist(), ()) for each in taken), Constants((), generated.values, self.scalar)
        text = [c for c in generated.columns if is_string(rowset.schema.field(c).type)]
        parts = [(part, table) for part, table in (("old", rowset.old), ("new", rowset.new)) if table is not None]
        words = {(part, c): rowset.memo.once(_encoded, [table.column(c)]) for c in text for part, table in parts}
        ranked, constant_ranks = ranks(words, generated.strings)
        columns = []
        for name in generated.columns:
            if name in text:
                whole = joined([ranked[part, name] for part, _ in parts])
                bound = Bound(whole.values[order], None if whole.nulls is None else whole.nulls[order])
            else:
                bound = rowset.numbers(name)
            nulls = np.zeros(len(order), np.bool_) if bound.nulls is None else bound.nulls
            # Kernels compute with the value at a null before they discard it. Where there is no row they read at -1
            # or OUTSIDE, which is -2, so there have to be two values.
            columns.append(Column(bound.values if len(order) != 1 else np.repeat(bound.values, 2), nulls))
        return tuple(columns), Constants(constant_ranks, NOTHING, 0)

    def _fits(self, generated: Generated, batch: Batch, columns: tuple[Column, ...]) -> bool:
        """Whether all numbers that the kernel computes fit 64 bits."""
        if not self._computing:
            return True
        layout = generated.layout
        sums = [layout.at[each] for each in layout.ints if isinstance(each, Fold) and each.part == "sum"]
        carried = magnitude(batch.threads.ints[:, sums])
        most_rows = int(np.max(np.subtract(batch.rows.ends, batch.rows.tails), initial=0))

        def column(name: str) -> int:
            return magnitude(columns[generated.columns.index(name)].values) if name in generated.columns else 0

        return Bounds(column, most_rows, carried).fit(self._computing)

    def error(self, failure: Failure, keys: pa.Table) -> TrimtabError:
        """The error that users get when a kernel fails; `keys` are the partition columns of each key."""
        found = keys.slice(failure.error_key, 1).to_pylist()[0].items()
        name = ", ".join(f"{k}={v!r}" for k, v in found if not is_internal(k)) or "(all rows)"
        skip = self.query.skip
        target = f"{skip.side.value} {skip.name}" if isinstance(skip, SkipTo) else ""
        if failure.error == interface.ERROR_SKIP_FIRST:
            return MatchError(
                "match.skip-first-row",
                f"AFTER MATCH SKIP TO {target} goes back to the first row of the match, for key {name}",
                "the same match would be found for ever: skip to a later variable, or PAST LAST ROW",
            )
        if failure.error == interface.ERROR_SKIP_MISSING:
            return MatchError(
                "match.skip-missing",
                f"AFTER MATCH SKIP TO {target}: the match has no row of that variable, for key {name}",
                "skip to a variable that every match has, or PAST LAST ROW",
            )
        return ThreadLimitError(name, self.thread_limit, failure.error_count)

    @cached_property
    def _computing(self) -> tuple[Expr, ...]:
        """The conditions and aggregates in which numbers can grow."""
        aggregates = (slot for slot in self.query.slots if isinstance(slot, Aggregate))
        return tuple(expr for expr in (*self.query.conditions, *aggregates) if expr is not None and computes(expr))


def _encoded(array: pa.Array) -> pa.DictionaryArray:
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _matches_expected(generated: Generated, batch: Batch) -> int:
    """The number of matches to allocate room for.

    Matches of an automaton can't overlap, so this is the most that there can be; other kernels allocate more if needed.
    """
    rows = batch.row_count
    expected = rows // max(1, generated.shortest) if generated.deterministic else rows // 8
    return expected + len(batch.threads.ints) + batch.rows.key_count + 1


class _Scratch(threading.local):
    """Room for reported matches, kept from batch to batch: fresh memory costs a page fault for every 4 kB.

    Every batch turns its matches into columns before it ends, so the next one may overwrite them.
    """

    LARGEST = 1 << 25  # arrays of more numbers are not kept

    def __init__(self) -> None:
        self.ints = np.empty(0, np.int64)
        self.floats = np.empty(0, np.float64)

    def room(self, ints: int, floats: int) -> tuple[Int64Array, npt.NDArray[np.float64]]:
        """Arrays of at least these sizes, not initialised."""
        own_ints = self.ints if len(self.ints) >= ints else np.empty(ints, np.int64)
        own_floats = self.floats if len(self.floats) >= floats else np.empty(floats, np.float64)
        if ints <= self.LARGEST and floats <= self.LARGEST:
            self.ints, self.floats = own_ints, own_floats
        return own_ints, own_floats


_scratch = _Scratch()
