"""The three laws without Spark: jobs are cut, placed, changed and killed at random, and their answers stay the same.

A random case is a stream with queries over it. Several jobs run over it, each with other placements, merges of
state, spread keys, deaths between any two effects of a batch, and changes of the job's settings.

    python -m tests.support.driver_laws --seeds 0 1000

prints each seed whose answer differs from that of `evaluate` for the same rows and cuts. `--minutes 5` draws new seeds
for that long, from a random one on or from `--seed`.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import gc
import itertools
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tests.support.bottle import Bottle
from tests.support.bottle_rows import SLOT_BITS, Int64Array
from tests.support.bottle_shell import compiled
from tests.support.choices import Choices, SeededChoices, between, chance, one_of
from tests.support.laws import bag
from tests.support.spreads import spread_over
from tests.support.stream_cases import EVENT_TIME, FIXED_QUERIES, StreamCase, a_stream
from trimtab.api.evaluate import answer
from trimtab.deciding.placement import Placement
from trimtab.driver import machine
from trimtab.engine.columns.watermark import Silence, TimeRule
from trimtab.errors import MatchError, ThreadLimitError
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.state.compaction import Merge
from trimtab.worker.orders import INLINE_BYTES, LATE
from trimtab.worker.sorting_out import distinct

KEY_GROUPS = 8
MOST_ENGINES = 3
JOBS = 32
"""How many jobs run over a case: its kernels, its columns and the answers to compare with take as long as five jobs."""
FEW_STEPS, MANY_STEPS = 16, 60
"""More steps than a usual batch has, and than any batch has: a job may die before and after each effect."""
BYSTANDER = "bystander"
PARTITION_BY = "k"
MOST_UNEVEN = 6
"""After this many batches the rest is read in one, if partitions are read at different speeds."""
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where files cost no time; these laws are not about power cuts."""


def journey(choices: Choices, jobs: int = JOBS) -> str:
    """The query to which some random job gives another answer; empty: none; "error": it has to fail, and does."""
    case = a_stream(choices)
    queries = {f"q{number}": sql for number, sql in enumerate(case.queries)}
    try:
        expected = {name: bag(_answer(case, sql)) for name, sql in queries.items()}
    except (MatchError, ThreadLimitError):
        return "error"
    in_order = _in_order_of_arrival(case)
    uneven = _partition_by_partition(choices, case) if case.is_on_time else in_order
    quiet: dict[int, ByBatch] = {}
    for _ in range(jobs):
        reading = uneven if chance(choices, 30) else in_order  # the same tables: their columns are computed once
        if id(reading) not in quiet:
            quiet[id(reading)] = _quiet_job(case, reading, queries)
        found = _job(choices, case, reading, queries, expected, quiet[id(reading)])
        if found:
            return found
    return ""


@dataclass(frozen=True)
class Reading:
    """How a job reads a case: batches of rows with their numbers, and the column that names their partition.

    `ends`: after how many batches each partition is read to its end.
    """

    batches: Sequence[tuple[pa.Table, Int64Array]]
    rule: TimeRule
    partition_by: str | None = None
    ends: Mapping[str, int] = field(default_factory=dict)


def _in_order_of_arrival(case: StreamCase) -> Reading:
    edges = [0, *case.cuts, case.table.num_rows]
    batches = [
        (case.table.slice(start, end - start), np.arange(start, end)) for start, end in itertools.pairwise(edges)
    ]
    return Reading(batches, TimeRule(case.delay_s * 1_000_000))


def _partition_by_partition(choices: Choices, case: StreamCase) -> Reading:
    """Each key is a partition: some are read far ahead of others, as from a backlog."""
    names = [str(key) for key in case.table.column(PARTITION_BY).to_pylist()]
    left = {name: [row for row, other in enumerate(names) if other == name] for name in sorted(set(names))}
    batches: list[tuple[pa.Table, Int64Array]] = []
    ends: dict[str, int] = {}
    while any(left.values()):
        taken: list[int] = []
        for name, rows in left.items():
            count = choices.below(len(rows) + 1) if len(batches) < MOST_UNEVEN else len(rows)
            taken += rows[:count]
            del rows[:count]
            if not rows:
                ends.setdefault(name, len(batches) + 1)
        batches.append((case.table.take(pa.array(taken, pa.int64())), np.array(taken, np.int64)))
    listed = tuple(left) if chance(choices, 50) else ()
    rule = TimeRule(case.delay_s * 1_000_000, listed, max(1, len(left)))
    return Reading(batches, rule, PARTITION_BY, ends)


def _answer(case: StreamCase, sql: str) -> pa.Table:
    """What the query has to give for these rows and cuts; the end of the input is a batch of its own."""
    query = compiled(sql, case.table.schema, EVENT_TIME)
    edges = [0, *case.cuts, case.table.num_rows, case.table.num_rows]
    with if_missing(Missing.PLAIN):
        return answer(query, case.table, edges, event_time=EVENT_TIME, delay_us=case.delay_s * 1_000_000)


ByBatch = dict[tuple[str, int], list[str]]
"""What came out, by query and batch."""


def _quiet_job(case: StreamCase, reading: Reading, queries: dict[str, str]) -> ByBatch:
    """What comes out of each batch with one engine, if nothing ever happens."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        by = reading.partition_by
        bottle = Bottle(folder, queries, case.table.schema, EVENT_TIME, rule=reading.rule, partition_by=by)
        for rows, numbers in reading.batches:
            bottle.batch(rows, numbers=numbers)
        bottle.close()
        return _by_batch(bottle, queries)


def _by_batch(bottle: Bottle, queries: dict[str, str]) -> ByBatch:
    taken = bottle.outside.taken
    return {(name, n): bag(rows) for name in queries for n, rows in taken.get(name, {}).items() if rows.num_rows}


def _job(
    choices: Choices,
    case: StreamCase,
    reading: Reading,
    queries: dict[str, str],
    expected: dict[str, list[str]],
    quiet: ByBatch,
) -> str:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        bottle = Bottle(
            folder,
            queries,
            case.table.schema,
            EVENT_TIME,
            rule=reading.rule,
            partition_by=reading.partition_by,
            key_groups=KEY_GROUPS,
            slot_bits=one_of(choices, SLOT_BITS, 1, 0),
            keep_original=chance(choices, 25),
            inline_bytes=0 if chance(choices, 10) else INLINE_BYTES,
            split=_some_split(choices, queries, case.table.schema),
            reads_itself=chance(choices, 50),
        )
        setup, (ahead, ticks) = bottle.setup, _live(choices, bottle, case, reading, queries)
        for name, sql in queries.items():
            # `evaluate` drops no late rows of queries whose rows don't wait for each other.
            is_keyed = compiled(sql, case.table.schema, EVENT_TIME).operator.is_keyed
            if bag(bottle.rows(name)) != expected[name] and (case.is_on_time or is_keyed):
                return f"{name} differs: {sql}"
        # Another delay, or time that passes without rows, decides things in other batches.
        if bottle.setup == setup and not ticks and _by_batch(bottle, queries) != quiet:
            return "the same rows came in other batches"
        if case.is_on_time and (bottle.manifest is None or bottle.manifest.late or bottle.rows(LATE).num_rows):
            return "a row was late"
        # Rows that no query wants are set aside no more than others are.
        if bottle.manifest is not None and bottle.manifest.quarantined > ahead:
            return f"{bottle.manifest.quarantined} rows are in quarantine, and {ahead} are too far ahead"
    return ""


def _some_split(choices: Choices, queries: dict[str, str], schema: pa.Schema) -> list[str]:
    able = [
        name for name, sql in queries.items() if compiled(sql, schema, EVENT_TIME).operator.split_obstacle() is None
    ]
    return [name for name in able if chance(choices, 70)]


def a_placement(choices: Choices, now: Placement) -> Placement:
    """Another placement, or the same: engines are added and removed, and groups move."""
    if chance(choices, 30):
        now = now.resized(between(choices, 1, MOST_ENGINES))
    if chance(choices, 40):
        moves = {choices.below(len(now.owner)): choices.below(now.engines) for _ in range(3)}
        now = now.moved(moves)
    return now


def a_spread(choices: Choices, bottle: Bottle, rows: pa.Table, now: Placement) -> Placement:
    """The placement with other keys spread, or the same ones, over some engines."""
    if not bottle.split:
        return now.with_spread(())
    if chance(choices, 40):
        return now
    slots = distinct(bottle.slots_of(one_of(choices, *bottle.split), rows)).tolist()
    chosen = {one_of(choices, *slots) for _ in range(choices.below(4))} if slots else set()
    engines = [[choices.below(now.engines) for _ in range(3)] for _ in chosen]
    return now.with_spread(spread_over(slot, own) for slot, own in zip(sorted(chosen), engines, strict=True))


def _live(
    choices: Choices, bottle: Bottle, case: StreamCase, reading: Reading, queries: dict[str, str]
) -> tuple[int, int]:
    """Run the job to its end; returns how many rows too far ahead were put in between, and how often time passed."""
    ahead = ticks = 0
    for number, (rows, numbers) in enumerate(reading.batches):
        if rows.num_rows and chance(choices, 3):
            ahead += 1
            rows, numbers = _with_one_ahead(rows), np.append(numbers, -1)
        placement = a_spread(choices, bottle, case.table, a_placement(choices, bottle.placement))

        def when_dead() -> None:
            if case.is_on_time and chance(choices, 60):
                _change(choices, bottle, case, queries)

        bottle.batch(rows, placement, numbers=numbers, deaths=some_deaths(choices), when_dead=when_dead)
        if chance(choices, 25) and bottle.manifest is not None:
            bottle.carry_out(_merges(choices, bottle), deaths=some_deaths(choices, 10))
        if chance(choices, 10):
            bottle.restart()
        # Where only the number of partitions is known, the watermark waits for all of them once more.
        if chance(choices, 5) and (reading.partition_by is None or reading.rule.partitions):
            bottle.read_otherwise()
        if chance(choices, 10):
            idle = frozenset(name for name, end in reading.ends.items() if end <= number + 1)
            ticks += 1
            bottle.tick(Silence(idle), deaths=some_deaths(choices))
    if case.is_on_time and chance(choices, 30):
        ticks += 1
        everything = frozenset(bottle.manifest.newest_us) if bottle.manifest is not None else frozenset()
        bottle.tick(Silence(everything, is_unseen_idle=True, quiet_us=choices.below(10) * 1_000_000))
    placement = a_spread(choices, bottle, case.table, a_placement(choices, bottle.placement))
    bottle.close(placement, deaths=some_deaths(choices, 40))
    return ahead, ticks


def some_deaths(choices: Choices, percent: int = 30) -> list[int]:
    """After how many steps the job dies, and after how many of the next start again."""
    deaths: list[int] = []
    while chance(choices, percent) and len(deaths) < 3:
        deaths.append(choices.below(FEW_STEPS if chance(choices, 80) else MANY_STEPS))
    return deaths


def _with_one_ahead(rows: pa.Table) -> pa.Table:
    """The rows, and the last one once more, with a time that is too far ahead of the clock."""
    at = pa.array([datetime.datetime(2099, 1, 1)], rows.schema.field(EVENT_TIME).type)
    last = rows.slice(rows.num_rows - 1)
    return pa.concat_tables([rows, last.set_column(rows.column_names.index(EVENT_TIME), EVENT_TIME, at)])


def _change(choices: Choices, bottle: Bottle, case: StreamCase, queries: dict[str, str]) -> None:
    """Change the job before it starts again: one query more or less, a longer delay, other splits and sinks."""
    others = {BYSTANDER: one_of(choices, *FIXED_QUERIES.values())} if chance(choices, 60) else {}
    rule = replace(bottle.rule, delay_us=bottle.rule.delay_us + choices.below(2) * 1_000_000)
    changed = queries | others
    splits = _some_split(choices, changed, case.table.schema)
    bottle.change(changed, rule, splits, keep_original=chance(choices, 25))


def _merges(choices: Choices, bottle: Bottle) -> list[Merge]:
    assert bottle.manifest is not None
    query = one_of(choices, *bottle.manifest.queries)
    match choices.below(3):
        case 0:
            return bottle.due_merges()
        case 1:
            first = choices.below(KEY_GROUPS)
            return bottle.merge_into_base(query, first, between(choices, first + 1, KEY_GROUPS))
        case _:
            first = choices.below(3)
            return bottle.merge_of_batches(query, first, first + 2 + choices.below(3), one_of(choices, 1, 1, 3))


def _begin() -> None:
    machine.VALIDATES = True
    gc.freeze()  # modules stay: to look at them again and again takes a tenth of the time
    gc.set_threshold(50_000)


def found_by(seed: int) -> tuple[int, str]:
    """A seed, and what is wrong with its journey."""
    try:
        return seed, journey(SeededChoices(seed))
    except Exception as error:
        return seed, f"raised {type(error).__name__}: {error}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the laws on the journeys of a range of seeds, or of new seeds for some minutes."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 500), metavar=("FROM", "TO"))
    options.add_argument("--minutes", type=float, help="draw seeds until this time is over, instead of a range")
    options.add_argument("--seed", type=int, help="the first one with --minutes; by default a random one")
    asked = options.parse_args(arguments)
    seeds: Iterable[int] = range(*asked.seeds)
    until = math.inf
    if asked.minutes is not None:
        first = random.randrange(1 << 32) if asked.seed is None else asked.seed
        print(f"seeds from {first} on, for {asked.minutes:g} minutes", flush=True)  # noqa: T201 - a command
        seeds, until = itertools.count(first), time.monotonic() + 60 * asked.minutes
    with multiprocessing.get_context("spawn").Pool(initializer=_begin) as pool:
        return count_jobs(pool.imap_unordered(found_by, seeds), until)


def count_jobs(results: Iterable[tuple[int, str]], until: float = math.inf) -> int:
    """Print what was found for each seed, and at the end the number of jobs; 1 if a seed differs.

    `until`: the time, on the monotonic clock, at which to stop. What is under way then is not counted.
    """
    counts: collections.Counter[str] = collections.Counter()
    differing: list[int] = []
    began = time.monotonic()
    for seed, found in results:
        kind = {"": "agree", "error": "error"}.get(found, "differ")
        counts[kind] += 1
        if kind == "differ":
            differing.append(seed)
            print(f"seed {seed}: {found}", flush=True)  # noqa: T201
        if time.monotonic() > until:
            break
    spent_s = time.monotonic() - began
    jobs = JOBS * (counts["agree"] + counts["differ"])
    print(f"{jobs} jobs in {spent_s:.0f} s, {60 * jobs / spent_s:,.0f} a minute: {dict(counts)}")  # noqa: T201
    if differing:
        print(f"seeds that differ: {', '.join(map(str, sorted(differing)))}")  # noqa: T201
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
