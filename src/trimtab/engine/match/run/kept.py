"""The rows that are kept for the next batch: together for all queries that work on the same rows, if they can.

A query may keep more rows than it needs. So those that have come equally far keep what any of them needs: their states
then have the same tables of keys and rows, which are made, written and loaded once. Which rows these are is known when
all of them have run, so the tables are made as late as that (`Later`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array
from trimtab.engine.match.ir.state_schema import PENDING
from trimtab.engine.match.run.rowset import Rowset, sums_before
from trimtab.engine.operator import State
from trimtab.keyed_state import DEADLINE, KEY


class Later(Mapping[str, pa.Table]):
    """A state whose tables are made when the first of them is read; `waits_with`: one object for all that share."""

    def __init__(self, make: Callable[[], State], waits_with: object) -> None:
        self._make, self.waits_with = make, waits_with

    @cached_property
    def _tables(self) -> State:
        return self._make()

    def __getitem__(self, name: str) -> pa.Table:
        """A table."""
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the tables."""
        return iter(self._tables)

    def __len__(self) -> int:
        """How many tables there are."""
        return len(self._tables)


@dataclass(eq=False)
class Kept:
    """Rows of a rowset that are kept, by position, for queries that go on with the same row of each key."""

    rowset: Rowset
    resume: Int64Array
    mask: BoolArray
    is_made: bool = False
    _keys: list[tuple[pa.Table, Mapping[str, pa.Array]]] = field(default_factory=list)

    @cached_property
    def positions(self) -> Int64Array:
        """The positions of the rows."""
        self.is_made = True  # from here on nothing can be added
        return np.flatnonzero(self.mask)

    @cached_property
    def before(self) -> Int64Array:
        """How many rows are kept before each position, and in all."""
        self.is_made = True
        return sums_before(self.mask)

    @cached_property
    def base(self) -> Int64Array:
        """How many are kept before the first row of each key."""
        found: Int64Array = self.before[self.rowset.lo]
        return found

    @cached_property
    def counts(self) -> Int64Array:
        """How many are kept of each key."""
        found: Int64Array = self.before[self.rowset.hi] - self.base
        return found

    def rows(self, renumber: Int64Array) -> pa.Table:
        """The rows as a table of the state; `renumber` gives the number of each key there."""
        return self._rows if renumber is self.numbers else self._made(renumber)

    @cached_property
    def numbers(self) -> Int64Array:
        """The number of each key in the state, if exactly those are there of which rows are kept."""
        return np.cumsum(self.counts > 0) - 1

    @cached_property
    def _rows(self) -> pa.Table:
        return self._made(self.numbers)

    def _made(self, renumber: Int64Array) -> pa.Table:
        keys = np.repeat(np.arange(len(self.resume)), self.counts)
        own = self.rowset.taken(self.positions)
        own = own.append_column(KEY, pa.array(renumber[keys], pa.int64()))
        return own.append_column(PENDING, pa.array(self.positions >= self.resume[keys]))

    def keys(self, alive: BoolArray, deadlines: pa.Array, known: Mapping[str, Int64Array]) -> pa.Table:
        """The keys as a table of the state: the same one for all of which the same is known."""
        columns = {DEADLINE: deadlines} | {name: pa.array(values, pa.int64()) for name, values in known.items()}
        if not alive.all():
            mask = pa.array(alive)
            columns = {name: column.filter(mask) for name, column in columns.items()}
        for table, made_of in self._keys:
            is_as_long, same = table.num_rows == int(alive.sum()), made_of.keys() == columns.keys()
            if is_as_long and same and all(made_of[name].equals(columns[name]) for name in columns):
                return table
        table = self.rowset.keys if alive.all() else self.rowset.keys.filter(pa.array(alive))
        for name, column in columns.items():
            table = table.append_column(name, column)
        self._keys.append((table, columns))
        return table


def kept_together(rowset: Rowset, resume: Int64Array, mask: BoolArray) -> Kept:
    """What is kept by all queries so far that have come as far as this one, which needs these rows."""
    known: list[Kept] = rowset.kept_by_queries
    for kept in known:
        if not kept.is_made and np.array_equal(kept.resume, resume):
            kept.mask |= mask
            return kept
    known.append(Kept(rowset, resume, mask))
    return known[-1]
