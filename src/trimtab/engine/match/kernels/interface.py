"""What a kernel takes and what it gives back: the same for every kernel, whatever its form.

A kernel is generated source with plain parameters, and tuples for results: that compiles in the shortest time and is
called at the lowest cost. Its parameters and results are the fields of the groups below, in their order and by their
names. Callers pass `Inputs` and receive `Outputs`.

Keys are numbered from 0. Row numbers count through all rows at hand, key by key and in order within a key; -1 is no
row. The threads, matches and path nodes of all keys are in flat arrays, one after another. Arrays are NumPy's for
machine code and lists for plain Python, which reads a list several times as fast. Only source that is never compiled
has Python values; other kernels get NOTHING in their place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NO_WATERMARK = -(2**62)
"""The watermark of a batch that has none."""
KIND_MATCH, KIND_UNMATCHED = 0, 1
"""What is reported: a match, or a row that is in no match (ALL ROWS PER MATCH WITH UNMATCHED ROWS)."""
ERROR_SKIP_FIRST, ERROR_SKIP_MISSING, ERROR_THREADS, ERROR_STATE = 1, 2, 3, 4
"""Skipping to the first row of the match; to a row that isn't there; more threads than the limit; threads for which the
automaton has no configuration. After the last one the general kernel has to run the batch."""

Ints = npt.NDArray[np.int64] | list[int]
Floats = npt.NDArray[np.float64] | list[float]
Objects = npt.NDArray[np.int64] | list[object]

NODE_FIELDS = 3
"""A path node: its row, the position that the row was mapped to, and the node before it, counted from the key's first
one (-1: it is the first of a path)."""
NOTHING = np.zeros(1, np.int64)
"""Of the type that machine code expects where others have Python values."""

# What it takes -------------------------------------------------------------------------------------


class RowRanges(NamedTuple):
    """Which rows each key has."""

    key_count: int  # how many keys there are
    tails: Ints  # the first row that PREV may read
    firsts: Ints  # the first row to be processed
    stops: Ints  # after the last row to be processed now
    ends: Ints  # after the last row that NEXT may read


class KeysBefore(NamedTuple):
    """What is known of each key from earlier batches."""

    begun: Ints  # 1 if rows of the key were processed before
    numbers: Ints  # the number of matches that were reported
    fronts: Ints  # the first row that may still become part of a match


class Time(NamedTuple):
    """How far time has advanced."""

    closing: int  # 1 if the input has ended
    watermark: int  # no row before this time (in microseconds) follows; NO_WATERMARK if that isn't known
    times: Ints  # the time of each row, in microseconds; a single 0 where the pattern has no WITHIN


class ThreadsBefore(NamedTuple):
    """The threads that earlier batches left, and the nodes of their paths."""

    old_offsets: Ints  # where each key's threads begin, and where the last key's end
    old_ints: Ints  # the fixed fields and integer registers of each thread
    old_floats: Floats  # the float registers of each thread
    old_objects: Objects  # the registers of each thread that hold Python values, or NOTHING
    old_node_offsets: Ints  # where each key's nodes begin, and where the last key's end
    old_nodes: Ints  # NODE_FIELDS numbers for each node


class Constants(NamedTuple):
    """What conditions use besides rows."""

    constant_ranks: Ints | tuple[()]  # the ranks of string constants among all strings at hand
    python_values: Objects | tuple[object, ...]  # constants and types, or NOTHING
    opaque: Callable[..., object] | int | None  # evaluates `Opaque` expressions, or 0


class Limits(NamedTuple):
    """The limit of threads, and memory for reported matches."""

    thread_limit: int  # the most threads that a key may have
    room_ints: Ints  # for the integers of matches; the automaton needs enough for all, other kernels allocate more
    room_floats: Floats  # for their floats


class Tables(NamedTuple):
    """The program's steps as numbers. The index after the last position stands for the place before the first row."""

    steps_from: Ints  # where each position's steps begin, and where the last one's end
    step_targets: Ints  # the position that each step leads to, or DONE
    step_anchors: Ints  # the anchor that has to hold: NO_ANCHOR, AT_START, AT_END, AT_TIMEOUT
    position_labels: Ints  # the label of each position
    position_flags: Ints  # WAITS, MAY_END, STAMPED
    compared_ints_from: Ints  # where each position's part of `compared_ints` begins, and where the last one's ends
    compared_ints: Ints  # the integers in which two threads at the position may differ
    compared_floats_from: Ints
    compared_floats: Ints  # likewise the floats
    compared_objects_from: Ints
    compared_objects: Ints  # likewise the Python values


class Column(NamedTuple):
    """A column of the rows, in the order of row numbers."""

    values: Any  # numbers for kernels that may be compiled, Python values for others
    nulls: Any  # whether each value is null; kernels for columns without nulls don't read it


class Inputs(NamedTuple):
    """Everything that a kernel takes. The automaton takes no tables: its code has the program in it.

    The numbers that stand in a query are parameters, so queries that differ only in them share one kernel.
    """

    rows: RowRanges
    keys: KeysBefore
    time: Time
    threads: ThreadsBefore
    constants: Constants
    limits: Limits
    tables: Tables | tuple[()]
    columns: tuple[Column, ...]
    literals: tuple[int | float, ...]

    def positional(self) -> tuple[Any, ...]:
        """All of it in the order of the kernel's parameters."""
        return tuple(itertools.chain(*self[:-2], *self.columns, self.literals))

    def as_lists(self) -> tuple[Any, ...]:
        """The same with lists for arrays."""
        return tuple(each.tolist() if isinstance(each, np.ndarray) else each for each in self.positional())


def parameters(columns: int, literals: int = 0, *, tables: bool) -> str:
    """The parameters of a kernel over some columns, for a query with some numbers in it, as source.

    >>> parameters(1, 1, tables=False)  # doctest: +ELLIPSIS
    'key_count, tails, firsts, ... room_ints, room_floats, column0, nulls0, literal0'
    """
    groups = (RowRanges, KeysBefore, Time, ThreadsBefore, Constants, Limits, *((Tables,) if tables else ()))
    names: list[str] = [name for group in groups for name in group._fields]
    names += [name for each in range(columns) for name in (f"column{each}", f"nulls{each}")]
    names += [f"literal{each}" for each in range(literals)]
    return ", ".join(names)


# What it gives back --------------------------------------------------------------------------------


class Matches(NamedTuple):
    """The matches, in the order in which they were decided; `plan.report_fields` says what one consists of."""

    match_ints: Ints  # the integers of each match, and unused room after them
    match_floats: Floats  # likewise the floats
    match_count: int
    path_rows: Ints  # the rows of each match, where the output needs all of them
    path_positions: Ints  # the positions that those rows were mapped to


class ThreadsAfter(NamedTuple):
    """The threads that are left, as in `ThreadsBefore`, with unused room after them."""

    saved_offsets: Ints
    saved_ints: Ints
    saved_floats: Floats
    saved_objects: Objects
    saved_count: int
    saved_node_offsets: Ints
    saved_nodes: Ints
    saved_node_count: int


class KeysAfter(NamedTuple):
    """What is known of each key now."""

    resumes: Ints  # the first row that is still to be processed
    numbers_after: Ints  # as `numbers`
    fronts_after: Ints  # as `fronts`


class Failure(NamedTuple):
    """What went wrong; if something did, the other results are meaningless."""

    error: int  # 0, or one of ERROR_...
    error_count: int  # the number of keys with more threads than the limit
    error_key: int  # the first key with an error


class Outputs(NamedTuple):
    """Everything that a kernel gives back."""

    matches: Matches
    threads: ThreadsAfter
    keys: KeysAfter
    failure: Failure

    @classmethod
    def of(cls, results: tuple[Any, ...]) -> Outputs:
        """A kernel's results with their names."""
        matches, threads, keys, failure = results
        return cls(Matches(*matches), ThreadsAfter(*threads), KeysAfter(*keys), Failure(*failure))


RESULTS = ", ".join(
    f"({', '.join(names)})" for names in (Matches._fields, ThreadsAfter._fields, KeysAfter._fields, Failure._fields)
)
"""The results of a kernel, as source: a tuple for each group."""
