"""The columnar matcher: one MATCH_RECOGNIZE over batches of Arrow columns, resumable behind any row.

A batch's work: put the rows at hand (kept ones and new ones) in order by key and time, run the generated kernel over
them, make output columns of the matches it reports, and keep what the live threads still refer to.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array, is_string, single
from trimtab.engine.columns.keys import load_machine_code
from trimtab.engine.columns.times import times_us
from trimtab.engine.made_up import made_up
from trimtab.engine.match.compile.program import Program, compile_pattern
from trimtab.engine.match.compile.registers import Fold
from trimtab.engine.match.ir.expression import Aggregate, Expr, RowValue
from trimtab.engine.match.ir.query import MatchQuery, Rows, SkipTo
from trimtab.engine.match.ir.state_schema import BEGUN, FRONT, NUMBER, TAIL
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.kernels.bounds import Bounds, computes
from trimtab.engine.match.kernels.codegen import KernelPlan, generate
from trimtab.engine.match.kernels.emit import walk
from trimtab.engine.match.kernels.plan import (
    ERROR_SKIP_FIRST,
    ERROR_SKIP_MISSING,
    ERROR_STATE,
    FIXED,
    KIND_MATCH,
    NO_WATERMARK,
    Generated,
    traits_of,
)
from trimtab.engine.match.run.binding import numbers, ranks
from trimtab.engine.match.run.keeping import Keeper, Left
from trimtab.engine.match.run.paths import Paths, PathSlots, Points
from trimtab.engine.match.run.reading import RowReader
from trimtab.engine.match.run.rowset import Rowset, gather
from trimtab.engine.match.run.slots import Records, slot_column
from trimtab.engine.match.run.threads import Threads
from trimtab.engine.operator import ARRIVAL, MAX_THREADS, TIME_US, Moment, Operator, Scalar, State, is_internal
from trimtab.errors import InputError, MatchError, ThreadLimitError
from trimtab.keyed_state import KEYS
from trimtab.machine_code.policy import Missing, NotCompiledError, if_missing, when_missing


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
        self.query, self.scalar, self.max_threads = query, scalar, max_threads
        self.traits = traits_of(query)
        self.deterministic = deterministic
        self._work = 0  # rows seen, weighed by what they cost to interpret
        self._seen: tuple[frozenset[str], bool] = (frozenset(), False)
        self._generated: dict[tuple[tuple[frozenset[str], bool], bool], KernelPlan] = {}

    @cached_property
    def program(self) -> Program:
        """The compiled pattern."""
        return compile_pattern(self.query.pattern, self.query.labels)

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """Take a batch in; give the matches that are decided and the state to carry."""
        rowset, keys = gather(self.query, self.row_columns, rows, state, moment), state.get(KEYS)
        count = len(rowset.lo)
        generated_for = self._data_traits(rowset)
        plan = self._kernel(generated_for)
        generated = plan.generated
        columns, constants = self._bind(generated, rowset)
        times = self._times(rowset)
        threads = Threads.load(state, generated, rowset, count)
        numbers_ = np.zeros(count, np.int64)
        begun = np.zeros(count, np.int64)
        tail = rowset.first.copy()
        fronts = rowset.first.copy()
        if keys is not None:
            old = keys.num_rows
            numbers_[:old] = keys.column(NUMBER).to_numpy()
            begun[:old] = keys.column(BEGUN).to_numpy()
            tail[:old] -= keys.column(TAIL).to_numpy()
            fronts[:old] -= keys.column(FRONT).to_numpy()
        stop = rowset.hi if moment.closing else np.maximum(rowset.first, rowset.ready - self.traits.lookahead)
        ends = rowset.hi if moment.closing else rowset.ready
        where = (
            count, tail, rowset.first, ends, stop, begun, int(moment.closing),
            NO_WATERMARK if moment.watermark_us is None else moment.watermark_us, times,
        )  # fmt: skip
        rows_to_do = int(np.sum(stop - rowset.first))
        result = self._run(plan, columns, constants, threads, where, numbers_, fronts, rows_to_do)
        if result[-3] == ERROR_STATE:
            # The state was left by the general kernel, in a configuration that the automaton has no name for.
            plan = self._kernel(generated_for, deterministic=False)
            generated = plan.generated
            columns, constants = self._numbers(generated, rowset)
            result = self._run(plan, columns, constants, threads, where, numbers_, fronts, rows_to_do)
        (oi, of, on, pathrow, pathpos, soff, si, sf, so, sn,
         snoff, snrow, snpos, snpar, snn, resume, error, errors, error_key) = result  # fmt: skip
        if error:
            self._fail(error, errors, error_key, rowset.keys)
        width, fwidth = FIXED + len(generated.layout.ints), len(generated.layout.floats)
        fields, float_fields = len(generated.fields), len(generated.float_fields)
        records = Records(
            np.asarray(oi[: on * fields], np.int64).reshape(on, fields),
            np.asarray(of[: on * float_fields], np.float64).reshape(on, float_fields),
            generated.fields,
            generated.float_fields,
        )
        output = self._output(generated, records, pathrow, pathpos, rowset, tail, ends)
        if moment.closing:
            return output, {}
        saved = Threads(
            np.asarray(soff, np.int64),
            np.asarray(si[: sn * width], np.int64).reshape(sn, width),
            np.asarray(sf[: sn * fwidth], np.float64).reshape(sn, fwidth),
            list(so[: sn * len(generated.layout.objects)]) if not generated.compiled else [],
            np.asarray(snoff, np.int64),
            np.stack([np.asarray(a[:snn], np.int64) for a in (snrow, snpos, snpar)], axis=1),
        )
        left = Left(
            saved,
            np.asarray(resume, np.int64),
            tail,
            np.asarray(fronts, np.int64),
            np.asarray(numbers_, np.int64),
            begun,
        )
        return output, self._keeper.state(generated, rowset, left, times, moment.watermark_us)

    @cached_property
    def _keeper(self) -> Keeper:
        return Keeper(self.query, self.traits, self.program)

    def warm(self, schema: pa.Schema) -> bool:
        """Have machine code for the usual case, rows without nulls and NaN, ready in this process.

        `schema` is that of the rows to come. The kernel is loaded from disk, or compiled, which takes seconds; from
        then on the smallest batch uses it. False: conditions of this query can't be compiled, it is interpreted.
        """
        generated = self._kernel((frozenset(), False)).generated
        if not generated.compiled:
            return False
        kernels.compiled(generated.source)
        load_machine_code()
        before, self._seen = (self._seen, self._work), (frozenset(), False)
        try:
            # The same as for any batch, so that the types of all arguments are those of any batch.
            self.advance(made_up(schema), {}, Moment(closing=True))
        except (MatchError, ThreadLimitError):
            pass  # made-up rows may well skip to where they can't
        finally:
            self._seen, self._work = before
        return True

    # Rows in order -----------------------------------------------------------------------------

    @cached_property
    def row_columns(self) -> tuple[str, ...]:
        """The columns of a row that are needed from its arrival to the last match it is in."""
        query = self.query
        names: dict[str, None] = dict.fromkeys((*query.partition, *(k.column for k in query.order), *query.keep))
        exprs = [e for c in query.conditions if c is not None for e in walk(c)]
        exprs += [e for s in query.slots for e in walk(s)]
        for expr in exprs:
            if isinstance(expr, RowValue):
                names.update(dict.fromkeys(s for s in expr.sources if isinstance(s, str)))
        if query.time_column is not None:
            names[query.time_column] = None
        names[ARRIVAL] = None
        return tuple(names)

    def _times(self, rowset: Rowset) -> Int64Array:
        if self.query.within_us is None or self.query.time_column is None:
            return np.zeros(1, np.int64)
        times, nulls = times_us(rowset.table.column(self.query.time_column))
        if nulls is not None:
            raise InputError(
                "input.null-time",
                f"column {self.query.time_column} has a null, and WITHIN needs the time of every row",
                "filter such rows out with WHERE",
            )
        return times[rowset.order]

    # The kernel --------------------------------------------------------------------------------

    def _data_traits(self, rowset: Rowset) -> tuple[frozenset[str], bool]:
        """Which columns hold nulls, and whether NaN occurs: kernels are made without tests that can't be true.

        What was seen once stays: batches that differ in it must not ask for a new kernel again and again.
        """
        table = rowset.table
        nullable = frozenset(c for c in self.row_columns if table.column(c).null_count)
        nan = any(
            pa.types.is_floating(table.schema.field(c).type) and _has_nan(table.column(c)) for c in self._float_columns
        )
        self._seen = (self._seen[0] | nullable, self._seen[1] or nan)
        return self._seen

    def _kernel(self, data: tuple[frozenset[str], bool], *, deterministic: bool = True) -> KernelPlan:
        deterministic &= self.deterministic
        if (data, deterministic) not in self._generated:
            self._generated[data, deterministic] = generate(
                self.query, self.program, *data, deterministic=deterministic
            )
        return self._generated[data, deterministic]

    def _bind(self, generated: Generated, rowset: Rowset) -> tuple[list[tuple[Any, Any]], Any]:
        """The columns as the kernel reads them, and its constants."""
        if generated.compiled:
            return self._numbers(generated, rowset)
        columns = [
            (single(rowset.table.column(name)).take(pa.array(rowset.order)).to_pylist(), ())
            for name in generated.columns
        ]
        return columns, ()

    @cached_property
    def _float_columns(self) -> tuple[str, ...]:
        """The columns whose values are compared, added up or shown: where NaN matters."""
        exprs = [e for c in self.query.conditions if c is not None for e in walk(c)]
        exprs += [e for s in self.query.slots for e in walk(s)]
        names = (s for e in exprs if isinstance(e, RowValue) for s in e.sources if isinstance(s, str))
        return tuple(dict.fromkeys(names))

    def _numbers(self, generated: Generated, rowset: Rowset) -> tuple[list[tuple[Any, Any]], Any]:
        table, order = rowset.table, rowset.order
        text = [c for c in generated.columns if is_string(table.schema.field(c).type)]
        ranked, constants = ranks({c: table.column(c) for c in text}, generated.strings)
        columns = []
        for name in generated.columns:
            bound = ranked[name] if name in ranked else numbers(table.column(name))
            nulls = np.zeros(len(order), np.bool_) if bound.nulls is None else bound.nulls[order]
            # What stands behind a null may be computed with before it is thrown away, and where there is no row the
            # kernel reads at -1 or OUTSIDE, which is -2: that has to be somewhere.
            values = bound.values[order] if len(order) != 1 else np.repeat(bound.values[order], 2)
            columns.append((values, nulls))
        return columns, constants

    def _run(
        self, plan: KernelPlan, columns: list[tuple[Any, Any]], constants: Any, threads: Threads,
        where: tuple[Any, ...], numbers_: Int64Array, fronts: Int64Array, rows: int,
    ) -> tuple[Any, ...]:  # fmt: skip
        generated = plan.generated
        # Many small batches are as good a reason to compile as a large one, and so are rows that many threads meet.
        self._work += rows * (1 + len(self.program.positions) // 8)
        kernel, machine = (
            kernels.load(generated.source, self._work)
            if generated.compiled
            else (kernels.interpret(generated.source), False)
        )
        if machine and not self._fits(generated, columns, threads, where):
            kernel, machine = kernels.interpret(generated.source), False
        count, *arrays = where
        flat = [threads.offsets, threads.ints.ravel(), threads.floats.ravel()]
        nodes = [threads.node_offsets, *(threads.nodes[:, j].copy() for j in range(3))]
        limit = self.max_threads
        # Matches of an automaton can't overlap; other kernels find out how much room they need.
        room = rows // max(1, generated.shortest) if generated.deterministic else rows // 8
        room += len(threads.ints) + count + 1
        sizes = room * len(generated.fields), room * len(generated.float_fields)
        if generated.compiled:
            empty = np.zeros(1, np.int64)
            pairs = [np.ascontiguousarray(a) for pair in columns for a in pair]
            scratch = _scratch.room(*(sizes if machine else (0, 0)))
            arguments = (
                count, *arrays, *flat, empty, *nodes, numbers_, fronts, limit,
                np.asarray(constants, np.int64), empty, 0, *scratch, *plan.tables, *pairs,
            )  # fmt: skip
            if machine:
                try:
                    with if_missing(Missing.COMPILE if when_missing() is Missing.COMPILE else Missing.REFUSE):
                        return kernel(*arguments)  # type: ignore[no-any-return]
                except NotCompiledError:  # there is machine code, but not for these types
                    kernel = kernels.interpret(generated.source)
            kernels.want(generated.source, arguments, self._work)

        def plain(a: Any) -> Any:
            return a.tolist() if isinstance(a, np.ndarray) else a

        number_list, front_list = numbers_.tolist(), fronts.tolist()
        result = kernel(
            count, *(plain(a) for a in arrays), *(plain(a) for a in flat), threads.objects,
            *(plain(a) for a in nodes), number_list, front_list, limit, plain(constants), generated.values,
            self.scalar, [0] * sizes[0], [0.0] * sizes[1], *(plain(a) for a in plan.tables),
            *(plain(a) for pair in columns for a in pair),
        )  # fmt: skip
        numbers_[:], fronts[:] = number_list, front_list
        return result  # type: ignore[no-any-return]

    def _fits(
        self, generated: Generated, columns: list[tuple[Any, Any]], threads: Threads, where: tuple[Any, ...]
    ) -> bool:
        """Whether no number that the kernel computes can leave 64 bits."""
        if not self._computing:
            return True
        _, tail, _, ends, *_ = where
        sums = [FIXED + j for j, r in enumerate(generated.layout.ints) if isinstance(r, Fold) and r.part == "sum"]
        carried = _magnitude(threads.ints[:, sums])

        def column(name: str) -> int:
            return _magnitude(columns[generated.columns.index(name)][0]) if name in generated.columns else 0

        return Bounds(column, int(np.max(ends - tail, initial=0)), carried).fit(self._computing)

    @cached_property
    def _computing(self) -> tuple[Expr, ...]:
        """The conditions and aggregates in which numbers can grow."""
        exprs = [c for c in self.query.conditions if c is not None]
        exprs += [s for s in self.query.slots if isinstance(s, Aggregate)]
        return tuple(expr for expr in exprs if computes(expr))

    def _fail(self, error: int, errors: int, key: int, key_table: pa.Table) -> None:
        found = key_table.slice(key, 1).to_pylist()[0].items()
        name = ", ".join(f"{k}={v!r}" for k, v in found if not is_internal(k)) or "(all rows)"
        skip = self.query.skip
        target = f"{skip.side.value} {skip.name}" if isinstance(skip, SkipTo) else ""
        if error == ERROR_SKIP_FIRST:
            raise MatchError(
                "match.skip-first-row",
                f"AFTER MATCH SKIP TO {target} goes back to the first row of the match, for key {name}",
                "the same match would be found for ever: skip to a later variable, or PAST LAST ROW",
            )
        if error == ERROR_SKIP_MISSING:
            raise MatchError(
                "match.skip-missing",
                f"AFTER MATCH SKIP TO {target}: the match has no row of that variable, for key {name}",
                "skip to a variable that every match has, or PAST LAST ROW",
            )
        raise ThreadLimitError(name, self.max_threads, errors)

    # Output ------------------------------------------------------------------------------------

    def _output(
        self, generated: Generated, records: Records, pathrow: Any, pathpos: Any,
        rowset: Rowset, tail: Int64Array, ends: Int64Array,
    ) -> pa.Table:  # fmt: skip
        reader = RowReader(rowset.table, rowset.order)
        if len(rowset.lo) > 1 and len(records.ints):
            # Matches leave in the order in which they end, over all keys.
            records = records.reordered(rowset.by_time(records.last))
        else:
            records = records.copied()  # columns must not be views of the scratch, which is written over
        if not generated.paths:
            names = [reader.column(c, records.start) for c in self.query.keep]
            slots = [slot_column(s, records, reader) for s in self.query.slots]
            return self._table(
                [*names, *slots, reader.column(ARRIVAL, records.last), self._dated(reader, records)], rowset
            )
        length = records.field("length")
        matched = records.field("kind") == KIND_MATCH
        total = int(length.sum())
        # Paths were written in order of report; the records were just put in order of time.
        begin_old = records.field("begin")
        begin = np.cumsum(length) - length
        inner = np.arange(total) - np.repeat(begin, length) + np.repeat(begin_old, length)
        rows = np.asarray(pathrow, np.int64)[inner]
        positions = np.asarray(pathpos, np.int64)[inner]
        labels = self._position_labels[positions] if total else positions
        key = records.field("key")
        first_row = tail[key] if len(key) else key
        end_row = ends[key] if len(key) else key
        paths = Paths(rows, labels, begin, length, records.number, first_row, end_row)
        points, at = self._points(paths, records, matched, positions)
        slots_of = PathSlots(paths, reader, self.scalar)
        arrays = [reader.column(c, at) for c in self.query.keep]
        unmatched = ~matched[points.match]
        for slot in self.query.slots:
            column = slots_of.column(slot, points)
            if unmatched.any():
                column = column.take(
                    pa.array(np.arange(len(column)), mask=unmatched)
                )  # an unmatched row has no measures
            arrays.append(column)
        dated = self._dated(reader, records).take(pa.array(points.match))
        return self._table([*arrays, reader.column(ARRIVAL, at), dated], rowset)

    def _dated(self, reader: RowReader, records: Records) -> pa.Array:
        """The time of each match's last row."""
        if self.query.time_column is None:
            return pa.nulls(len(records.ints), pa.int64())
        times, nulls = times_us(reader.column(self.query.time_column, records.last))
        return pa.array(times, pa.int64(), mask=nulls)

    def _points(
        self, paths: Paths, records: Records, matched: BoolArray, positions: Int64Array
    ) -> tuple[Points, Int64Array]:
        """The output rows: a point in a match and the row that is shown."""
        matches = np.arange(len(paths.length))
        if self.query.rows is Rows.ONE:
            return Points(matches, paths.length - 1), records.start
        shown = ~self._position_excluded[positions] if len(positions) else np.zeros(0, np.bool_)
        owner = np.repeat(matches, paths.length)
        step = np.arange(len(owner)) - paths.begin[owner]
        alone = paths.length == 0
        if self.query.rows is Rows.ALL_OMIT_EMPTY:
            alone &= ~matched
        match = np.concatenate([owner[shown], matches[alone]])
        steps = np.concatenate([step[shown], np.full(int(alone.sum()), -1)])
        rows = np.concatenate([paths.rows[shown], records.start[alone]])
        order = np.argsort(match, kind="stable")
        return Points(match[order], steps[order]), rows[order]

    @cached_property
    def _position_labels(self) -> Int64Array:
        return np.array([p.label for p in self.program.positions], np.int64)

    @cached_property
    def _position_excluded(self) -> BoolArray:
        return np.array([p.excluded for p in self.program.positions], np.bool_)

    def _table(self, arrays: list[pa.Array], rowset: Rowset) -> pa.Table:
        fields = [rowset.table.schema.field(c).with_nullable(True) for c in self.query.keep]
        fields += [pa.field(f"slot{j}", s.type) for j, s in enumerate(self.query.slots)]
        fields += [pa.field(ARRIVAL, pa.int64()), pa.field(TIME_US, pa.int64())]
        arrays = [single(a) for a in arrays]
        arrays = [a if a.type == f.type else a.cast(f.type, safe=False) for a, f in zip(arrays, fields, strict=True)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


class _Scratch(threading.local):
    """Room for reported matches, kept from batch to batch: fresh memory costs a page fault for every 4 kB.

    Every batch turns its matches into columns before it ends, so the next one may write over them.
    """

    LARGEST = 1 << 25  # numbers kept; room for more is made and given back

    def __init__(self) -> None:
        self.ints = np.empty(0, np.int64)
        self.floats = np.empty(0, np.float64)

    def room(self, ints: int, floats: int) -> tuple[Int64Array, Any]:
        """Arrays of at least these sizes, with anything in them."""
        found_i = self.ints if len(self.ints) >= ints else np.empty(ints, np.int64)
        found_f = self.floats if len(self.floats) >= floats else np.empty(floats, np.float64)
        if ints <= self.LARGEST and floats <= self.LARGEST:
            self.ints, self.floats = found_i, found_f
        return found_i, found_f


_scratch = _Scratch()


def _magnitude(values: npt.NDArray[Any]) -> int:
    """The largest of the numbers without their signs."""
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size and values.dtype.kind != "f" else 0


def _has_nan(column: pa.ChunkedArray) -> bool:
    values = numbers(column).values
    return bool(np.isnan(values).any())
