"""Pattern matching, slow and obvious: backtracking over the pattern tree, a whole input at once.

This file defines what a query means; property tests check that the columnar engine agrees. It
keeps a stack of untried ways instead of recursing, so Python's stack does not limit a match.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa

from tests.support import plain_aggregates
from tests.support.reference_rows import Partition, partitions
from trimtab.engine.match import scalars
from trimtab.engine.match.ir.expression import Aggregate, Call, Const, Expr, MatchNumber, Opaque, Place, RowValue, Side
from trimtab.engine.match.ir.pattern import Alternate, Anchor, At, Concat, Exclude, Label, Pattern, Permute, Quantify
from trimtab.engine.match.ir.query import MatchQuery, Rows, SkipPastLast, SkipTo, SkipToNext
from trimtab.engine.operator import Scalar
from trimtab.errors import MatchError


def match_rows(
    query: MatchQuery, rows: pa.Table, *, scalar: Scalar | None = None, patience: int | None = None
) -> pa.Table:
    """The whole output of a query on a whole input: the `keep` columns, then `slot0`, `slot1` ... .

    Partitions come in order of first appearance, in each the matches in order, then rows in none.

    Backtracking takes exponential time where conditions depend on how earlier rows were labelled.
    With `patience`, a search that tries more ways than that from one row ends in a TimeoutError.
    """
    source: list[int] = []
    slots: list[list[object]] = [[] for _ in query.slots]
    for partition in partitions(query, rows):
        for row, values in _Matcher(query, partition, scalar, patience).output():
            source.append(partition.numbers[row])
            for column, value in zip(slots, values, strict=True):
                column.append(value)
    indices = pa.array(source, pa.int64())
    kept = {name: rows[name].take(indices) for name in query.keep}
    made = {
        f"slot{i}": pa.array(column, slot.type) for i, (slot, column) in enumerate(zip(query.slots, slots, strict=True))
    }
    return pa.table(kept | made)


@dataclass(frozen=True, slots=True)
class _Match:
    """A match, complete or partial: its rows are `first` and those after it, one for each label."""

    number: int
    first: int
    labels: list[int]
    hidden: list[bool]  # whether an exclusion covers the row


@dataclass(frozen=True, slots=True)
class _Iterated:
    """To do: what follows the `count`-th iteration of a loop, begun after `start` rows."""

    loop: Quantify
    count: int
    start: int


@dataclass(frozen=True, slots=True)
class _Hide:
    """To do: from here on rows are hidden, or not."""

    hidden: bool


_Goal = Pattern | _Iterated | _Hide
_Todo = tuple[_Goal, "_Todo"] | None
"""What is still to be matched: the next goal and the rest."""


@dataclass(frozen=True, slots=True)
class _Way:
    """An untried way to go on: `length` rows are matched, `trace` identifies their labels."""

    length: int
    trace: int
    hidden: bool
    todo: _Todo


class _Matcher:
    """One query over one partition."""

    def __init__(self, query: MatchQuery, partition: Partition, scalar: Scalar | None, patience: int | None) -> None:
        self.query, self.partition = query, partition
        self.scalar, self.patience = scalar, patience
        self.size = len(partition.numbers)
        self.kinds = _kinds(query)

    def output(self) -> Iterator[tuple[int, list[object]]]:
        """The output rows, each as the input row whose columns are kept, and the slots."""
        unmatched = dict.fromkeys(range(self.size))
        for match in self.matches():
            for i in range(max(1, len(match.labels))):
                unmatched.pop(match.first + i, None)
            yield from self.shown(match)
        if self.query.rows is Rows.ALL_WITH_UNMATCHED:
            for row in unmatched:
                yield row, [None] * len(self.query.slots)

    def shown(self, match: _Match) -> Iterator[tuple[int, list[object]]]:
        """The output rows of a match."""
        length = len(match.labels)
        if self.query.rows is Rows.ONE or length == 0:
            if self.query.rows is not Rows.ALL_OMIT_EMPTY:
                yield match.first, self.slots(match, length)
            return
        for i in range(length):
            if not match.hidden[i]:
                yield match.first + i, self.slots(match, i + 1)

    def slots(self, match: _Match, now: int) -> list[object]:
        """The slots when `now` rows of the match have been read."""
        return [self.value(slot, match, now) for slot in self.query.slots]

    def matches(self) -> Iterator[_Match]:
        """The matches in order, empty ones too."""
        start, number = 0, 1
        while start < self.size:
            match = self.first_match(start, number)
            if match is None:
                start += 1
            else:
                yield match
                start, number = self.next_start(match), number + 1

    def next_start(self, match: _Match) -> int:
        """Where to look for the match after this one."""
        skip = self.query.skip
        if not match.labels:
            return match.first + 1  # in every mode, or the search would never end
        match skip:
            case SkipPastLast():
                return match.first + len(match.labels)
            case SkipToNext():
                return match.first + 1
            case SkipTo(side, labels, name):
                found = [i for i, label in enumerate(match.labels) if label in labels]
                clause = f"AFTER MATCH SKIP TO {side.value} {name}"
                if not found:
                    raise MatchError("match.skip-missing", f"{clause}: no row of the match is mapped to {name}")
                target = found[0 if side is Side.FIRST else -1]
                if target == 0:
                    raise MatchError(
                        "match.skip-first-row", f"{clause}: that is the first row of the match, which would never end"
                    )
                return match.first + target
            case _:
                assert_never(skip)

    def first_match(self, start: int, number: int) -> _Match | None:
        """The preferred match that starts at a row; None if there is none."""
        # The labels of the way being tried. A way's first `length` labels are still in place when
        # its turn comes, because only ways that go on from them are tried in between.
        trail = _Match(number, start, [], [])
        ways = [_Way(0, 0, False, (self.query.pattern, None))]
        traces: dict[tuple[int, Hashable], int] = {}
        # A way that is the same as an earlier one to all conditions will fail as that one did. Leaving
        # it out never changes the answer, and keeps (A|B)* and (A*)* from exponential time.
        failed: set[tuple[int, _Todo]] = set()
        while ways:
            way = ways.pop()
            del trail.labels[way.length :], trail.hidden[way.length :]
            if way.todo is None:
                return trail
            if (way.trace, way.todo) in failed:
                continue
            failed.add((way.trace, way.todo))
            self.check_patience(len(failed))
            goal, rest = way.todo
            match goal:
                case Label(index):
                    trail.labels.append(index)
                    trail.hidden.append(way.hidden)
                    if self.extends(trail):
                        step = (way.trace, self.kinds[index])
                        trace = traces.setdefault(step, len(traces) + 1)
                        ways.append(_Way(way.length + 1, trace, way.hidden, rest))
                case At(anchor):
                    if self.holds(anchor, trail):
                        ways.append(_Way(way.length, way.trace, way.hidden, rest))
                case _Hide(hidden):
                    ways.append(_Way(way.length, way.trace, hidden, rest))
                case Exclude(item):
                    todo = (item, (_Hide(way.hidden), rest))
                    ways.append(_Way(way.length, way.trace, True, todo))
                case _:
                    ways.extend(
                        _Way(way.length, way.trace, way.hidden, todo)
                        for todo in reversed(_alternatives(goal, rest, way.length))
                    )
        return None

    def check_patience(self, ways: int) -> None:
        """Raise TimeoutError if more ways than `patience` were tried."""
        if self.patience is not None and ways > self.patience:
            raise TimeoutError(f"more than {self.patience} ways from one row")

    def extends(self, trail: _Match) -> bool:
        """Whether the last row of the partial match may have the label that it has."""
        row = trail.first + len(trail.labels) - 1
        if row >= self.size or (row > trail.first and self.is_out_of_time(row, trail.first)):
            return False
        condition = self.query.conditions[trail.labels[-1]]
        return condition is None or self.value(condition, trail, len(trail.labels)) is True

    def holds(self, anchor: Anchor, trail: _Match) -> bool:
        """Whether an anchor holds after the rows matched so far."""
        row = trail.first + len(trail.labels)
        match anchor:
            case Anchor.START:
                return row == 0
            case Anchor.END:
                return row == self.size
            case Anchor.TIMEOUT:
                return row > trail.first and (row == self.size or self.is_out_of_time(row, trail.first))
            case _:
                assert_never(anchor)

    def is_out_of_time(self, row: int, first: int) -> bool:
        """Whether a row is at least WITHIN's time after the first row of the match."""
        if self.query.within_us is None:
            return False
        time_us, first_us = self.partition.times_us[row], self.partition.times_us[first]
        if time_us is None or first_us is None:
            return False
        return time_us >= first_us + self.query.within_us

    def value(self, expr: Expr, match: _Match, now: int) -> object:
        """The value of an expression when `now` rows of the match have been read."""
        match expr:
            case Const():
                return expr.value
            case MatchNumber():
                return match.number
            case RowValue():
                return self.row_value(expr, match, now)
            case Aggregate():
                count = len(match.labels) if expr.final else now
                rows = [
                    # At each row the row itself is the last one read, which is what HERE means.
                    tuple(self.value(arg, match, i + 1) for arg in expr.args)
                    for i in range(count)
                    if expr.labels is None or match.labels[i] in expr.labels
                ]
                return plain_aggregates.aggregate(expr.function, rows, expr.type)
            case Call():
                args = tuple(self.value(arg, match, now) for arg in expr.args)
                return scalars.SCALARS[expr.function](*args)
            case Opaque():
                assert self.scalar is not None, "a query with Opaque expressions needs `scalar`"
                args = tuple(self.value(arg, match, now) for arg in expr.args)
                return self.scalar(expr.sql, args)
            case _:
                assert_never(expr)

    def row_value(self, expr: RowValue, match: _Match, now: int) -> object:
        """A value read at a place, which may not exist."""
        count = len(match.labels) if expr.place.final else now
        index = _find(expr.place, match.labels, count)
        if index is None:
            return expr.default.value
        index += expr.place.shift
        row = match.first + index
        if not 0 <= row < self.size:
            return expr.default.value
        source = expr.sources[0]
        if len(expr.sources) > 1:
            source = expr.sources[match.labels[index] if 0 <= index < len(match.labels) else -1]
        return source.value if isinstance(source, Const) else self.partition.columns[source][row]


def _alternatives(goal: _Goal, rest: _Todo, length: int) -> list[_Todo]:
    """The alternatives that a composed goal stands for, the preferred first."""
    match goal:
        case Concat(items):
            return [_in_turn(items, rest)]
        case Alternate(items):
            return [(item, rest) for item in items]
        case Permute(items):
            # All of one order before anything of the next: ISO's alternation of concatenations.
            return [_in_turn(order, rest) for order in itertools.permutations(items)]
        case Quantify():
            return _loop(goal, 0, rest, length)
        case _Iterated(loop, count, start):
            is_empty = length == start
            if is_empty and loop.high is None and count >= loop.low:
                # Only a required iteration may be empty, and if it is the last one, the loop ends.
                return [rest] if count == loop.low else []
            if is_empty and count > loop.low:
                return [rest]  # beyond the lower bound it ends the loop
            return _loop(loop, count, rest, length)
        case _:
            raise AssertionError(goal)


def _in_turn(items: Iterable[Pattern], rest: _Todo) -> _Todo:
    for item in reversed(tuple(items)):
        rest = (item, rest)
    return rest


def _loop(loop: Quantify, count: int, rest: _Todo, length: int) -> list[_Todo]:
    """What may be done after `count` iterations."""
    # Without an upper bound the count stops at the lower one, so that ways which differ in nothing
    # else are equal.
    done = count + 1 if loop.high is not None else min(count, loop.low) + 1
    again: _Todo = (loop.item, (_Iterated(loop, done, length), rest))
    if count < loop.low:
        return [again]
    if loop.high is not None and count >= loop.high:
        return [rest]
    return [again, rest] if loop.greedy else [rest, again]


def _find(place: Place, labels: list[int], count: int) -> int | None:
    """The index in the match of the row that a place means before it is shifted."""
    indices = range(count) if place.side is Side.FIRST else range(count - 1, -1, -1)
    fitting = (i for i in indices if place.labels is None or labels[i] in place.labels)
    return next(itertools.islice(fitting, place.offset, None), None)


def _kinds(query: MatchQuery) -> list[Hashable]:
    """The kind of each label: labels of the same kind are the same to all conditions."""
    used: set[frozenset[int]] = set()
    everything = [frozenset((i,)) for i in range(len(query.labels))]
    for condition in query.conditions:
        for part in _parts(condition):
            labels = part.place.labels if isinstance(part, RowValue) else None
            if isinstance(part, Aggregate):
                labels = part.labels
            if labels is not None:
                used.add(labels)
            if isinstance(part, RowValue) and len(part.sources) > 1:
                used.update(everything)
    return [tuple(i in labels for labels in used) for i in range(len(query.labels))]


def _parts(expr: Expr | None) -> Iterator[Expr]:
    """The expression and all that it is made of."""
    if expr is not None:
        yield expr
        if isinstance(expr, Aggregate | Call | Opaque):
            for arg in expr.args:
                yield from _parts(arg)
