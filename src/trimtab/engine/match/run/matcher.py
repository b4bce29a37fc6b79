"""The columnar matcher: one MATCH_RECOGNIZE over batches of Arrow columns, resumable after any row.

For each batch it sorts the rows at hand (kept ones and new ones) by key and time, runs the generated kernel over them,
makes output columns of the matches that it reports, and keeps what the live threads still refer to.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.columns.keys import load_machine_code
from trimtab.engine.made_up import made_up
from trimtab.engine.match.compile.program import Program, compile_pattern
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.ir.state_schema import BEGUN, FRONT, NUMBER, ROWS, TAIL
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.kernels.codegen import generate
from trimtab.engine.match.kernels.interface import ERROR_STATE, NO_WATERMARK, KeysBefore, RowRanges, Time
from trimtab.engine.match.kernels.plan import Generated, traits_of
from trimtab.engine.match.run.binding import numbers
from trimtab.engine.match.run.calling import Caller
from trimtab.engine.match.run.keeping import Keeper
from trimtab.engine.match.run.output import Output
from trimtab.engine.match.run.rowset import Rowset, gather, only_of_keys
from trimtab.engine.match.run.threads import Batch, Threads
from trimtab.engine.operator import ARRIVAL, MAX_THREADS, Moment, Operator, Scalar, State
from trimtab.errors import InputError, MatchError, ThreadLimitError
from trimtab.keyed_state import KEYS, PATTERN_COLUMNS


class Matcher(Operator):
    """Runs a `MatchQuery`."""

    def __init__(
        self,
        query: MatchQuery,
        *,
        scalar: Scalar | None = None,
        max_threads: int = MAX_THREADS,
        deterministic: bool = True,
    ) -> None:
        self.query, self.scalar = query, scalar
        self.traits = traits_of(query)
        self.deterministic = deterministic
        self._caller = Caller(query, scalar, max_threads)
        self._work = 0  # rows processed, weighted by what they cost to interpret
        self._observed: tuple[frozenset[str], bool] = (frozenset(), False)
        self._generated: dict[tuple[tuple[frozenset[str], bool], bool], Generated] = {}

    @cached_property
    def program(self) -> Program:
        """The compiled pattern."""
        return compile_pattern(self.query.pattern, self.query.labels)

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Process a batch; return the matches that are decided and the state to carry."""
        rowset = self._rowset(rows, state, moment)
        ranges, keys = self._keys_before(rowset, state.get(KEYS), moment)
        watermark = NO_WATERMARK if moment.watermark_us is None else moment.watermark_us
        time = Time(int(moment.closing), watermark, self._times(rowset))
        data = self._data_traits(rowset)
        generated = self._kernel(data)
        threads = Threads.load(state, generated, rowset, ranges.key_count)
        count = int(np.subtract(ranges.stops, ranges.firsts).sum())
        batch = Batch(rowset, ranges, keys, time, threads, count, is_shared=moment.memo is not None)
        # Many small batches are worth compiling for as well as a large one, and so are rows that many threads read.
        self._work += batch.row_count * (1 + len(self.program.positions) // 8)
        outputs = self._caller.call(generated, batch, self._work)
        if outputs.failure.error == ERROR_STATE:
            # The general kernel left the state, in a configuration that the automaton doesn't have.
            generated = self._kernel(data, deterministic=False)
            outputs = self._caller.call(generated, batch, self._work)
        if outputs.failure.error:
            raise self._caller.error(outputs.failure, rowset.keys)
        output = self._output.table(generated, outputs.matches, rowset, ranges)
        if moment.closing:
            return output, {}
        return output, self._keeper.state(generated, batch, outputs, moment.watermark_us)

    @cached_property
    def _output(self) -> Output:
        return Output(self.query, self.program, self.scalar)

    @cached_property
    def _keeper(self) -> Keeper:
        return Keeper(self.query, self.traits, self.program)

    def warm(self, schema: pa.Schema) -> bool:
        """Load or compile machine code for the usual case, rows without nulls and NaN.

        `schema` is that of the rows to come. To compile takes seconds; afterwards even the smallest batch runs as
        machine code. False: conditions of this query can't be compiled, it is interpreted.
        """
        generated = self._kernel((frozenset(), False))
        if not generated.compiled:
            return False
        kernels.compiled(generated.source)
        load_machine_code()
        before, self._observed = (self._observed, self._work), (frozenset(), False)
        try:
            # As for any batch, so that the types of all arguments are those of any batch.
            self.advance(made_up(schema), {}, Moment(closing=True))
        except (MatchError, ThreadLimitError):
            pass  # made-up rows may have such errors
        finally:
            self._observed, self._work = before
        return True

    # Rows in order -----------------------------------------------------------------------------

    def _rowset(self, rows: pa.Table, state: State, moment: Moment) -> Rowset:
        """The rows at hand: the same object for all queries with these keys, this order, and the same rows kept."""
        query, columns = self.query, self.row_columns
        if moment.memo is None:
            return gather(query, columns, rows, state, moment)
        what = ("rowset", query.partition, query.order, query.time_column, columns, moment.watermark_us, moment.closing)
        return moment.memo.last(
            (*what, only_of_keys(query, rows.schema)),
            [rows.column(name) for name in columns],
            (state.get(KEYS), state.get(ROWS)),
            lambda: gather(query, columns, rows, state, moment),
        )

    @cached_property
    def row_columns(self) -> tuple[str, ...]:
        """The columns of a row that are needed from its arrival to the last match it is in."""
        query = self.query
        names = [*query.partition, *(key.column for key in query.order), *query.keep, *query.columns_read()]
        if query.time_column is not None:
            names.append(query.time_column)
        return tuple(dict.fromkeys([*names, ARRIVAL]))

    def _keys_before(self, rowset: Rowset, kept: pa.Table | None, moment: Moment) -> tuple[RowRanges, KeysBefore]:
        """Each key's rows, and what is known of it; `kept` are the keys of the state."""
        count = len(rowset.lo)
        tails, fronts = rowset.first.copy(), rowset.first.copy()
        numbers_, begun = np.zeros(count, np.int64), np.zeros(count, np.int64)
        if kept is not None and kept.num_rows:
            old = rowset.old_keys
            known = {name: kept.column(name).to_numpy() for name in PATTERN_COLUMNS if name in kept.column_names}
            numbers_[old], begun[old] = known.get(NUMBER, 0), known.get(BEGUN, 0)
            tails[old] -= known.get(TAIL, 0)
            fronts[old] -= known.get(FRONT, 0)
        stops = rowset.hi if moment.closing else np.maximum(rowset.first, rowset.ready - self.traits.lookahead)
        ends = rowset.hi if moment.closing else rowset.ready
        return RowRanges(count, tails, rowset.first, stops, ends), KeysBefore(begun, numbers_, fronts)

    def _times(self, rowset: Rowset) -> Int64Array:
        if self.query.within_us is None or self.query.time_column is None:
            return np.zeros(1, np.int64)
        if rowset.times[1] is not None:
            raise InputError(
                "input.null-time",
                f"column {self.query.time_column} has a null, and WITHIN needs the time of every row",
                "filter such rows out with WHERE",
            )
        return rowset.times_in_order

    # The kernel --------------------------------------------------------------------------------

    def _data_traits(self, rowset: Rowset) -> tuple[frozenset[str], bool]:
        """Which columns have nulls, and whether NaN occurs: kernels are generated without tests that can't be true.

        What was observed once stays, so that batches that differ in it don't need one kernel after another.
        """
        tables = [rowset.new] if rowset.old is None else [rowset.old, rowset.new]
        nullable = frozenset(c for table in tables for c in table.column_names if table.column(c).null_count)
        nan = any(rowset.memo.once(_has_nan, [table.column(c)]) for c in self._columns_read for table in tables)
        self._observed = (self._observed[0] | nullable, self._observed[1] or nan)
        return self._observed

    def _kernel(self, data: tuple[frozenset[str], bool], *, deterministic: bool = True) -> Generated:
        deterministic &= self.deterministic
        if (data, deterministic) not in self._generated:
            self._generated[data, deterministic] = generate(
                self.query, self.program, *data, deterministic=deterministic
            )
        return self._generated[data, deterministic]

    @cached_property
    def _columns_read(self) -> tuple[str, ...]:
        return self.query.columns_read()


def _has_nan(column: pa.Array) -> bool:
    return pa.types.is_floating(column.type) and bool(np.isnan(numbers(column).values).any())
