"""The one contract of a query's step over rows: a pattern, a window, a user's own operator, or a plain selection.

A *description* specifies the step. It is a frozen dataclass that pickles, and a checkpoint identifies it by its
signature. Opened, it is an *operator*, which advances over batches: rows and state in, rows and state out. State is a
set of Arrow tables. An operator keeps nothing else, so a batch can be repeated, moved to another process, or resumed
after a crash.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, cast

import pyarrow as pa

from trimtab.engine.columns.keys import load_machine_code
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.made_up import made_up
from trimtab.engine.metering import Meter
from trimtab.keyed_state import SLOT

State = Mapping[str, pa.Table]
"""State as columns, in a form that a store can keep key by key.

The table `keys` has one row per key: the partition columns, and `deadline_us`, the watermark at which an idle key must
be visited (null: never). Every other table has an int64 column `key`, the row of its key in `keys`. An empty mapping is
the state before the first row.

A state may be cut by key and joined again: keys may be removed, reordered, and combined with keys of other states of
the same operator. Only the numbers in `key` change then, because any other number that points at a row of a state's
table counts from the first row of its own key there (negative: no row). The rows of a key must stay in their order, and
the tables sorted by `key`.

A key that gets no rows may be left out before its deadline: the output is the same with or without it. After a visit, a
key's deadline is later than the watermark, or null."""


class StateTable(NamedTuple):
    """A table of a state, and the columns that it has whatever the query is."""

    name: str
    columns: tuple[str, ...]


# Reserved columns ------------------------------------------------------------------------------

ARRIVAL = "__arrival"
"""An int64 column of every batch, which breaks ties: rows of a key that are equal in all order columns are taken in the
order of these numbers, even if some of them have waited since an earlier batch. Any numbers will do: those of the rows
in order of arrival, or hashes of the rows. Rows that are equal in it, too, may be taken in any order."""

TIME_US = "__time_us"
"""An int64 column of every output: the event time of a row, in microseconds since the epoch, by which the outputs of
several engines are merged. For a pattern it is the time of the match's last row (in all of its rows; an unmatched row
or an empty match has the row's own time), for OVER the row's time, for GROUP BY the end of the window, for a user's
operator the largest time among the key's rows, or the watermark that woke it. Null if there is no event time."""

_OF_THE_ENGINE = re.compile(r"__(?!c\d)")


def is_internal(column: str) -> bool:
    """Whether a column is the engine's own, so that messages to users don't show it.

    A user's column whose name the engine uses itself is called `__c` and a number, and is not internal.

    >>> is_internal("__slot"), is_internal("__c0"), is_internal("symbol")
    (True, False, False)
    """
    return _OF_THE_ENGINE.match(column) is not None


# The description -------------------------------------------------------------------------------

MAX_THREADS = 10_000
"""How many partial matches a key may have under way at once, unless the caller gives another number."""

Scalar = Callable[[str, tuple[object, ...]], object]
"""Computes a function that the engine doesn't have: an expression's text and the values of its arguments in, a value
out."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator needs in addition to its description.

    `max_threads`: how many partial matches a key may have under way at once. `scalar`: None if no expression needs it.
    """

    max_threads: int = MAX_THREADS
    scalar: Scalar | None = None


DEFAULTS = Settings()


class Obstacle(NamedTuple):
    """Why the rows of a key can't be divided over several engines, and what to do instead."""

    why: str
    hint: str


class Description(ABC):
    """What a step does. Subclasses are frozen dataclasses, and `signed`.

    partition  the columns that make a key
    order      what the rows of a key are ordered by; empty: their order doesn't matter
    """

    __slots__ = ()

    partition: tuple[str, ...]
    order: tuple[OrderKey, ...]

    @property
    def is_keyed(self) -> bool:
        """Whether rows of a key affect each other's results. If not, there is no state, and no row is late."""
        return True

    @property
    @abstractmethod
    def state_tables(self) -> tuple[StateTable, ...]:
        """The tables of its state; one that would always be empty may be missing."""

    @abstractmethod
    def split_obstacle(self) -> Obstacle | None:
        """Why a key's rows can't be divided into parts; None: they can, and `Operator.merge` gives the same answer."""

    def by_slot(self) -> Self:
        """The same description with the slot as the first key column.

        The operator's order of keys is then that of the store; the other key columns tell apart keys that share a slot.
        """
        return cast(Self, replace(cast(Any, self), partition=(SLOT, *self.partition)))

    def open(self, settings: Settings = DEFAULTS) -> Operator:
        """Make an operator that runs in this process."""
        del settings
        return self._operator()

    def _operator(self) -> Operator:
        """What `open` gives where it needs no settings; otherwise `open` is overridden."""
        raise NotImplementedError


# The operator ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a batch.

    `watermark_us`: no row older than this will come any more (rows at or after it wait). None: there is no event
    time, rows are taken in the order they come. `closing`: the input ends with this batch. `meter`: where to report how
    long keys took; `memo`: what is known of the batch's columns already. The answer depends on neither.
    """

    watermark_us: int | None = None
    closing: bool = False
    meter: Meter | None = field(default=None, compare=False)
    memo: Memo | None = field(default=None, compare=False)


class Operator(ABC):
    """Runs a description. It is pure: the same rows, state and moment always give the same output and state."""

    @abstractmethod
    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Take a batch in; return the rows that are decided now, and the state for the next batch.

        Called once per batch, also for an empty one, so that idle keys can time out.
        """

    def partial(self, rows: pa.Table) -> State:
        """The state of rows that are only a part of their keys' rows, to be merged with the states of the others.

        There is no watermark: nothing can be decided before all parts are merged.
        """
        output, state = self.advance(rows, {}, Moment())
        assert not output.num_rows
        return state

    def merge(self, states: Sequence[State], schema: pa.Schema) -> State:
        """Merge the states of parts, in any order, into the state of the whole; `schema` is that of the rows.

        Only for descriptions without a `split_obstacle`.
        """
        raise NotImplementedError

    def warm(self, schema: pa.Schema) -> bool:
        """Load all machine code, by running over made-up rows of this schema, so that the first batch isn't slow.

        Returns False if there is no machine code to load.
        """
        load_machine_code()
        rows = made_up(schema)
        _, state = self.advance(rows, {}, Moment(0))
        _, state = self.advance(rows, state, Moment(1))
        self.advance(rows.slice(0, 0), state, Moment(1, closing=True))
        return True
