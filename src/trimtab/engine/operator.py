"""The one contract of a query's step over rows: a pattern, a window, a user's own operator, or a plain selection.

A *description* says what is wanted. It is a frozen dataclass that pickles, and a checkpoint knows it by its signature.
Opened, it is an *operator*, which advances over batches: rows in, rows out, and the state that it leaves is a set of
Arrow tables. It keeps nothing else, so a batch can be repeated, moved to another process, or resumed after a crash.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, cast

import pyarrow as pa

from trimtab.engine.columns.keys import load_machine_code
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.made_up import made_up
from trimtab.engine.metering import Meter
from trimtab.keyed_state import SLOT

State = Mapping[str, pa.Table]
"""State as columns, made so that a store can keep it key by key.

The table `keys` has one row per key: the partition columns, and `deadline_us`, the watermark at which an idle key
wants to be visited (null: never). Every other table has an int64 column `key`, the row of its key in `keys`. An empty
mapping is the state before the first row.

A state may be cut by key and put together again: keys taken out, put in another order, brought together with keys of
other states of the same operator. That takes no more than new numbers in `key`: each other number that points at a
row of a state's table counts from the first row of its own key there (negative: no row). Whoever does it leaves the
rows of a key in their order, and the tables sorted by `key`.

A key that gets no rows need not be there before its deadline: visited or not, what comes out is the same. A visited
key leaves a deadline after the watermark, or none."""


class StateTable(NamedTuple):
    """A table of a state, and the columns that it has whatever the query is."""

    name: str
    columns: tuple[str, ...]


# Reserved columns ------------------------------------------------------------------------------

ARRIVAL = "__arrival"
"""The int64 column that every batch carries. Rows of a key that are equal in all that they are ordered by are taken in
the order of these numbers, also where some of them waited since an earlier batch. Any number will do: the row's number
in order of arrival, or a hash of the row. Rows that have it in common, too, may be taken in any order."""

TIME_US = "__time_us"
"""The int64 column that every output carries: the event time that a row is dated by, in microseconds since the epoch,
so that outputs of several engines can be merged. For a pattern that is the time of the match's last row (in all of its
rows; of an unmatched row or an empty match it is the row's own), for OVER the row's time, for GROUP BY the end of the
window, for a user's operator the largest time that the key was handed, or the watermark that woke it. Null where there
is no event time."""

_OF_THE_ENGINE = re.compile(r"__(?!c\d)")


def is_internal(column: str) -> bool:
    """Whether a column is the engine's own, and nothing that a user would know a key by.

    A column whose name the engine uses itself goes by `__c` and a number, and is the user's all the same.

    >>> is_internal("__slot"), is_internal("__c0"), is_internal("symbol")
    (True, False, False)
    """
    return _OF_THE_ENGINE.match(column) is not None


# The description -------------------------------------------------------------------------------

MAX_THREADS = 10_000
"""How many partial matches a key may have under way at once, unless the caller says otherwise."""

Scalar = Callable[[str, tuple[object, ...]], object]
"""Computes what the engine has no function for: an expression's text and the values of its arguments in, a value out.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator needs beside its description.

    `max_threads`: how many partial matches a key may have under way at once. `scalar`: None if no expression needs it.
    """

    max_threads: int = MAX_THREADS
    scalar: Scalar | None = None


DEFAULTS = Settings()


class Obstacle(NamedTuple):
    """Why the rows of a key can't be dealt out to several engines, and what to do instead."""

    why: str
    hint: str


class Description(ABC):
    """What a step is to do. Subclasses are frozen dataclasses, and `signed`.

    partition  the columns that make a key
    order      by what the rows of a key are ordered; empty: it makes no difference
    """

    __slots__ = ()

    partition: tuple[str, ...]
    order: tuple[OrderKey, ...]

    @property
    def is_keyed(self) -> bool:
        """Whether rows of a key meet. If not, there is no state, and no row comes too late."""
        return True

    @property
    @abstractmethod
    def state_tables(self) -> tuple[StateTable, ...]:
        """The tables of its state; one that would always be empty may be missing."""

    @abstractmethod
    def split_obstacle(self) -> Obstacle | None:
        """Why parts of a key's rows would not give the answer of the whole; None: they would, by `Operator.merge`."""

    def by_slot(self) -> Self:
        """The same over rows with a slot, which is put in front of the key.

        The store's order is then the operator's, and the key columns after it keep keys apart that share a slot.
        """
        return cast(Self, replace(cast(Any, self), partition=(SLOT, *self.partition)))

    @abstractmethod
    def open(self, settings: Settings = DEFAULTS) -> Operator:
        """Make it ready to run in this process."""


# The operator ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of time while a batch runs.

    `watermark_us`: no row older than this will come any more (rows at or after it wait). None: there is no event
    time, rows are taken in the order they come. `closing`: the input ends with this batch. `meter`: who wants to know
    how long keys took; it has no part in the answer.
    """

    watermark_us: int | None = None
    closing: bool = False
    meter: Meter | None = field(default=None, compare=False)


class Operator(ABC):
    """A description at work: pure, so the same rows, state and moment always give the same output and state."""

    @abstractmethod
    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Take a batch in, give what is decided by now and the state to carry.

        Called once per batch, also for an empty one, so that idle keys can time out.
        """

    def partial(self, rows: pa.Table) -> State:
        """The state of rows that are only a part of their keys' rows, to be merged with the states of the others.

        There is no watermark: what is decided, and when, only shows when all parts are together.
        """
        output, state = self.advance(rows, {}, Moment())
        assert not output.num_rows
        return state

    def merge(self, states: Sequence[State], schema: pa.Schema) -> State:
        """States of parts as the state of the whole, whatever the parts and their order; `schema` is that of the rows.

        Only for descriptions without a `split_obstacle`.
        """
        raise NotImplementedError

    def warm(self, schema: pa.Schema) -> bool:
        """Have all machine code ready, by made-up rows of this schema, so that the first batch is as quick as others.

        False: there is none to have.
        """
        load_machine_code()
        rows = made_up(schema)
        _, state = self.advance(rows, {}, Moment(0))
        _, state = self.advance(rows, state, Moment(1))
        self.advance(rows.slice(0, 0), state, Moment(1, closing=True))
        return True
