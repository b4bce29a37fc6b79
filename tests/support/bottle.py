"""A job in a bottle: one stream through engines, state files and manifests, without Spark and in one process.

Everything below the driver is the real thing: tier 1 on paper, the engines, their segments, merges and manifests. Rows
reach the engines by a hash of our own, and DuckDB computes their columns. Batches take milliseconds, so a property
test can try hundreds of cuts, placements, merges and crashes.

>>> import datetime, tempfile
>>> dawn = datetime.datetime(2026, 1, 1)
>>> ticks = pa.table({"ts": [dawn + datetime.timedelta(seconds=n) for n in range(6)], "k": [1, 2, 1, 2, 1, 1]})
>>> sql = "SELECT k, COUNT(*) AS n FROM t GROUP BY k, window(ts, '4 seconds')"
>>> with tempfile.TemporaryDirectory() as folder:
...     bottle = Bottle(folder, {"counts": sql}, ticks.schema, "ts")
...     bottle.batch(ticks.slice(0, 3))
...     bottle.batch(ticks.slice(3), Placement.even(2, 8), fails=True)  # its work is lost, and is done again
...     bottle.restart()
...     bottle.close()
...     sorted(tuple(row.values()) for row in bottle.rows("counts").to_pylist())
[(1, 2), (1, 2), (2, 2)]
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from trimtab.deciding.placement import SHARES, Placement, Spread
from trimtab.driver.partials import Merger
from trimtab.engine.columns.binding import times_us
from trimtab.engine.columns.watermark import raised
from trimtab.engine.match.run.matcher import MAX_THREADS
from trimtab.language.compile import compile_query
from trimtab.rowwise.local import IntakeStep
from trimtab.spark.sinks import combine
from trimtab.state import manifest as manifests
from trimtab.state.bundle import GROUP_SHIFT
from trimtab.state.checkpoint import StreamFolders
from trimtab.state.compaction import Merge, plan_merges
from trimtab.state.files import Folder
from trimtab.state.manifest import Manifest, QueryState, Run
from trimtab.state.merging import Merged, Work, run_merge, take_up
from trimtab.state.sweep import sweep
from trimtab.worker.engine import Engine, ready_plan
from trimtab.worker.intake_plan import ORIGINAL, ROUTE, SLOT, plan_intake
from trimtab.worker.orders import LATE, QUARANTINE, EnginePlan, EngineReport, Orders

Int64Array = npt.NDArray[np.int64]

SLOT_BITS = GROUP_SHIFT
JOB, STREAM = "bottle", "t"


class Bottle:
    """One stream `t` with its queries.

    Args:
        folder: An empty folder for the state, or one that a bottle with the same queries left.
        queries: Texts by name.
        schema: Of the stream.
        event_time: The column with the time of each event.
        delay_us: How late rows may come.
        key_groups: Into how many groups keys are hashed.
        slot_bits: How much of a key's hash its slot keeps. Few bits make keys share slots, as on Spark hardly ever.
        max_threads: How many partial matches a key may have under way at once.
        keep_original: Whether late and quarantined rows are kept, and not only counted.
        split: The queries whose keys a placement may spread over engines.
    """

    def __init__(
        self,
        folder: str,
        queries: Mapping[str, str],
        schema: pa.Schema,
        event_time: str,
        *,
        delay_us: int = 0,
        key_groups: int = 8,
        slot_bits: int = SLOT_BITS,
        max_threads: int = MAX_THREADS,
        keep_original: bool = False,
        split: Collection[str] = (),
    ) -> None:
        home = Folder(folder)
        self._folders = StreamFolders(home, home.child("manifests"), home.child("segments"))
        self._folders.make()
        self._outbox = home.child("outbox")
        self._outbox.make()
        self._schema, self._slot_mask, self._keep_original = schema, (1 << slot_bits) - 1, keep_original
        compiled = {name: compile_query(sql, {STREAM: schema}, event_time=event_time) for name, sql in queries.items()}
        self._layout = plan_intake(compiled, schema, event_time, split)
        self.split = tuple(split)
        self._arrived = 0
        self._empty: list[pa.ChunkedArray] | None = None
        self._empty = self._computed(schema.empty_table())
        self._key_groups = key_groups
        self.plan = EnginePlan(
            intake=self._layout,
            queries=compiled,
            schema=self._arriving(schema.empty_table()).schema,
            delay_us=delay_us,
            key_groups=key_groups,
            max_threads=max_threads,
            keep_original=keep_original,
            event_time=event_time,
            spills=frozenset(),
        )
        self._ready = ready_plan(self.plan)
        self._merger = Merger(self.plan)
        self.reports: tuple[EngineReport, ...] = ()  # of the engines, from the last batch
        self._outputs: dict[str, list[pa.Table]] = {name: [] for name in (*queries, LATE, QUARANTINE)}
        self.restart()

    # What happens to it ------------------------------------------------------------------------

    def batch(
        self, rows: pa.Table, placement: Placement | None = None, *, fails: bool = False, closing: bool = False
    ) -> None:
        """Run a batch and commit it; without a placement everything stays where it was.

        `fails`: it is run, its work thrown away, and run again.
        """
        now = placement or self.placement
        if fails:
            self._engines(rows, now, closing)  # segments are written, but no manifest names them
        reports = self._engines(rows, now, closing)
        newest_us = self._newest_us(rows, reports)
        self.reports = tuple(reports)
        reports += self._merger.merge(self._orders(now, closing), reports, newest_us)
        self._commit(reports, now, newest_us, closing)
        self._arrived += rows.num_rows
        for name, gathered in self._outputs.items():
            table, _ = combine([report.outputs[name] for report in reports if name in report.outputs])
            if table is not None:
                gathered.append(table)

    def close(self, placement: Placement | None = None) -> None:
        """The input ends."""
        self.batch(self._schema.empty_table(), placement, closing=True)

    def due_merges(self) -> list[Merge]:
        """The merges that a job would plan now."""
        return [merge for name in self.plan.queries for merge in plan_merges(name, self.runs(name), self._key_groups)]

    def merge_into_base(self, query: str, first_group: int, behind_group: int) -> list[Merge]:
        """A merge of all that is known of some groups, or of a few more if a base run has them together; maybe none."""
        base = [run for run in self.runs(query) if run.is_base]
        own = [run for run in base if run.first_group < behind_group and first_group < run.behind_group]
        first = min([first_group, *(run.first_group for run in own)])
        behind = max([behind_group, *(run.behind_group for run in own)])
        recent = tuple(run for run in self.runs(query) if not run.is_base)
        return [Merge(query, (*recent, *own), first, behind, True, tuple(own))] if recent else []

    def merge_of_batches(self, query: str, first: int, behind: int) -> list[Merge]:
        """A merge of the recent runs of some batches, counted among those there are; maybe none."""
        recent = [run for run in self.runs(query) if not run.is_base]
        sequences = sorted({run.sequence for run in recent})[first:behind]
        base = tuple(run for run in self.runs(query) if run.is_base)
        chosen = tuple(run for run in recent if run.sequence in sequences)
        return [Merge(query, chosen, 0, self._key_groups, False, base)] if len(chosen) > 1 else []

    def carry_out(self, merges: Sequence[Merge]) -> None:
        """Do merges of the last version; the next commit takes them up."""
        assert not self._merged, "a plan of merges is under way"
        assert self.manifest is not None
        known, folder = self.manifest.segments, self._folders.segments
        for merge in merges:
            work = Work(merge, folder, {run.segment: known[run.segment] for run in merge.runs}, "")
            self._merged.append(pickle.loads(pickle.dumps(run_merge(work))))

    def restart(self) -> None:
        """Forget what is in memory, sweep, and go on from the newest manifest."""
        self._merged: list[Merged] = []
        self.manifest: Manifest | None = manifests.newest(self._folders.manifests, job=JOB, stream=STREAM)
        sweep(self._folders, at_start=True)

    # What came of it ---------------------------------------------------------------------------

    @property
    def placement(self) -> Placement:
        """Where key groups are."""
        known = self.manifest
        if known is None:
            return Placement.even(1, self._key_groups)
        return Placement(known.engines, known.placement, tuple(Spread(*each) for each in known.spread))

    def slots_of(self, query: str, rows: pa.Table) -> Int64Array:
        """The slots of rows, by the keys of a query."""
        [route] = [self._layout.routes[each.route] for each in self._layout.readings if each.query == query]
        columns = {each.name: column for each, column in zip(self._layout.columns, self._computed(rows), strict=True)}
        return self._slots([columns[key] for key in route.keys], rows.num_rows)

    def rows(self, query: str) -> pa.Table:
        """All rows that a query gave, or that went to LATE or QUARANTINE."""
        found = self._outputs[query]
        return pa.concat_tables(found) if found else pa.table({})

    def runs(self, query: str) -> tuple[Run, ...]:
        """The runs that hold a query's state."""
        return () if self.manifest is None else self.manifest.queries[query].runs

    # Inside ------------------------------------------------------------------------------------

    def _engines(self, rows: pa.Table, placement: Placement, closing: bool) -> list[EngineReport]:
        arriving = self._arriving(rows)
        engines = self._engine_of(arriving, placement)
        orders = self._orders(placement, closing)
        reports = []
        for number in range(placement.engines):
            own = arriving.filter(pa.array(engines == number))
            report = Engine(orders, self._ready, number).run(own.to_batches())
            reports.append(pickle.loads(pickle.dumps(report)))
        return reports

    def _engine_of(self, arriving: pa.Table, placement: Placement) -> npt.NDArray[np.int32]:
        """The splitter: by key group, and by its share where a key is spread."""
        slots = arriving.column(SLOT).to_numpy()
        engines: npt.NDArray[np.int32] = placement.array()[slots >> SLOT_BITS]
        split = [reading.route for reading in self._layout.split_readings]
        if split and placement.spread:
            own = np.isin(arriving.column(ROUTE).to_numpy(), split) if len(self._layout.routes) > 1 else True
            shares = arriving.column(self._layout.split_readings[0].arrival).to_numpy() % SHARES
            for each in placement.spread:
                engines = np.where(own & (slots == each.slot), np.array(each.engines, np.int32)[shares], engines)
        return engines

    def _arriving(self, rows: pa.Table) -> pa.Table:
        """Tier 1 and the splitter: the rows as they come to the engines."""
        columns = {each.name: column for each, column in zip(self._layout.columns, self._computed(rows), strict=True)}
        numbers = np.arange(rows.num_rows, dtype=np.int64) + self._arrived
        for reading in self._layout.readings:
            columns[reading.arrival] = pa.array(numbers)
            if reading.failed is not None:
                columns[reading.failed] = pa.array(np.zeros(rows.num_rows, np.bool_))
        if self._keep_original:
            columns[ORIGINAL] = pa.chunked_array(rows.to_struct_array().chunks, pa.struct(list(self._schema)))
        table = pa.table(columns)
        copies = []
        for number, route in enumerate(self._layout.routes):
            slots = pa.array(self._slots([table.column(key) for key in route.keys], rows.num_rows))
            copy = table.append_column(SLOT, slots)
            if len(self._layout.routes) > 1:
                copy = copy.append_column(ROUTE, pa.array(np.full(rows.num_rows, number, np.int32)))
            copies.append(copy)
        whole = pa.concat_tables(copies)
        return whole.filter(self._wanted(whole)) if self._layout.is_filtered else whole

    def _computed(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """The columns of tier 1, all of them in one go."""
        if not rows.num_rows and self._empty is not None:
            return self._empty
        wanted = self._layout.columns
        kinds = tuple(pa.null() if each.type is None else each.type for each in wanted)  # of bare columns none counts
        step = IntakeStep(tuple((each.name, each.text) for each in wanted), types=kinds)
        found = step.run(rows)
        return [found.column(each.name) for each in wanted]

    def _slots(self, keys: Sequence[pa.ChunkedArray], rows: int) -> Int64Array:
        values = zip(*(column.to_pylist() for column in keys), strict=True) if keys else [()] * rows
        hashes = np.array([_hash(key) for key in values], np.uint64)
        groups = (hashes % np.uint64(self._key_groups)).astype(np.int64)
        return groups << SLOT_BITS | (hashes >> np.uint64(16)).astype(np.int64) & self._slot_mask

    def _wanted(self, rows: pa.Table) -> pa.Array:
        """Rows that some query wants: the others stay behind, as on Spark."""
        wanted = np.zeros(rows.num_rows, np.bool_)
        for reading in self._layout.readings:
            wanted |= np.asarray(rows.column(reading.wanted).combine_chunks().fill_null(False))
        return pa.array(wanted)

    def _newest_us(self, rows: pa.Table, reports: Sequence[EngineReport]) -> int | None:
        known = [report.newest_us for report in reports if report.newest_us is not None]
        if self._layout.is_filtered and rows.num_rows:
            times, _ = times_us(rows.column(self.plan.event_time))
            known.append(int(times.max()))
        return max(known, default=None)

    def _orders(self, placement: Placement, closing: bool) -> Orders:
        known = self.manifest
        return Orders(
            plan=b"",
            plan_id="",
            batch=0 if known is None else known.batch + 1,
            engines=placement.engines,
            owner=placement.array().tobytes(),
            watermark_us=None if known is None else known.watermark_us,
            previous_watermark_us=None if known is None else known.previous_watermark_us,
            runs={} if known is None else {name: query.runs for name, query in known.queries.items()},
            segments={} if known is None else known.segments,
            folder=self._folders.segments,
            outbox=self._outbox,
            closing=closing,
            spread=placement.spread_slots().tobytes() if self._layout.split_readings else b"",
        )

    def _commit(
        self, reports: Sequence[EngineReport], placement: Placement, newest_us: int | None, closing: bool
    ) -> None:
        known = self.manifest
        batch = 0 if known is None else known.batch + 1
        queries = {
            name: QueryState(
                "", () if closing else (*self._new_runs(name, batch, reports), *self.runs(name)), query.sql
            )
            for name, query in self.plan.queries.items()
        }
        segments = {} if known is None else dict(known.segments)
        segments |= {report.segment.name: report.segment for report in reports if report.segment is not None}
        if not closing:
            queries, files = take_up(queries, self._merged)
            segments |= {file.name: file for file in files}
        self._merged = []
        before_us = None if known is None else known.watermark_us
        named = {run.segment for query in queries.values() for run in query.runs}
        manifest = Manifest(
            job=JOB,
            stream=STREAM,
            batch=batch,
            key_groups=self._key_groups,
            engines=placement.engines,
            placement=placement.owner,
            watermark_us=raised(before_us, newest_us, self.plan.delay_us),
            previous_watermark_us=before_us,
            queries=queries,
            segments={name: file for name, file in segments.items() if name in named},
            events=sum(report.events for report in reports) + (known.events if known else 0),
            late=sum(report.late for report in reports) + (known.late if known else 0),
            quarantined=sum(report.quarantined for report in reports) + (known.quarantined if known else 0),
            closed=closing,
            spread=tuple((each.slot, each.engines) for each in placement.spread),
        )
        manifests.write(self._folders.manifests, manifest)
        self.manifest = manifest

    def _new_runs(self, query: str, batch: int, reports: Sequence[EngineReport]) -> list[Run]:
        found = []
        for report in reports:
            if report.segment is not None and query in report.parts:
                size = report.parts[query]
                run = Run(
                    report.segment.name,
                    query,
                    batch,
                    False,
                    0,
                    self._key_groups,
                    size.slots,
                    size.keys,
                    size.size_bytes,
                )
                found.append(run)
        return found


def _hash(key: tuple[object, ...]) -> int:
    """Equal keys give equal hashes: there is one zero and one NaN."""
    plain = [value + 0.0 if isinstance(value, float) else value for value in key]
    return xxhash.xxh64_intdigest(repr(plain).encode())
