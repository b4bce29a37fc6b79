"""The shell of a bottle: what `spark/pipeline.py` is on Spark, in one process and in milliseconds.

A test may make it die at any effect: see `mortal`.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.bottle_rows import SLOT_BITS, Int64Array, TierOneInBottle
from tests.support.mortal import MortalFolder
from tests.support.plain_splitter import Splitter, arriving_schema
from trimtab.driver.batch_plan import QuerySetup, Setup
from trimtab.driver.combining import combine
from trimtab.driver.happenings import BatchArrived, HandOver
from trimtab.driver.next_version import Identity
from trimtab.driver.partials import Merger
from trimtab.driver.resuming import fingerprint
from trimtab.driver.shell import Ready, Shell, resumed
from trimtab.engine.columns.watermark import TimeRule
from trimtab.engine.operator import MAX_THREADS
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query
from trimtab.language.inline import inlined
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.state.checkpoint import StreamFolders
from trimtab.state.manifest import Manifest
from trimtab.state.merging import Merged
from trimtab.worker.engine import Engine
from trimtab.worker.intake import intake_of
from trimtab.worker.orders import INLINE_BYTES, EnginePlan, EngineReport, Head, Orders
from trimtab.worker.ready import ReadyPlan, ReadyQuery, ready_query

STREAM = "t"
MAX_AHEAD_US = 3_600_000_000
NO_NUMBERS: Int64Array = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Traits:
    """What never changes for a bottle.

    `slot_bits`: see `TierOneInBottle`. `partition_by`: the column that names a row's partition.
    """

    schema: pa.Schema
    event_time: str
    key_groups: int = 8
    slot_bits: int = SLOT_BITS
    partition_by: str | None = None
    inline_bytes: int = INLINE_BYTES


@dataclass
class Outside:
    """What is outside of a job, and stays when it dies: its sinks, which identify batches by their numbers.

    A batch that is written again has to be the same.
    """

    taken: dict[str, dict[int, pa.Table]] = field(default_factory=dict)
    repeated: int = 0  # batches of a query that came again

    def take(self, name: str, number: int, table: pa.Table | None) -> None:
        """Take the rows of a batch."""
        MortalFolder.life.step()
        before = self.taken.setdefault(name, {}).get(number)
        rows = pa.table({}) if table is None else table
        if before is not None:
            same = repr(before.to_pylist()) == repr(rows.to_pylist())  # NaN is NaN here
            assert same, f"batch {number} of {name} was different the first time"
            self.repeated += 1
        self.taken[name][number] = rows
        MortalFolder.life.step()

    def rows(self, name: str) -> pa.Table:
        """All rows of a query, batch after batch."""
        found = [table for _, table in sorted(self.taken.get(name, {}).items()) if table.num_columns]
        return pa.concat_tables(found) if found else pa.table({})


@dataclass(frozen=True, slots=True, eq=False)
class ReadyInBottle(Ready):
    """Queries ready to run, with their operators built, and the tier 1 that computes their rows."""

    engines: ReadyPlan
    tier_one: TierOneInBottle


class BottleShell(Shell):
    """One run of a bottle's job, from a start until it dies."""

    def __init__(self, folders: StreamFolders, known: Manifest | None, traits: Traits, outside: Outside) -> None:
        identity = Identity("bottle", STREAM, folders.incarnation(), traits.key_groups)
        super().__init__(folders, resumed(folders, identity, known))
        self.traits, self.outside = traits, outside
        self.rows, self.numbers = no_rows(traits.schema), NO_NUMBERS
        self.log: Sequence[tuple[pa.Table, Int64Array]] = ()  # what a source of its own has, position by position
        self.reports: tuple[EngineReport, ...] = ()  # of the engines, from the last batch
        self.merged: list[Merged] = []
        self.driver.validate()

    def take(self, arrived: BatchArrived, rows: pa.Table, numbers: Int64Array) -> None:
        """Run a batch; raises DiedError where it dies."""
        self.rows, self.numbers = rows, numbers
        with if_missing(Missing.PLAIN):
            self.run_batch(arrived)

    def make_ready(self, setup: Setup) -> Ready:
        """Compile the queries, and build their operators."""
        cached = _ready(json.dumps(setup.as_json()), self.traits)
        return replace(cached, merger=Merger(cached.plan))  # it remembers the last batch of its job

    def run_engines(self, ready: Ready, orders: Orders) -> tuple[Sequence[EngineReport], Head]:
        """Run the splitter, and then the engines one after another."""
        assert isinstance(ready, ReadyInBottle)
        for part in orders.ranges:  # what the plan says, whatever has arrived since
            [(self.rows, self.numbers)] = self.log[part.start : part.end]
        sent = ready.tier_one.sent(self.rows, self.numbers)
        head, parts = Splitter(ready.plan.intake, orders).split(sent)
        orders, reports = replace(orders, head=head), []
        for number, rows in enumerate(parts):
            report = Engine(orders, ready.engines, number).run(rows.to_batches() if rows.num_rows else [])
            reports.append(pickle.loads(pickle.dumps(report)))
        self.reports = tuple(reports)
        return reports, head

    def hand_over(self, outputs: Sequence[HandOver]) -> None:
        """Give rows to the sinks."""
        for output in outputs:
            table, files = combine(output.outputs)
            large = [pq.read_table(self.folders.outbox.path_of(file)) for file in files]
            whole = table if table is None else pa.concat_tables([table, *(each.cast(table.schema) for each in large)])
            self.outside.take(output.name, output.plan.number, whole)

    def collect_merges(self, known: Manifest | None) -> Sequence[Merged]:
        """The merges that were done since the last batch."""
        del known
        merged, self.merged = self.merged, []
        return merged

    def plan_merges(self, manifest: Manifest) -> None:
        """Do nothing: a test chooses what is merged."""

    def before_commit(self) -> None:
        """Do nothing: there is no other job."""


@lru_cache(maxsize=1000)
def no_rows(schema: pa.Schema) -> pa.Table:
    """The rows of a batch without rows: always the same table, so that tier 1 computes it once."""
    return schema.empty_table()


@lru_cache(maxsize=1000)
def compiled(sql: str, schema: pa.Schema, event_time: str) -> Query:
    """A query over the stream, compiled once."""
    return compile_query(sql, {STREAM: schema}, event_time=event_time)


def setup_of(
    queries: dict[str, str],
    traits: Traits,
    rule: TimeRule,
    split: Sequence[str] = (),
    *,
    keep_original: bool = False,
    max_threads: int = MAX_THREADS,
) -> Setup:
    """The setup of a job with these queries."""
    prints = {name: fingerprint(compiled(sql, traits.schema, traits.event_time)) for name, sql in queries.items()}
    asked = {name: QuerySetup(sql, prints[name], name in split) for name, sql in queries.items()}
    return Setup(traits.event_time, rule, asked, traits.partition_by, MAX_AHEAD_US, max_threads, keep_original)


@lru_cache(maxsize=1000)
def _ready(setup_json: str, traits: Traits) -> ReadyInBottle:
    setup = Setup.from_json(json.loads(setup_json))
    queries = {
        name: inlined(compiled(each.sql, traits.schema, setup.event_time)) for name, each in setup.queries.items()
    }
    split = [name for name, each in setup.queries.items() if each.is_split]
    intake = intake_of(queries, traits.schema, setup.event_time, split, setup.partition_by)
    tier_one = TierOneInBottle(intake, traits.schema, traits.key_groups, traits.slot_bits, setup.keep_original)
    plan = EnginePlan(
        intake=intake,
        queries=queries,
        schema=arriving_schema(tier_one.sent(no_rows(traits.schema), NO_NUMBERS).schema, intake),
        key_groups=traits.key_groups,
        max_threads=setup.max_threads,
        keep_original=setup.keep_original,
        event_time=setup.event_time,
        inline_bytes=traits.inline_bytes,
    )
    ready = {
        name: _ready_query(each.sql, traits.schema, setup.event_time, setup.max_threads)
        for name, each in setup.queries.items()
    }
    return ReadyInBottle(setup, plan, b"", "", Merger(plan), ReadyPlan(plan, ready), tier_one)


@lru_cache(maxsize=1000)
def _ready_query(sql: str, schema: pa.Schema, event_time: str, max_threads: int) -> ReadyQuery:
    """A query with its operator built: most of the time goes into writing its kernels."""
    return ready_query(inlined(compiled(sql, schema, event_time)), max_threads)
