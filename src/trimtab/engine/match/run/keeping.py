"""The state after a batch: threads, the rows that they refer to, and the rows still to be processed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.columns.times import times_us
from trimtab.engine.match.compile.program import Program
from trimtab.engine.match.compile.registers import START
from trimtab.engine.match.ir.expression import MatchNumber
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.engine.match.ir.state_schema import BEGUN, FRONT, NUMBER, ROWS, TAIL
from trimtab.engine.match.kernels.interface import Outputs
from trimtab.engine.match.kernels.plan import Generated, Traits
from trimtab.engine.match.run.kept import Kept, Later, kept_together
from trimtab.engine.match.run.rowset import Rowset, spans
from trimtab.engine.match.run.threads import Batch, Threads
from trimtab.engine.operator import State
from trimtab.keyed_state import KEYS


@dataclass(frozen=True)
class Keeper:
    """Makes the state of one query."""

    query: MatchQuery
    traits: Traits
    program: Program

    def state(self, generated: Generated, batch: Batch, outputs: Outputs, watermark_us: int | None) -> State:
        """The state after a batch, from what a kernel has given back.

        If other queries work on the same rows, it is made as late as it is read: see `kept.py`.
        """
        rowset, tail = batch.rowset, np.asarray(batch.rows.tails, np.int64)
        resume, numbers, fronts = (np.asarray(each, np.int64) for each in outputs.keys)
        saved = Threads.left(outputs.threads, generated)
        thread_key = saved.keys
        low = np.maximum(tail, resume - self.traits.lookback)
        if generated.paths and len(saved.ints):
            # A path's rows are adjacent, from the first row of the oldest attempt on.
            starts = resume.copy()
            np.minimum.at(starts, thread_key, saved.ints[:, START])
            low = np.maximum(tail, np.minimum(low, starts - self.traits.lookback))
        if self.query.rows is Rows.ALL_WITH_UNMATCHED:
            low = np.minimum(low, fronts)
        # Kept are the last rows of every key, and earlier ones that threads refer to.
        references = generated.row_fields
        pointed = saved.ints[:, references]
        is_kept = np.zeros(len(rowset.order), np.bool_)
        is_kept[spans(low, rowset.hi - low)] = True
        is_kept[pointed[pointed >= 0]] = True
        kept = kept_together(rowset, resume, is_kept) if batch.is_shared else Kept(rowset, resume, is_kept)

        def tables() -> State:
            return self._tables(generated, batch, saved, kept, low, (numbers, fronts), watermark_us)

        return Later(tables, rowset) if batch.is_shared else tables()

    def _tables(
        self,
        generated: Generated,
        batch: Batch,
        saved: Threads,
        kept: Kept,
        low: Int64Array,
        of_keys: tuple[Int64Array, Int64Array],
        watermark_us: int | None,
    ) -> State:
        rowset, resume, (numbers, fronts) = batch.rowset, kept.resume, of_keys
        before, base, thread_key = kept.before, kept.base, saved.keys
        # A state counts rows from the key's first one.
        ints = saved.ints.copy()
        for column in generated.row_fields:
            rows = ints[:, column]
            known = rows >= 0
            ints[known, column] = before[rows[known]] - base[thread_key[known]]
        nodes = saved.nodes.copy()
        if len(nodes):
            nodes[:, 0] = before[nodes[:, 0]] - np.repeat(base, np.diff(saved.node_offsets))
        begun = np.asarray(batch.keys.begun, np.int64) | (resume > rowset.first)
        alive, renumber = kept.counts > 0, kept.numbers  # the rows of threads are kept
        if self._counts_matches or Anchor.START in self.program.uses:
            if self._counts_matches:
                alive = alive | (numbers > 0)
            if Anchor.START in self.program.uses:
                alive = alive | (begun > 0)
            renumber = np.cumsum(alive) - 1
        deadlines = self._deadlines(rowset, saved, resume, np.asarray(batch.time.times), watermark_us)
        of_key = {NUMBER: numbers, BEGUN: begun, TAIL: resume - low, FRONT: resume - fronts}
        keys = kept.keys(alive, deadlines, {name: of_key[name] for name in self._needed_of_keys(generated)})
        threads = replace(saved, ints=ints, nodes=nodes).tables(renumber, generated)
        return {KEYS: keys, ROWS: kept.rows(renumber)} | threads

    def _needed_of_keys(self, generated: Generated) -> tuple[str, ...]:
        """What has to be known of a key besides its deadline."""
        is_needed = {
            NUMBER: self._counts_matches,
            BEGUN: Anchor.START in self.program.uses,
            TAIL: self.traits.lookback > 0 or generated.paths,  # slots read the rows of a path, too
            FRONT: self.query.rows is Rows.ALL_WITH_UNMATCHED,
        }
        return tuple(name for name, needed in is_needed.items() if needed)

    @cached_property
    def _counts_matches(self) -> bool:
        return any(isinstance(expr, MatchNumber) for expr in self.query.expressions())

    def _deadlines(
        self, rowset: Rowset, saved: Threads, resume: Int64Array, times: Int64Array, watermark_us: int | None
    ) -> pa.Array:
        """The watermark at which each idle key has to be visited: a thread times out, or a waiting row gets certain."""
        never = np.iinfo(np.int64).max
        deadline = np.full(len(rowset.lo), never)
        if self.query.within_us is not None:
            keys, starts = saved.keys, saved.ints[:, START]
            if self.traits.sequential:
                # The attempt under way has left no threads: it is repeated from its first row.
                keys = np.flatnonzero(resume < rowset.hi)
                starts = resume[keys]
            ends = times[starts] + self.query.within_us
            if watermark_us is not None:
                # A thread that has timed out and is still there waits for rows, or for the end of the input.
                ends[ends <= watermark_us] = never
            np.minimum.at(deadline, keys, ends)
        uncertain = np.flatnonzero(rowset.ready < rowset.hi)
        if len(uncertain):
            # Rows are in order of time, so the first one decides; earlier rows that wait for NEXT also wait for it.
            assert self.query.time_column is not None
            first, _ = times_us(rowset.column(self.query.time_column, rowset.ready[uncertain]))
            deadline[uncertain] = np.minimum(deadline[uncertain], first + 1)
        return pa.array(deadline, pa.int64(), mask=deadline == never)
