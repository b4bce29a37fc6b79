"""The three laws without Spark: a bottle is cut, placed, merged, crashed and restarted at random, and never shows it.

Keys of queries that may be split are spread over engines and made whole again on the way.

    python -m tests.support.bottle_laws --seeds 0 2000

prints each seed whose answer is another one than `evaluate` gives for the same rows and cuts.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence

import pyarrow as pa

from tests.support.bottle import SLOT_BITS, Bottle
from tests.support.choices import Choices, SeededChoices, between, chance, one_of
from tests.support.laws import bag
from tests.support.stream_cases import EVENT_TIME, StreamCase, a_stream
from trimtab.api.evaluate import evaluate
from trimtab.deciding.placement import Placement, Spread
from trimtab.errors import MatchError, ThreadLimitError
from trimtab.language.compile import compile_query
from trimtab.state.compaction import Merge
from trimtab.worker.engine import distinct
from trimtab.worker.orders import LATE

KEY_GROUPS = 8
MOST_ENGINES = 4


def journey(choices: Choices) -> str:
    """Which query a random life of a random stream gives another answer to; empty: none; "error": as it should be."""
    case = a_stream(choices)
    queries = {f"q{number}": sql for number, sql in enumerate(case.queries)}
    try:
        expected = {name: bag(answer(case, sql)) for name, sql in queries.items()}
    except (MatchError, ThreadLimitError):
        return "error"
    compiled = {
        name: compile_query(sql, {"t": case.table.schema}, event_time=EVENT_TIME) for name, sql in queries.items()
    }
    splittable = [name for name, query in compiled.items() if query.operator.split_obstacle() is None]
    with tempfile.TemporaryDirectory() as folder:
        bottle = Bottle(
            folder,
            queries,
            case.table.schema,
            EVENT_TIME,
            delay_us=case.delay_s * 1_000_000,
            key_groups=KEY_GROUPS,
            slot_bits=one_of(choices, SLOT_BITS, 1, 0),
            keep_original=chance(choices, 25),
            split=[name for name in splittable if chance(choices, 70)],
        )
        _live(choices, bottle, case)
        for name, sql in queries.items():
            # `evaluate` knows no lateness where rows don't wait for each other.
            if bag(bottle.rows(name)) != expected[name] and (case.is_on_time or bottle.plan.queries[name].operator):
                return f"{name} differs: {sql}"
        if case.is_on_time and (bottle.manifest is None or bottle.manifest.late or bottle.rows(LATE).num_rows):
            return "a row was late"
    return ""


def answer(case: StreamCase, sql: str) -> pa.Table:
    """What the query has to give for these rows and cuts; the end of the input is a batch of its own."""
    cuts = [*case.cuts, case.table.num_rows]
    return evaluate(sql, {"t": case.table}, event_time=EVENT_TIME, delay=f"{case.delay_s} seconds", cuts=cuts)


def a_placement(choices: Choices, now: Placement) -> Placement:
    """Another placement, or the same: engines come and go, and groups move."""
    if chance(choices, 30):
        now = now.resized(between(choices, 1, MOST_ENGINES))
    if chance(choices, 40):
        moves = {choices.below(len(now.owner)): choices.below(now.engines) for _ in range(3)}
        now = now.moved(moves)
    return now


def a_spread(choices: Choices, bottle: Bottle, rows: pa.Table, now: Placement) -> Placement:
    """The placement with other keys spread, or the same ones, over some engines."""
    if not bottle.split or chance(choices, 40):
        return now
    slots = distinct(bottle.slots_of(one_of(choices, *bottle.split), rows)).tolist()
    chosen = {one_of(choices, *slots) for _ in range(choices.below(4))} if slots else set()
    engines = [[choices.below(now.engines) for _ in range(3)] for _ in chosen]
    return now.with_spread(Spread.over(slot, own) for slot, own in zip(sorted(chosen), engines, strict=True))


def _live(choices: Choices, bottle: Bottle, case: StreamCase) -> None:
    edges = [0, *case.cuts, case.table.num_rows]
    for start, end in itertools.pairwise(edges):
        placement = a_spread(choices, bottle, case.table, a_placement(choices, bottle.placement))
        bottle.batch(case.table.slice(start, end - start), placement, fails=chance(choices, 20))
        if chance(choices, 40):
            bottle.carry_out(_merges(choices, bottle))
        if chance(choices, 20):
            bottle.restart()
    bottle.batch(
        case.table.slice(0, 0), a_placement(choices, bottle.placement), fails=chance(choices, 20), closing=True
    )


def _merges(choices: Choices, bottle: Bottle) -> list[Merge]:
    query = one_of(choices, *bottle.plan.queries)
    match choices.below(3):
        case 0:
            return bottle.due_merges()
        case 1:
            first = choices.below(KEY_GROUPS)
            return bottle.merge_into_base(query, first, between(choices, first + 1, KEY_GROUPS))
        case _:
            first = choices.below(3)
            return bottle.merge_of_batches(query, first, first + 2 + choices.below(3))


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the laws on the journeys of a range of seeds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 500), metavar=("FROM", "TO"))
    low, high = options.parse_args(arguments).seeds
    counts: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    for seed in range(low, high):
        try:
            found = journey(SeededChoices(seed))
        except Exception as error:
            found = f"raised {type(error).__name__}: {error}"
        kind = {"": "agree", "error": "error"}.get(found, "differ")
        counts[kind] += 1
        if kind == "differ":
            print(f"seed {seed}: {found}", flush=True)  # noqa: T201 - a command
    print(f"{high - low} journeys in {time.monotonic() - began:.0f} s: {dict(counts)}")  # noqa: T201
    return int(counts["differ"] > 0)


if __name__ == "__main__":
    sys.exit(main())
