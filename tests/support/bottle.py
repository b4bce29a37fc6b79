"""A job in a bottle: one stream through driver, engines, state files and manifests, without Spark and in one process.

All of `driver/`, `worker/`, `engine/` and `state/` is the real thing. Around it are a source that repeats the rows of a
batch that wasn't committed, as Spark does, and sinks that identify batches by their numbers. Batches take
milliseconds, so a property test can try hundreds of cuts, placements, merges and deaths.

>>> import datetime, tempfile
>>> dawn = datetime.datetime(2026, 1, 1)
>>> ticks = pa.table({"ts": [dawn + datetime.timedelta(seconds=n) for n in range(6)], "k": [1, 2, 1, 2, 1, 1]})
>>> sql = "SELECT k, COUNT(*) AS n FROM t GROUP BY k, window(ts, '4 seconds')"
>>> with tempfile.TemporaryDirectory() as folder:
...     bottle = Bottle(folder, {"counts": sql}, ticks.schema, "ts")
...     bottle.batch(ticks.slice(0, 3))
...     bottle.batch(ticks.slice(3), Placement.even(2, 8), deaths=[6])  # it dies in the middle
...     bottle.close()
...     sorted(tuple(row.values()) for row in bottle.rows("counts").to_pylist())
[(1, 2), (1, 2), (2, 2)]
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tests.support.bottle_rows import SLOT_BITS, Int64Array
from tests.support.bottle_shell import NO_NUMBERS, BottleShell, Outside, ReadyInBottle, Traits, no_rows, setup_of
from tests.support.mortal import DiedError, MortalFolder
from trimtab.deciding.placement import Placement
from trimtab.driver.batch_plan import Setup
from trimtab.driver.happenings import BatchArrived
from trimtab.engine.columns.watermark import ONLY, Silence, TimeRule
from trimtab.engine.operator import MAX_THREADS
from trimtab.sources.source import Range
from trimtab.state import manifest as manifests
from trimtab.state.checkpoint import StreamFolders
from trimtab.state.compaction import Merge, merges_of_recent, plan_merges
from trimtab.state.manifest import Manifest, StateRun
from trimtab.state.merging import Work, run_merges
from trimtab.state.sweep import sweep
from trimtab.worker.orders import INLINE_BYTES, EngineReport

CLOCK_S = 2_000_000_000.0
"""In 2033: later than all rows, but for those that are meant to be too far ahead."""


TOGETHER = 2
"""How many merges are done together, and write one file."""
NO_DELAY = TimeRule(delay_us=0)


def _nothing() -> None:
    """Do nothing."""


class Bottle:
    """One stream `t` with its queries.

    Args:
        folder: An empty folder for the state, or one that a bottle left.
        queries: Texts by name.
        schema: Of the stream.
        event_time: The column with the time of each event.
        rule: How the watermark follows from the rows; by default no row may be late.
        partition_by: The column that names a row's partition.
        key_groups: Into how many groups keys are hashed.
        slot_bits: How many bits of a key's hash its slot keeps. With few, keys share slots, which is rare on Spark.
        max_threads: How many partial matches a key may have at once.
        keep_original: Whether late and quarantined rows are kept, and not only counted.
        split: The queries whose keys a placement may spread over engines.
        inline_bytes: Larger outputs of an engine are left in files.
        reads_itself: Whether the job reads a source of its own, by positions, and not what Spark has read.
    """

    def __init__(
        self,
        folder: str,
        queries: Mapping[str, str],
        schema: pa.Schema,
        event_time: str,
        *,
        rule: TimeRule = NO_DELAY,
        partition_by: str | None = None,
        key_groups: int = 8,
        slot_bits: int = SLOT_BITS,
        max_threads: int = MAX_THREADS,
        keep_original: bool = False,
        split: Collection[str] = (),
        inline_bytes: int = INLINE_BYTES,
        reads_itself: bool = False,
    ) -> None:
        self._folders = StreamFolders.of(MortalFolder(folder))
        self._folders.make()
        self._traits = Traits(schema, event_time, key_groups, slot_bits, partition_by, inline_bytes)
        self.outside = Outside()
        self._log: list[tuple[pa.Table, Int64Array]] = []  # the rows of each batch, with their numbers
        self._done = 0  # batches that Spark's log has as committed
        self._reads_itself, self._first_of_spark = reads_itself, 0
        self._arrived = 0
        self._epoch = 0  # of the last start
        self.change(queries, rule, split, keep_original=keep_original, max_threads=max_threads)
        self.restart()

    # What a test does to it ------------------------------------------------------------------------

    def change(
        self,
        queries: Mapping[str, str],
        rule: TimeRule,
        split: Collection[str] = (),
        *,
        keep_original: bool = False,
        max_threads: int = MAX_THREADS,
    ) -> None:
        """Change the job's settings from the next start on."""
        self.split, self.rule = tuple(split), rule
        self.setup: Setup = setup_of(
            dict(queries), self._traits, rule, self.split, keep_original=keep_original, max_threads=max_threads
        )

    def read_otherwise(self) -> None:
        """Go on as a job that reads the source itself, if Spark has read so far, and the other way round."""
        self._reads_itself, self._first_of_spark = not self._reads_itself, self._done
        self.restart()

    def batch(
        self,
        rows: pa.Table,
        placement: Placement | None = None,
        *,
        numbers: Int64Array | None = None,
        deaths: Sequence[int] = (),
        when_dead: Callable[[], None] = _nothing,
    ) -> None:
        """Run rows as one batch until it is committed; without a placement the groups stay where they are.

        `numbers`: the rows' numbers in the stream, which break ties; by default they are counted on.
        `deaths`: the job dies after this many steps (see `mortal`), is started again, and dies again. `when_dead` is
        called after the first death.
        """
        if numbers is None:
            numbers = np.arange(self._arrived, self._arrived + rows.num_rows)
        self._log.append((rows, numbers))
        self._arrived += rows.num_rows

        def run() -> None:
            driver = self._shell.driver
            if not self._reads_itself:
                number = self._done - self._first_of_spark
                arrived = BatchArrived(number, False, CLOCK_S, self.setup, placement or self.placement)
                self._shell.take(arrived, rows, numbers)
            elif driver.positions("").get(ONLY, self._done) == self._done:  # else it was committed before the job died
                # More has come since the batch was begun, which isn't in its plan.
                end = self._done + 1 + (driver.unfinished is not None)
                ranges = (Range(ONLY, self._done, end),)
                arrived = BatchArrived(None, False, CLOCK_S, self.setup, placement or self.placement, ranges=ranges)
                self._shell.take(arrived, no_rows(self._traits.schema), NO_NUMBERS)

        self._run(run, deaths, when_dead)
        self._done += 1

    def close(self, placement: Placement | None = None, *, deaths: Sequence[int] = ()) -> None:
        """End the input."""
        self._without_rows(BatchArrived(None, True, CLOCK_S, self.setup, placement or self.placement), deaths)

    def tick(self, silence: Silence, placement: Placement | None = None, *, deaths: Sequence[int] = ()) -> None:
        """Let time pass: a batch without rows, if something is due."""
        if self._shell.driver.is_due(silence, self.setup):
            arrived = BatchArrived(None, False, CLOCK_S, self.setup, placement or self.placement, silence)
            self._without_rows(arrived, deaths)

    def _without_rows(self, arrived: BatchArrived, deaths: Sequence[int]) -> None:
        number = self._shell.driver.next_number

        def run() -> None:
            if self._shell.driver.next_number == number:  # else it was committed before the job died
                self._shell.take(arrived, no_rows(self._traits.schema), NO_NUMBERS)

        self._run(run, deaths)

    def _run(self, work: Callable[[], None], deaths: Sequence[int], when_dead: Callable[[], None] = _nothing) -> None:
        """Do something; the job dies on the way, or while it starts again, as often as `deaths` says."""
        left, is_dead = list(deaths), False
        while True:
            MortalFolder.life.steps_left = left.pop(0) if left else None
            try:
                if is_dead:
                    self.restart()
                    is_dead = False
                work()
                return
            except DiedError:
                is_dead = True
                when_dead()
                when_dead = _nothing
            finally:
                MortalFolder.life.steps_left = None

    def due_merges(self) -> list[Merge]:
        """The merges that a job would plan now."""
        groups = self._traits.key_groups
        return [merge for name in self._known_queries() for merge in plan_merges(name, self.runs(name), groups)]

    def merge_into_base(self, query: str, first_group: int, end_group: int) -> list[Merge]:
        """A merge of all runs for some groups, and for the others of their base runs; maybe none."""
        base = [run for run in self.runs(query) if run.is_base]
        own = [run for run in base if run.first_group < end_group and first_group < run.end_group]
        first = min([first_group, *(run.first_group for run in own)])
        end = max([end_group, *(run.end_group for run in own)])
        recent = tuple(run for run in self.runs(query) if not run.is_base)
        return [Merge(query, (*recent, *own), first, end, True, tuple(own))] if recent else []

    def merge_of_batches(self, query: str, first: int, end: int, pieces: int = 1) -> list[Merge]:
        """Merges of the recent runs of some batches, by their position among those that have runs; maybe none."""
        recent = [run for run in self.runs(query) if not run.is_base]
        sequences = sorted({run.sequence for run in recent})[first:end]
        base = [run for run in self.runs(query) if run.is_base]
        chosen = [run for run in recent if run.sequence in sequences]
        return merges_of_recent(query, chosen, base, self._traits.key_groups, pieces) if len(chosen) > 1 else []

    def carry_out(self, merges: Sequence[Merge], *, deaths: Sequence[int] = ()) -> None:
        """Do merges of the last version; the next commit takes them up, unless the job dies before."""
        assert not self._shell.merged, "earlier merges aren't committed yet"
        assert self.manifest is not None
        known, folder = self.manifest.segments, self._folders.segments
        left = list(merges)

        def run() -> None:
            while left:
                some = [left.pop(0) for _ in left[:TOGETHER]]
                work = [
                    Work(each, folder, {run.segment: known[run.segment] for run in each.runs}, "", self._epoch)
                    for each in some
                ]
                self._shell.merged += pickle.loads(pickle.dumps(run_merges(work)))

        self._run(run, deaths, left.clear)

    def restart(self) -> None:
        """Forget what is in memory, sweep, and go on from the newest manifest."""
        known = manifests.newest(self._folders.manifests)
        self._shell = BottleShell(self._folders, known, self._traits, self.outside)
        self._shell.log = self._log
        self._epoch += 1
        self._shell.epoch = self._epoch
        sweep(self._folders, epoch=self._epoch)

    # What came out ---------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest | None:
        """The last committed version."""
        return self._shell.driver.known

    @property
    def reports(self) -> tuple[EngineReport, ...]:
        """What engines reported of the last batch."""
        return self._shell.reports

    @property
    def placement(self) -> Placement:
        """Where key groups are."""
        return self._shell.driver.placement or Placement.even(1, self._traits.key_groups)

    def slots_of(self, query: str, rows: pa.Table) -> Int64Array:
        """The slots of rows, by the keys of a query."""
        ready = self._shell.make_ready(self.setup)
        assert isinstance(ready, ReadyInBottle)
        return ready.tier_one.slots_of(query, rows)

    def rows(self, query: str) -> pa.Table:
        """All rows that a query gave, or that went to LATE or QUARANTINE."""
        return self.outside.rows(query)

    def runs(self, query: str) -> tuple[StateRun, ...]:
        """The runs that hold a query's state."""
        return () if self.manifest is None else self.manifest.queries[query].runs

    def _known_queries(self) -> list[str]:
        return [] if self.manifest is None else list(self.manifest.queries)
