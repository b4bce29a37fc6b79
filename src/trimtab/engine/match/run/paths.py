"""Slots from the rows of each match: for ALL ROWS PER MATCH, and for aggregates that need every value.

A *path* is a match's rows and labels in order; all paths are in flat arrays, one after another. A *point* is where a
slot is computed: a step of a path (the rows up to there are the match so far), or -1 for an empty match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, valid_mask
from trimtab.engine.match.aggregates import aggregate, prefixes
from trimtab.engine.match.ir.expression import HERE, Aggregate, Call, Const, Expr, MatchNumber, Opaque, RowValue, Side
from trimtab.engine.match.ir.query import Slot
from trimtab.engine.match.run.binding import magnitude, numbers
from trimtab.engine.match.run.rowset import Rowset, spans, sums_before
from trimtab.engine.match.run.scanning import running
from trimtab.engine.match.scalars import SCALARS
from trimtab.engine.operator import Scalar


@dataclass(frozen=True)
class Paths:
    """All matches of a batch. `begin[m]` and `length[m]` are the place of match m's steps in `rows` and `labels`."""

    rows: Int64Array
    labels: Int64Array
    begin: Int64Array
    length: Int64Array
    number: Int64Array
    first_row: Int64Array  # per match: the first of the partition's rows at hand
    end_row: Int64Array  # after the last of them


@dataclass(frozen=True)
class Points:
    """Where slots are computed: the match, and the step within it (-1: the match is empty)."""

    match: Int64Array
    step: Int64Array

    def at_end(self, paths: Paths) -> Points:
        """The same matches, each at its last step: what FINAL means."""
        return Points(self.match, paths.length[self.match] - 1)


class PathSlots:
    """Computes slots at points."""

    def __init__(self, paths: Paths, rowset: Rowset, scalar: Scalar | None) -> None:
        self.paths, self.rowset, self.scalar = paths, rowset, scalar
        self.of_step = np.repeat(np.arange(len(paths.length)), paths.length)

    def column(self, slot: Slot, points: Points) -> pa.Array:
        """One slot at every point."""
        match slot:
            case MatchNumber():
                return pa.array(self.paths.number[points.match], pa.int64())
            case RowValue(place):
                rows, labels = self._place(slot, points.at_end(self.paths) if place.final else points)
                return self.rowset.values(slot, rows, labels)
            case Aggregate():
                return self._aggregate(slot, points.at_end(self.paths) if slot.final else points)

    # Navigation --------------------------------------------------------------------------------

    def _chosen(self, labels: frozenset[int] | None) -> tuple[Int64Array, Int64Array]:
        """The steps mapped to some labels, and how many of them come before each step of the flat arrays."""
        if labels is None:
            chosen = np.ones(len(self.paths.rows), np.bool_)
        else:
            chosen = np.isin(self.paths.labels, np.fromiter(labels, np.int64, len(labels)))
        return np.flatnonzero(chosen), sums_before(chosen)

    def _place(self, value: RowValue, points: Points) -> tuple[Int64Array, Int64Array]:
        """The row at the value's place seen from each point, and its label (-1: none)."""
        paths, place = self.paths, value.place
        steps, before = self._chosen(place.labels)
        begin = paths.begin[points.match]
        now = begin + points.step  # the flat step of the point
        base = before[begin]
        count = before[now + 1] - base
        nth = base + (place.offset if place.side is Side.FIRST else count - 1 - place.offset)
        there = count > place.offset
        if not len(steps):
            missing = np.full(len(now), -1)
            return missing, missing
        step = steps[np.clip(nth, 0, len(steps) - 1)]
        row = paths.rows[step] + place.shift
        there &= (row >= paths.first_row[points.match]) & (row < paths.end_row[points.match])
        row = np.where(there, row, -1)
        # Rows of a match are adjacent, so a shifted row's step is found by counting. In a measure the whole match is
        # known, so a row ahead has its label too.
        neighbour = step + place.shift
        inside = there & (neighbour >= begin) & (neighbour < begin + paths.length[points.match])
        label = np.where(inside, paths.labels[np.clip(neighbour, 0, len(paths.labels) - 1)], -1)
        return row, label

    # Aggregates --------------------------------------------------------------------------------

    def _aggregate(self, slot: Aggregate, points: Points) -> pa.Array:
        paths = self.paths
        steps, before = self._chosen(slot.labels)
        begin = paths.begin[points.match]
        low = before[begin]
        high = before[begin + points.step + 1]
        if slot.function == "count" and not slot.args:
            return pa.array(high - low, pa.int64())
        args = [self._argument(arg, steps) for arg in slot.args]
        if slot.function == "count" and len(args) == 1:
            known = sums_before(valid_mask(args[0]))
            return pa.array(known[high] - known[low], pa.int64())
        if slot.function == "array_agg":
            return self._lists(args[0], low, high, slot.type)
        if slot.function in ("sum", "avg", "min", "max"):
            scanned = self._scan(slot, args[0], steps, low, high)
            if scanned is not None:
                return scanned
        rows = list(zip(*(a.to_pylist() for a in args), strict=True))
        so_far = prefixes(slot.function, rows, self.of_step[steps].tolist(), slot.type)
        nothing = aggregate(slot.function, (), slot.type)
        found = [so_far[b - 1] if b > a else nothing for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        return pa.array(found, slot.type)

    @staticmethod
    def _lists(values: pa.Array, low: Int64Array, high: Int64Array, type_: pa.DataType) -> pa.Array:
        """A list per point: the values from low to high."""
        lengths = high - low
        taken, offsets = values.take(pa.array(spans(low, lengths))), pa.array(sums_before(lengths), pa.int32())
        lists = pa.ListArray.from_arrays(offsets, taken, mask=pa.array(lengths == 0))
        return lists if lists.type == type_ else lists.cast(type_)

    def _scan(
        self, slot: Aggregate, values: pa.Array, steps: Int64Array, low: Int64Array, high: Int64Array
    ) -> pa.Array | None:
        """Running sums and extremes of plain numbers by one pass over all steps; None for other values and for NaN."""
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return None
        bound = numbers(values)
        known = np.ones(len(steps), np.bool_) if bound.nulls is None else ~bound.nulls
        if bound.values.dtype.kind == "f" and np.isnan(bound.values).any():
            return None
        counts = sums_before(known)
        count = counts[high] - counts[low]
        numeric = bound.values
        if numeric.dtype.kind != "f":
            numeric = numeric.astype(np.int64, copy=False)
            if slot.function in ("sum", "avg") and magnitude(numeric) * len(numeric) >= 2**63:
                numeric = numeric.astype(object)  # Python's integers don't overflow
        scanned = running(slot.function, numeric, known, self.of_step[steps])
        last = np.clip(high - 1, 0, None)
        found = scanned[last] if len(scanned) else np.zeros(len(high), numeric.dtype)
        none = count == 0
        if slot.function == "avg":
            with np.errstate(divide="ignore", invalid="ignore"):
                means = np.divide(found, count, where=~none, out=np.zeros(len(found)), casting="unsafe")
                return pa.array(means, pa.float64(), mask=none)
        return pa.array(found, slot.type if found.dtype == object else None, mask=none).cast(slot.type)

    def _argument(self, expr: Expr, steps: Int64Array) -> pa.Array:
        """An aggregate's argument at each of some steps."""
        match expr:
            case RowValue(place):
                assert place == HERE
                return self.rowset.values(expr, self.paths.rows[steps], self.paths.labels[steps])
            case MatchNumber():
                return pa.array(self.paths.number[self.of_step[steps]], pa.int64())
            case Const(value, type_):
                return pa.array([value] * len(steps), type_)
            case Call(function, args, type_):
                return self._computed(SCALARS[function], args, type_, steps)
            case Opaque(sql, args, type_):
                scalar = self.scalar
                assert scalar is not None
                return self._computed(lambda *values: scalar(sql, values), args, type_, steps)
            case Aggregate():
                raise AssertionError("an aggregate inside an aggregate")

    def _computed(
        self, function: Callable[..., object], args: tuple[Expr, ...], type_: pa.DataType, steps: Int64Array
    ) -> pa.Array:
        columns = [self._argument(arg, steps).to_pylist() for arg in args]
        rows = zip(*columns, strict=True) if columns else iter([()] * len(steps))
        values = [function(*row) for row in rows]
        if pa.types.is_decimal(type_):
            values = [None if v is None else Decimal(str(v)) for v in values]
        return pa.array(values, type_)
