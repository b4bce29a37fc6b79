"""The laws of the columnar matcher as functions, and a soak that tries them on many random cases.

    python -m tests.support.laws --seeds 0 20000

runs every case through the reference, the matcher in one batch, the matcher with random cuts, with one row per batch,
and the general kernel, and prints each seed whose answers differ. `random_case(seed)` makes the case again.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tests.support.query_cases import SCHEMA, Case, random_case
from tests.support.reference import match_rows
from trimtab import testing
from trimtab.engine.columns.order import in_order
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.run.matcher import Matcher
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, State
from trimtab.errors import MatchError, ThreadLimitError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import scalar

PATIENCE = 20_000  # how many ways the reference may try from one row: the worst case takes exponential time


def bag(table: pa.Table) -> list[str]:
    """The rows as sorted texts, without their numbers and dates, which the reference doesn't have."""
    return testing.bag(table.select([name for name in table.column_names if name not in (ARRIVAL, TIME_US)]))


def answer(run: Callable[[], pa.Table]) -> list[str] | str:
    """The bag of rows, or the error that the standard requires; if keys have different errors, any may be the first."""
    try:
        return bag(run())
    except MatchError:
        return "an error"
    except ThreadLimitError as error:  # conditions that depend on the label of every row: as many threads as ways
        raise TimeoutError(str(error)) from error


def matched(matcher: Matcher, rows: pa.Table, cuts: Sequence[int] = ()) -> pa.Table:
    """The matcher's whole output over the rows, cut into batches."""
    state: State = {}
    outputs: list[pa.Table] = []
    edges = [0, *cuts, rows.num_rows]
    for start, end in itertools.pairwise(edges):
        closing = len(outputs) == len(cuts)
        output, state = matcher.advance(rows.slice(start, end - start), state, Moment(None, closing))
        outputs.append(output)
    return pa.concat_tables(outputs)


def compiled(case: Case) -> tuple[MatchQuery, pa.Table]:
    """The engine's query and its input, in the order of the query, so that it can be cut anywhere."""
    query = compile_query(case.sql, {"t": SCHEMA})
    assert isinstance(query.operator, MatchQuery)
    rows = query.intake.run(case.table)
    order = in_order([rows.column(key.column) for key in query.operator.order], query.operator.order)
    if order is not None:
        rows = rows.take(pa.array(order)).drop([ARRIVAL])
        rows = rows.append_column(ARRIVAL, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    return query.operator, rows


def differs(case: Case) -> str:
    """Which law a case breaks; empty: none, "patience" if an engine would take too long."""
    query, rows = compiled(case)
    matcher = Matcher(query, scalar=scalar)
    general = Matcher(query, scalar=scalar, deterministic=False)
    every_row = range(1, rows.num_rows)
    runs: dict[str, Callable[[], pa.Table]] = {
        "reference": lambda: matched(matcher, rows),
        "cuts": lambda: matched(matcher, rows, case.cuts),
        "one row per batch": lambda: matched(matcher, rows, every_row),
        "general kernel": lambda: matched(general, rows),
        "general kernel, cuts": lambda: matched(general, rows, case.cuts),
    }
    try:
        expected = answer(lambda: match_rows(query, rows, scalar=scalar, patience=PATIENCE))
        return next((name for name, run in runs.items() if answer(run) != expected), "")
    except TimeoutError:
        return "patience"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the laws on the cases of a range of seeds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 1000), metavar=("FROM", "TO"))
    low, high = options.parse_args(arguments).seeds
    counts: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    for seed in range(low, high):
        try:
            found = differs(random_case(seed))
        except Exception as error:
            found = f"raised {type(error).__name__}: {error}"
        counts[found.split(":")[0] or "agree"] += 1
        if found not in ("", "patience"):
            print(f"seed {seed}: {found}", flush=True)  # noqa: T201 - a command
        if (seed + 1 - low) % 500 == 0 or seed + 1 == high:
            print(f"{seed + 1 - low} cases in {time.monotonic() - began:.0f} s: {dict(counts)}", flush=True)  # noqa: T201
    return int(any(name not in ("agree", "patience") for name in counts))


if __name__ == "__main__":
    sys.exit(main())
