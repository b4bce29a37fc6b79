"""The laws of the columnar matcher as functions, and a soak that tries them on many random cases.

    python -m tests.support.laws --seeds 0 20000

runs every case through the reference, the matcher in one batch, the matcher with random cuts, with one row per batch,
and the general kernel, and prints each seed whose answers differ. `random_case(seed)` makes the case again.

    python -m tests.support.laws --machine-code --seeds 0 100

compiles the kernels of every case, which takes seconds, and holds machine code equal to the interpreter.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from tests.support.query_cases import SCHEMA, Case, random_case
from tests.support.reference import match_rows
from trimtab import testing
from trimtab.engine.columns.order import in_order
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.kernels.interface import Inputs, Outputs
from trimtab.engine.match.run.matcher import Matcher
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, State
from trimtab.errors import MatchError, ThreadLimitError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import scalar
from trimtab.machine_code.missing import Missing, if_missing

PATIENCE = 20_000  # how many ways the reference may try from one row: the worst case takes exponential time
MOST_LINES = 600
"""Larger kernels are interpreted only: one of 1,400 lines takes more than five minutes to compile, and 2 GB."""
HARMLESS = ("", "patience", "interpreted")
"""What a law says of a case that doesn't break it."""


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


def differs_as_machine_code(case: Case, *, deterministic: bool = True) -> str:
    """Where machine code gives another answer than the interpreter; empty: nowhere, "interpreted": there is none.

    `deterministic` False forbids the automaton, as `Matcher` does: its kernel and the general one are different code.
    """
    query, rows = compiled(case)
    interpreter, machine = (Matcher(query, scalar=scalar, deterministic=deterministic) for _ in range(2))
    is_compiled = False
    # The whole table first: a matcher that has seen the nulls of all rows needs no other kernels when they are cut.
    for name, cuts in {"whole": (), "cuts": case.cuts, "one row per batch": range(1, rows.num_rows)}.items():
        with _kernels_as(lambda _source, _rows: None):
            expected = _exactly(interpreter, rows, cuts)
        ran: list[str] = []
        with _kernels_as(partial(_noting, ran)):
            found = _exactly(machine, rows, cuts)
        is_compiled |= bool(ran)
        if found != expected:
            return f"{name}: {found} instead of {expected}"
    return "" if is_compiled else "interpreted"


def _exactly(matcher: Matcher, rows: pa.Table, cuts: Sequence[int]) -> str:
    """The rows in their order, with all digits of their numbers, or the error."""
    try:
        output = matched(matcher, rows, cuts)
    except (MatchError, ThreadLimitError) as error:
        return f"{type(error).__name__}: {error}"
    return f"{output.schema.names} {[tuple(row.values()) for row in output.to_pylist()]}"


@contextmanager
def _kernels_as(load: Callable[[str, int], kernels.Runnable | None]) -> Iterator[None]:
    """Inside the block this function finds the machine code of a kernel; without any it is interpreted."""
    with pytest.MonkeyPatch.context() as patch, if_missing(Missing.COMPILE):
        patch.setattr(kernels, "load", load)
        yield


def _noting(ran: list[str], source: str, _rows: int) -> kernels.Runnable | None:
    """The kernel, which puts itself on a list when it runs: numbers that may not fit 64 bits are interpreted."""
    if source.count("\n") > MOST_LINES:
        return None
    kernel = kernels.compiled(source)

    def noted(inputs: Inputs) -> Outputs:
        ran.append(source)
        return kernel(inputs)

    return noted


def both_kernels_differ(case: Case) -> str:
    """`differs_as_machine_code` for the kernel that jobs run, and for the general one."""
    usual = differs_as_machine_code(case)
    return usual or differs_as_machine_code(case, deterministic=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the laws on the cases of a range of seeds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", nargs=2, type=int, default=(0, 1000), metavar=("FROM", "TO"))
    options.add_argument("--machine-code", action="store_true", help="hold machine code equal to the interpreter")
    asked = options.parse_args(arguments)
    if not asked.machine_code:
        return _soak(differs, *asked.seeds, report_every=500)
    with tempfile.TemporaryDirectory() as folder:  # nobody needs these kernels again
        os.environ["TRIMTAB_CACHE_DIR"] = folder
        return _soak(both_kernels_differ, *asked.seeds, report_every=10)


def _soak(law: Callable[[Case], str], low: int, high: int, *, report_every: int) -> int:
    counts: collections.Counter[str] = collections.Counter()
    began = time.monotonic()
    for seed in range(low, high):
        try:
            found = law(random_case(seed))
        except Exception as error:
            found = f"raised {type(error).__name__}: {error}"
        kernels._COMPILED.clear()  # or a soak would keep them all
        counts[found.split(":")[0] or "agree"] += 1
        if found not in HARMLESS:
            print(f"seed {seed}: {found}", flush=True)  # noqa: T201 - a command
        if (seed + 1 - low) % report_every == 0 or seed + 1 == high:
            print(f"{seed + 1 - low} cases in {time.monotonic() - began:.0f} s: {dict(counts)}", flush=True)  # noqa: T201
    return int(any(name not in ("agree", *HARMLESS) for name in counts))


if __name__ == "__main__":
    sys.exit(main())
