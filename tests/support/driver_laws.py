"""The three laws without Spark: jobs are cut, placed, changed and killed at random, and their answers stay the same.

A random case is a stream with queries over it. Several jobs run over it, each with other placements, merges of
state, spread keys, deaths between any two effects of a batch, and changes of the job's settings.

    python -m tests.support.driver_laws --seeds 0 1000

prints each seed whose answer differs from that of `evaluate` for the same rows and cuts.
"""

from __future__ import annotations

import argparse
import collections
import gc
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence

import pyarrow as pa

from tests.support.bottle import Bottle
from tests.support.bottle_rows import SLOT_BITS
from tests.support.bottle_shell import compiled
from tests.support.choices import Choices, SeededChoices, between, chance, one_of
from tests.support.laws import bag
from tests.support.stream_cases import EVENT_TIME, FIXED_QUERIES, StreamCase, a_stream
from trimtab.api.evaluate import answer
from trimtab.deciding.placement import Placement, Spread
from trimtab.driver import machine
from trimtab.errors import MatchError, ThreadLimitError
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.state.compaction import Merge
from trimtab.worker.orders import LATE
from trimtab.worker.turns import distinct

KEY_GROUPS = 8
MOST_ENGINES = 4
JOBS = 8
"""How many jobs run over a case: writing the kernels of a query takes as long as running three jobs with it."""
MOST_STEPS = 24
"""More effects than a batch has, counted twice: a job may die before and after each."""
BYSTANDER = "bystander"
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Where files cost no time; these laws are not about power cuts."""


def journey(choices: Choices) -> str:
    """The query to which some random job gives another answer; empty: none; "error": it has to fail, and does."""
    case = a_stream(choices)
    queries = {f"q{number}": sql for number, sql in enumerate(case.queries)}
    try:
        expected = {name: bag(_answer(case, sql)) for name, sql in queries.items()}
    except (MatchError, ThreadLimitError):
        return "error"
    edges = itertools.pairwise([0, *case.cuts, case.table.num_rows])
    batches = [case.table.slice(start, end - start) for start, end in edges]
    for _ in range(JOBS):
        found = _job(choices, case, batches, queries, expected)
        if found:
            return found
    return ""


def _answer(case: StreamCase, sql: str) -> pa.Table:
    """What the query has to give for these rows and cuts; the end of the input is a batch of its own."""
    query = compiled(sql, case.table.schema, EVENT_TIME)
    edges = [0, *case.cuts, case.table.num_rows, case.table.num_rows]
    with if_missing(Missing.PLAIN):
        return answer(query, case.table, edges, event_time=EVENT_TIME, delay_us=case.delay_s * 1_000_000)


def _job(
    choices: Choices,
    case: StreamCase,
    batches: Sequence[pa.Table],
    queries: dict[str, str],
    expected: dict[str, list[str]],
) -> str:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        bottle = Bottle(
            folder,
            queries,
            case.table.schema,
            EVENT_TIME,
            delay_us=case.delay_s * 1_000_000,
            key_groups=KEY_GROUPS,
            slot_bits=one_of(choices, SLOT_BITS, 1, 0),
            keep_original=chance(choices, 25),
            split=_some_split(choices, queries, case.table.schema),
        )
        _live(choices, bottle, case, batches, queries)
        for name, sql in queries.items():
            # `evaluate` drops no late rows of queries whose rows don't wait for each other.
            is_keyed = compiled(sql, case.table.schema, EVENT_TIME).operator.is_keyed
            if bag(bottle.rows(name)) != expected[name] and (case.is_on_time or is_keyed):
                return f"{name} differs: {sql}"
        if case.is_on_time and (bottle.manifest is None or bottle.manifest.late or bottle.rows(LATE).num_rows):
            return "a row was late"
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
    return now.with_spread(Spread.over(slot, own) for slot, own in zip(sorted(chosen), engines, strict=True))


def _live(
    choices: Choices, bottle: Bottle, case: StreamCase, batches: Sequence[pa.Table], queries: dict[str, str]
) -> None:
    for rows in batches:
        placement = a_spread(choices, bottle, case.table, a_placement(choices, bottle.placement))
        dies_after = choices.below(MOST_STEPS) if chance(choices, 30) else None

        def when_dead() -> None:
            if case.is_on_time and chance(choices, 60):
                _change(choices, bottle, case, queries)

        bottle.batch(rows, placement, dies_after=dies_after, when_dead=when_dead)
        if chance(choices, 25) and bottle.manifest is not None:
            bottle.carry_out(_merges(choices, bottle))
        if chance(choices, 10):
            bottle.restart()
    placement = a_spread(choices, bottle, case.table, a_placement(choices, bottle.placement))
    bottle.close(placement, dies_after=choices.below(MOST_STEPS) if chance(choices, 40) else None)


def _change(choices: Choices, bottle: Bottle, case: StreamCase, queries: dict[str, str]) -> None:
    """Change the job before it starts again: one query more or less, a longer delay, other splits."""
    others = {BYSTANDER: one_of(choices, *FIXED_QUERIES.values())} if chance(choices, 60) else {}
    delay_us = bottle.delay_us + choices.below(2) * 1_000_000
    changed = queries | others
    bottle.change(changed, delay_us, _some_split(choices, changed, case.table.schema))


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
            return bottle.merge_of_batches(query, first, first + 2 + choices.below(3))


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
    """Try the laws on the journeys of a range of seeds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 500), metavar=("FROM", "TO"))
    low, high = options.parse_args(arguments).seeds
    counts: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(initializer=_begin) as pool:
        for seed, found in pool.imap_unordered(found_by, range(low, high), chunksize=5):
            kind = {"": "agree", "error": "error"}.get(found, "differ")
            counts[kind] += 1
            if kind == "differ":
                print(f"seed {seed}: {found}", flush=True)  # noqa: T201 - a command
    spent_s = time.monotonic() - began
    jobs = JOBS * (high - low - counts["error"])
    print(f"{jobs} jobs in {spent_s:.0f} s, {60 * jobs / spent_s:,.0f} a minute: {dict(counts)}")  # noqa: T201
    return int(counts["differ"] > 0)


if __name__ == "__main__":
    sys.exit(main())
