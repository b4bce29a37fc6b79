"""Slots from the rows of each match: for ALL ROWS PER MATCH, and for aggregates that need every value.

A *path* is a match's rows and labels in order; all paths lie end to end in flat arrays. A *point* is where a slot is
asked for: a step of a path (the rows up to there are the match so far), or -1 for an empty match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.engine.match.aggregates import aggregate
from trimtab.engine.match.ir.expression import (
    HERE,
    Aggregate,
    Call,
    Const,
    Expr,
    MatchNumber,
    Opaque,
    Place,
    RowValue,
    Side,
)
from trimtab.engine.match.ir.query import Slot
from trimtab.engine.match.run.binding import numbers
from trimtab.engine.match.run.prefixes import prefixes
from trimtab.engine.match.run.reading import RowReader
from trimtab.engine.match.scalars import SCALARS
from trimtab.engine.operator import Scalar


@dataclass(frozen=True)
class Paths:
    """All matches of a batch. `begin[m]` and `length[m]` locate match m's steps in `rows` and `labels`."""

    rows: Int64Array
    labels: Int64Array
    begin: Int64Array
    length: Int64Array
    number: Int64Array
    first_row: Int64Array  # the partition's rows at hand, per match: from here
    end_row: Int64Array  # to before here


@dataclass(frozen=True)
class Points:
    """Where slots are asked for: the match, and the step within it (-1: the match is empty)."""

    match: Int64Array
    step: Int64Array

    def at_end(self, paths: Paths) -> Points:
        """The same matches, each at its last step: what FINAL means."""
        return Points(self.match, paths.length[self.match] - 1)


class PathSlots:
    """Computes slots at points."""

    def __init__(self, paths: Paths, reader: RowReader, scalar: Scalar | None) -> None:
        self.paths, self.reader, self.scalar = paths, reader, scalar
        self.of_step = np.repeat(np.arange(len(paths.length)), paths.length)

    def column(self, slot: Slot, points: Points) -> pa.Array:
        """One slot at every point."""
        match slot:
            case MatchNumber():
                return pa.array(self.paths.number[points.match], pa.int64())
            case RowValue(place):
                where = points.at_end(self.paths) if place.final else points
                return self._row_value(slot, where)
            case Aggregate():
                where = points.at_end(self.paths) if slot.final else points
                return self._aggregate(slot, where)

    # Navigation --------------------------------------------------------------------------------

    def _chosen(self, labels: frozenset[int] | None) -> tuple[Int64Array, Int64Array]:
        """The steps mapped to some labels, and how many of them lie before each step of the flat arrays."""
        if labels is None:
            chosen = np.ones(len(self.paths.rows), np.bool_)
        else:
            chosen = np.isin(self.paths.labels, np.fromiter(labels, np.int64, len(labels)))
        before = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(chosen, out=before[1:])
        return np.flatnonzero(chosen), before

    def _row_value(self, slot: RowValue, points: Points) -> pa.Array:
        rows, labels = self._place(slot.place, points)
        return self.reader.values(slot, rows, labels)

    def _place(self, place: Place, points: Points) -> tuple[Int64Array, Int64Array]:
        """The row at the place seen from each point, and its label (-1: none)."""
        paths = self.paths
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
        # Rows of a match stand next to each other, so a shifted row's step is found by counting. In a measure the
        # whole match is known, so a row ahead has its label too.
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
            known = np.zeros(len(steps) + 1, np.int64)
            np.cumsum(args[0].is_valid().to_numpy(zero_copy_only=False), out=known[1:])
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
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        inner = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths) + np.repeat(low, lengths)
        taken = values.take(pa.array(inner))
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), taken, mask=pa.array(lengths == 0))
        return lists if lists.type == type_ else lists.cast(type_)

    def _scan(
        self, slot: Aggregate, values: pa.Array, steps: Int64Array, low: Int64Array, high: Int64Array
    ) -> pa.Array | None:
        """Running sums and extremes of plain numbers by one pass over all steps; None if that can't be."""
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return None
        bound = numbers(values)
        known = np.ones(len(steps), np.bool_) if bound.nulls is None else ~bound.nulls
        if bound.values.dtype.kind == "f" and np.isnan(bound.values).any():
            return None
        owner = self.of_step[steps]
        counts = np.zeros(len(steps) + 1, np.int64)
        np.cumsum(known, out=counts[1:])
        count = counts[high] - counts[low]
        numeric = bound.values
        if numeric.dtype.kind != "f":
            numeric = numeric.astype(np.int64, copy=False)
            if slot.function in ("sum", "avg") and _may_overflow(numeric):
                numeric = numeric.astype(object)  # Python's integers have no end
        scanned = running(slot.function, numeric, known, owner)
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
                return self.reader.values(expr, self.paths.rows[steps], self.paths.labels[steps])
            case MatchNumber():
                return pa.array(self.paths.number[self.of_step[steps]], pa.int64())
            case Const(value, type_):
                return pa.array([value] * len(steps), type_)
            case Call(function, args, type_):
                return self._computed(SCALARS[function], args, type_, steps)
            case Opaque(sql, args, type_):
                assert self.scalar is not None
                scalar = self.scalar
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


def running(function: str, values: npt.NDArray[Any], known: BoolArray, owner: Int64Array) -> npt.NDArray[Any]:
    """Running sum, minimum or maximum over the steps of each owner, unknown values left out.

    Floats are added one after another from the first step of the owner, so that cutting a stream differently can't
    change a bit. (A cumulative sum over everything, less what came before, would.)
    """
    if len(values) >= LARGE and values.dtype != object:
        from trimtab.engine.match.run.scanning import scan

        found: npt.NDArray[Any] = scan(FUNCTIONS.index(function), values, known, owner)
        return found
    out = np.zeros_like(values)
    state: int | float = 0
    before, empty = -1, True
    flat, valid, owners = values.tolist(), known.tolist(), owner.tolist()
    for i in range(len(flat)):
        if owners[i] != before:
            before, empty, state = owners[i], True, 0
        if valid[i]:
            value = flat[i]
            if function in ("sum", "avg"):
                state = value if empty else state + value
            elif empty or (value < state if function == "min" else value > state):
                state = value
            empty = False
        out[i] = state
    return out


def _may_overflow(values: Int64Array) -> bool:
    most = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    return most * len(values) >= 2**63


LARGE = 5_000
"""From here the compiled scan is worth loading."""
FUNCTIONS = ("sum", "avg", "min", "max")
