"""What a batch leaves to the next one: threads, the rows that they refer to, and the rows still to be processed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.columns.times import times_us
from trimtab.engine.match.compile.program import Program
from trimtab.engine.match.ir.expression import MatchNumber
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.engine.match.ir.state_schema import BEGUN, FRONT, NUMBER, PENDING, ROWS, TAIL
from trimtab.engine.match.kernels.emit import walk
from trimtab.engine.match.kernels.plan import START, Generated, Traits
from trimtab.engine.match.run.rowset import Rowset
from trimtab.engine.match.run.threads import Threads
from trimtab.engine.operator import State
from trimtab.keyed_state import DEADLINE, KEY, KEYS


@dataclass(frozen=True)
class Left:
    """What a kernel has left: live threads, and of every key some numbers.

    resume   the first row that is still to be processed
    tail     the first row that may be looked back at
    fronts   the first row of which it is not decided whether a match has it
    numbers  how many matches there were
    begun    whether rows were processed before this batch
    """

    threads: Threads
    resume: Int64Array
    tail: Int64Array
    fronts: Int64Array
    numbers: Int64Array
    begun: Int64Array


@dataclass(frozen=True)
class Keeper:
    """Makes the state of one query."""

    query: MatchQuery
    traits: Traits
    program: Program

    def state(
        self, generated: Generated, rowset: Rowset, left: Left, times: Int64Array, watermark_us: int | None
    ) -> State:
        """The state to carry; `times` are those of the rows in the kernel's order, where the query is bound in time."""
        saved, resume = left.threads, left.resume
        counts = np.diff(saved.offsets) if len(saved.offsets) > 1 else np.zeros(0, np.int64)
        thread_key = np.repeat(np.arange(len(counts)), counts)
        low = np.maximum(left.tail, resume - self.traits.lookback)
        if generated.paths and len(saved.ints):
            # A path's rows stand side by side, from the first row of the oldest attempt on.
            starts = resume.copy()
            np.minimum.at(starts, thread_key, saved.ints[:, START])
            low = np.maximum(left.tail, np.minimum(low, starts - self.traits.lookback))
        if self.query.rows is Rows.ALL_WITH_UNMATCHED:
            low = np.minimum(low, left.fronts)
        # Few rows stay of many: the last ones of every key, and those before them that threads refer to.
        references = generated.row_fields
        pointed = saved.ints[:, references]
        apart = pointed[(pointed >= 0) & (pointed < low[thread_key, None])]
        kept = _spans(low, rowset.hi)
        if len(apart):
            kept = np.union1d(kept, apart)
        kept_key = np.searchsorted(rowset.hi, kept, side="right")
        kept_rows = np.bincount(kept_key, minlength=len(resume))
        base = np.cumsum(kept_rows) - kept_rows
        # A state counts rows from the key's first.
        ints = saved.ints.copy()
        for column in references:
            rows = ints[:, column]
            known = rows >= 0
            ints[known, column] = np.searchsorted(kept, rows[known]) - base[thread_key[known]]
        nodes = saved.nodes.copy()
        if len(nodes):
            nodes[:, 0] = np.searchsorted(kept, nodes[:, 0]) - np.repeat(base, np.diff(saved.node_offsets))
        begun = left.begun | (resume > rowset.first)
        alive = (counts > 0) | (kept_rows > 0)
        if self._counts_matches:
            alive |= left.numbers > 0
        if Anchor.START in self.program.uses:
            alive |= begun > 0
        renumber = np.cumsum(alive) - 1
        deadline = self._deadlines(rowset, saved, thread_key, resume, times, watermark_us)
        keys = rowset.keys.filter(pa.array(alive))
        for name, values in (
            (NUMBER, left.numbers), (BEGUN, begun), (TAIL, resume - low), (FRONT, resume - left.fronts),
        ):  # fmt: skip
            keys = keys.append_column(name, pa.array(values[alive], pa.int64()))
        keys = keys.append_column(DEADLINE, deadline.filter(pa.array(alive)))
        own = rowset.table.take(pa.array(rowset.order[kept]))
        own = own.append_column(KEY, pa.array(renumber[kept_key], pa.int64()))
        own = own.append_column(PENDING, pa.array(kept >= resume[kept_key]))
        state = {KEYS: keys, ROWS: own}
        state |= saved.tables(ints, nodes, renumber, thread_key, generated)
        return state

    @cached_property
    def _counts_matches(self) -> bool:
        exprs = [e for c in self.query.conditions if c is not None for e in walk(c)]
        exprs += [e for s in self.query.slots for e in walk(s)]
        return any(isinstance(e, MatchNumber) for e in exprs)

    def _deadlines(
        self, rowset: Rowset, saved: Threads, thread_key: Int64Array, resume: Int64Array, times: Int64Array,
        watermark_us: int | None,
    ) -> pa.Array:  # fmt: skip
        """When time alone wants a key to be visited: a thread runs out, or a waiting row becomes certain."""
        never = np.iinfo(np.int64).max
        deadline = np.full(len(rowset.lo), never)
        if self.query.within_us is not None:
            ends = times[saved.ints[:, START]] + self.query.within_us
            if watermark_us is not None:
                # What has run out and is still there waits for rows, or for the end of the input.
                ends[ends <= watermark_us] = never
            np.minimum.at(deadline, thread_key, ends)
            if self.traits.sequential:
                # The attempt under way has left no threads: it is made again from its first row.
                under_way = np.flatnonzero(resume < rowset.hi)
                ends = times[resume[under_way]] + self.query.within_us
                if watermark_us is not None:
                    ends[ends <= watermark_us] = never
                deadline[under_way] = np.minimum(deadline[under_way], ends)
        uncertain = np.flatnonzero(rowset.ready < rowset.hi)
        if len(uncertain):
            # Rows are in order of time, so the first one decides; those before it that wait for NEXT wait for it, too.
            assert self.query.time_column is not None
            waiting, _ = times_us(rowset.table.column(self.query.time_column))
            first = waiting[rowset.order[rowset.ready[uncertain]]]
            deadline[uncertain] = np.minimum(deadline[uncertain], first + 1)
        return pa.array(deadline, pa.int64(), mask=deadline == never)


def _spans(starts: Int64Array, stops: Int64Array) -> Int64Array:
    """All numbers from each start to its stop, one span behind the other.

    >>> _spans(np.array([0, 5, 7]), np.array([2, 5, 9]))
    array([0, 1, 7, 8])
    """
    lengths = stops - starts
    steps: Int64Array = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return steps
