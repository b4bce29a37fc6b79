"""The rows that a query gives for the matches of a batch: a row for each match, or one for each of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array, single
from trimtab.engine.columns.times import times_us
from trimtab.engine.match.compile.program import Program
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.engine.match.kernels.interface import KIND_MATCH, Matches, RowRanges
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.run.paths import Paths, PathSlots, Points
from trimtab.engine.match.run.rowset import Rowset, spans
from trimtab.engine.match.run.slots import Records, slot_column
from trimtab.engine.operator import ARRIVAL, TIME_US, Scalar


@dataclass(frozen=True)
class Output:
    """Makes the output of one query."""

    query: MatchQuery
    program: Program
    scalar: Scalar | None

    def table(self, generated: Generated, matches: Matches, rowset: Rowset, rows: RowRanges) -> pa.Table:
        """The output rows for the matches that a kernel has reported."""
        records = Records.of(generated, matches)
        if not len(records.ints):  # as in most small batches
            return self._schema(rowset.schema).empty_table()
        # In the order in which matches end, over all keys; and copied: the next batch overwrites the scratch memory.
        records = records.reordered(rowset.by_time(records.last)) if len(rowset.lo) > 1 else records.copied()
        if generated.paths:
            return self._from_paths(matches, records, rowset, rows)
        names = [rowset.column(c, records.field("start")) for c in self.query.keep]
        slots = [slot_column(s, records, rowset) for s in self.query.slots]
        arrivals = rowset.column(ARRIVAL, records.last)
        return self._as_table([*names, *slots, arrivals, self._times(rowset, records)], rowset.schema)

    def _from_paths(self, matches: Matches, records: Records, rowset: Rowset, ranges: RowRanges) -> pa.Table:
        length = records.field("length")
        matched = records.field("kind") == KIND_MATCH
        # Paths were written in order of report; the records are in order of time.
        steps = spans(records.field("begin"), length)
        rows = np.asarray(matches.path_rows, np.int64)[steps]
        positions = np.asarray(matches.path_positions, np.int64)[steps]
        labels = self._position_labels[positions] if len(positions) else positions
        first_row, end_row = (np.asarray(each)[records.field("key")] for each in (ranges.tails, ranges.ends))
        begin = np.cumsum(length) - length
        paths = Paths(rows, labels, begin, length, records.field("number"), first_row, end_row)
        points, at = self._points(paths, records, matched, positions)
        slots_of = PathSlots(paths, rowset, self.scalar)
        arrays = [rowset.column(c, at) for c in self.query.keep]
        unmatched = ~matched[points.match]
        for slot in self.query.slots:
            column = slots_of.column(slot, points)
            if unmatched.any():
                # An unmatched row has no measures.
                column = column.take(pa.array(np.arange(len(column)), mask=unmatched))
            arrays.append(column)
        times = self._times(rowset, records).take(pa.array(points.match))
        return self._as_table([*arrays, rowset.column(ARRIVAL, at), times], rowset.schema)

    def _times(self, rowset: Rowset, records: Records) -> pa.Array:
        """The time of each match's last row."""
        if self.query.time_column is None:
            return pa.nulls(len(records.ints), pa.int64())
        times, nulls = times_us(rowset.column(self.query.time_column, records.last))
        return pa.array(times, pa.int64(), mask=nulls)

    def _points(
        self, paths: Paths, records: Records, matched: BoolArray, positions: Int64Array
    ) -> tuple[Points, Int64Array]:
        """The output rows: a point in a match, and the row of the input that is output there."""
        matches = np.arange(len(paths.length))
        if self.query.rows is Rows.ONE:
            return Points(matches, paths.length - 1), records.field("start")
        shown = ~self._position_excluded[positions] if len(positions) else np.zeros(0, np.bool_)
        owner = np.repeat(matches, paths.length)
        step = np.arange(len(owner)) - paths.begin[owner]
        alone = paths.length == 0
        if self.query.rows is Rows.ALL_OMIT_EMPTY:
            alone &= ~matched
        match = np.concatenate([owner[shown], matches[alone]])
        steps = np.concatenate([step[shown], np.full(int(alone.sum()), -1)])
        rows = np.concatenate([paths.rows[shown], records.field("start")[alone]])
        order = np.argsort(match, kind="stable")
        return Points(match[order], steps[order]), rows[order]

    @cached_property
    def _position_labels(self) -> Int64Array:
        return np.array([p.label for p in self.program.positions], np.int64)

    @cached_property
    def _position_excluded(self) -> BoolArray:
        return np.array([p.excluded for p in self.program.positions], np.bool_)

    def _as_table(self, arrays: list[pa.Array], rows: pa.Schema) -> pa.Table:
        schema = self._schema(rows)
        typed = (a if a.type == f.type else a.cast(f.type, safe=False) for a, f in zip(arrays, schema, strict=True))
        return pa.Table.from_arrays([single(a) for a in typed], schema=schema)

    def _schema(self, rows: pa.Schema) -> pa.Schema:
        fields = [rows.field(c).with_nullable(True) for c in self.query.keep]
        fields += [pa.field(f"slot{j}", s.type) for j, s in enumerate(self.query.slots)]
        return pa.schema([*fields, pa.field(ARRIVAL, pa.int64()), pa.field(TIME_US, pa.int64())])
