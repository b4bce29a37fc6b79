"""One simple pattern, the V-shape: the generated kernel compared with a hand-written loop, and evaluate with bytewax.

Everything that is timed finds the same matches, which is checked before.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import trimtab
from benchmarks import measure
from benchmarks.results import Bar, Result, Side, Table, milliseconds, rate, ratio, seconds
from benchmarks.workloads import ticks
from tests.support import reference
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.kernels.interface import Inputs, Outputs
from trimtab.engine.operator import Moment
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of

SQL = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES S.price AS top, LAST(D.price) AS bottom, U.price AS back, U.ts AS ts
  ONE ROW PER MATCH
  PATTERN (S D+ U)
  DEFINE D AS D.price < LAST(D.price, 1) OR (LAST(D.price, 1) IS NULL AND D.price < S.price),
         U AS U.price > LAST(D.price)
)"""

KERNEL_LIMIT = 2.0
BYTEWAX_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run."""

    rows: int
    keys: int
    bytewax_rows: int
    reference_rows: int
    kernel_rounds: int
    rounds: int
    first_use_rounds: int


FULL = Sizes(4_000_000, 10_000, 300_000, 20_000, 25, 7, 3)
QUICK = Sizes(400_000, 10_000, 50_000, 5_000, 10, 3, 1)
TINY = Sizes(3_000, 20, 2_000, 1_000, 1, 1, 0)


def run(sizes: Sizes) -> Result:
    """Measure all of it."""
    table = ticks(sizes.rows, sizes.keys)
    loops = _loops(table, sizes)
    peers = _against_bytewax(table.slice(0, sizes.bytewax_rows), sizes)
    whole = measure.repeated(lambda: _evaluate(table), rows=sizes.rows, rounds=sizes.rounds)
    slow = _reference(table.slice(0, sizes.reference_rows), sizes)
    quickest = min((peers["by row"], peers["by batch"]), key=lambda timing: timing.median_s)
    ours = peers["evaluate"]
    kernel_ratio = ratio(*loops[DEFAULT])
    bytewax_ratio = ratio(quickest, ours)
    few = f"{sizes.bytewax_rows:,}"
    engines = Table(
        ("engine", "rows", "rows/s", "time of evaluate"),
        (
            ("`trimtab.evaluate`, all rows", f"{sizes.rows:,}", rate(whole), ""),
            ("`trimtab.evaluate`", few, rate(ours), "1"),
            ("bytewax, `stateful_flat_map`", few, rate(peers["by row"]), ratio(peers["by row"], ours)),
            ("bytewax, `stateful_batch`", few, rate(peers["by batch"]), ratio(peers["by batch"], ours)),
            ("the reference engine", f"{sizes.reference_rows:,}", rate(slow), ""),
        ),
        "End to end: SQL text and an Arrow table in, an Arrow table out, on one core",
    )
    alone = Table(
        ("memory for the output", "generated kernel", "written by hand", "generated / by hand"),
        tuple(
            (name, milliseconds(generated), milliseconds(hand), ratio(generated, hand))
            for name, (generated, hand) in loops.items()
        ),
        f"The loop alone, over {sizes.rows:,} rows that are in order already",
    )
    return Result(
        "A V-shape",
        f"{sizes.rows:,} ticks of {sizes.keys:,} keys with Zipf(1.0) shares:\n\n```sql\n{SQL}\n```",
        (alone, engines, *_first_use(sizes)),
        (
            Bar(
                f"the generated kernel takes at most 2x the hand-written loop ({DEFAULT})",
                kernel_ratio,
                Side.AT_MOST,
                KERNEL_LIMIT,
            ),
            Bar(
                "evaluate processes at least 10x the rows of bytewax (its faster form), on one core each",
                bytewax_ratio,
                Side.AT_LEAST,
                BYTEWAX_LIMIT,
            ),
        ),
        (
            "The hand-written loop finds the same matches.",
            "The kernel writes its matches into memory that is kept from batch to batch, the hand-written loop into"
            " new arrays: where every call gets fresh pages, the loop pays for them.",
            "bytewax runs one worker in this process, without recovery, from a list of Python values that is made"
            " beforehand, into a list. It keeps its state between batches and could run on many workers; evaluate"
            " reads a whole table. The numbers compare the work per row, not the two systems.",
            "The reference engine is the specification: plain Python, backtracking, never meant to be fast.",
        ),
    )


def _evaluate(table: pa.Table) -> pa.Table:
    return trimtab.evaluate(SQL, {"ticks": table})


# The loop alone ----------------------------------------------------------------------------------


DEFAULT = "the allocator's default"
ALLOCATORS = {
    DEFAULT: {},
    "always fresh pages": {"MALLOC_MMAP_THRESHOLD_": "1000000"},
    "always recycled": {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000"},
}
"""Settings of glibc, which reads them when a process starts; other systems ignore them."""

_LOOPS_SCRIPT = """
import dataclasses, json, sys
from benchmarks import vshape
from benchmarks.measure import use_one_core
from benchmarks.workloads import ticks
use_one_core()
sizes = dataclasses.replace(vshape.FULL, rows=int(sys.argv[1]), keys=int(sys.argv[2]), kernel_rounds=int(sys.argv[3]))
print(json.dumps([timing.seconds for timing in vshape.against_hand_written(ticks(sizes.rows, sizes.keys), sizes)]))
"""


def _loops(table: pa.Table, sizes: Sizes) -> dict[str, tuple[measure.Timing, measure.Timing]]:
    """Time the kernel and the hand-written loop, in a new process for each setting of the allocator."""
    if not sizes.first_use_rounds:
        return {DEFAULT: against_hand_written(table, sizes)}
    against_hand_written(table, dataclasses.replace(sizes, kernel_rounds=1))  # leaves the kernel on disk and loaded
    found = {}
    for name, settings in ALLOCATORS.items():
        generated, hand = _in_new_process(_LOOPS_SCRIPT, settings, sizes.rows, sizes.keys, sizes.kernel_rounds)
        found[name] = (measure.Timing(tuple(generated), sizes.rows), measure.Timing(tuple(hand), sizes.rows))
    return found


def against_hand_written(table: pa.Table, sizes: Sizes) -> tuple[measure.Timing, measure.Timing]:
    """The times of the generated kernel and of the hand-written loop, which have to find the same."""
    from benchmarks.hand_written import find_v_shapes

    kernel, inputs, found = kernel_call(table)
    begins, ends, prices = inputs.rows.firsts, inputs.rows.stops, inputs.columns[-1].values
    order = by_first_appearance(table["symbol"].to_numpy())
    assert np.array_equal(prices, table["price"].to_numpy()[order])
    tops, bottoms, backs = find_v_shapes(begins, ends, prices)
    expected = pa.table(
        {
            "top": prices[tops],
            "bottom": prices[bottoms],
            "back": prices[backs],
            "ts": table["ts"].take(pa.array(order[backs])),
        }
    )
    assert expected.num_rows > 0
    assert expected.sort_by("ts").equals(found.sort_by("ts"))
    timings = measure.interleaved(
        {"generated": lambda: kernel(inputs), "hand": lambda: find_v_shapes(begins, ends, prices)},
        rows=sizes.rows,
        rounds=sizes.kernel_rounds,
    )
    return timings["generated"], timings["hand"]


def kernel_call(table: pa.Table) -> tuple[kernels.Runnable, Inputs, pa.Table]:
    """The kernel as machine code, the arguments of the query's call, and the matches."""
    query = compile_query(SQL, {"ticks": table.schema})
    calls: list[tuple[kernels.Runnable, Inputs]] = []

    def listening(source: str, _rows: int) -> kernels.Runnable:
        kernel = kernels.compiled(source)

        def noted(inputs: Inputs) -> Outputs:
            calls.append((kernel, inputs))
            return kernel(inputs)

        return noted

    with measure.loading(listening):
        output, _ = operator_of(query).advance(query.intake.run(table), {}, Moment(closing=True))
    ((kernel, inputs),) = calls
    return kernel, inputs, query.finish.run(output).select(["top", "bottom", "back", "ts"])


def by_first_appearance(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The indices of rows, key by key, with keys in the order of their first rows.

    >>> by_first_appearance(np.array([7, 3, 7, 3])).tolist()
    [0, 2, 1, 3]
    """
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return np.argsort(first[codes], kind="stable")


# Other engines -----------------------------------------------------------------------------------


def _against_bytewax(table: pa.Table, sizes: Sizes) -> dict[str, measure.Timing]:
    from benchmarks import bytewax_peer

    rows = bytewax_peer.rows_of(table)
    ours = _as_found(_evaluate(table))  # the kernel is machine code in this process already, by `kernel_call`
    assert ours
    assert sorted(bytewax_peer.by_row(rows)) == ours
    assert sorted(bytewax_peer.by_batch(rows)) == ours
    return measure.interleaved(
        {
            "evaluate": lambda: _evaluate(table),
            "by row": lambda: bytewax_peer.by_row(rows),
            "by batch": lambda: bytewax_peer.by_batch(rows),
        },
        rows=table.num_rows,
        rounds=sizes.rounds,
    )


def _as_found(matches: pa.Table) -> list[tuple[str, tuple[Any, ...]]]:
    """Matches in the form of bytewax's, sorted."""
    keys = [str(key) for key in matches["symbol"].to_pylist()]
    plain = matches.set_column(matches.column_names.index("ts"), "ts", matches["ts"].cast(pa.int64()))
    values = (plain[name].to_pylist() for name in ("top", "bottom", "back", "ts"))
    return sorted(zip(keys, zip(*values, strict=True), strict=True))


def _reference(table: pa.Table, sizes: Sizes) -> measure.Timing:
    query = compile_query(SQL, {"ticks": table.schema})
    rows = query.intake.run(table)

    def matched() -> pa.Table:
        assert isinstance(query.operator, MatchQuery)
        return query.finish.run(reference.match_rows(query.operator, rows))

    assert matched().sort_by("ts").equals(_evaluate(table).sort_by("ts"))
    return measure.repeated(matched, rows=table.num_rows, rounds=min(3, sizes.rounds))


# First use ---------------------------------------------------------------------------------------

_FIRST_SCRIPT = """
import json, sys, time
began = time.perf_counter()
import trimtab
imported = time.perf_counter()
from benchmarks.measure import use_one_core
from benchmarks.vshape import SQL
from benchmarks.workloads import ticks
use_one_core()
table = ticks(int(sys.argv[1]), int(sys.argv[2]))
times = [imported - began]
for _ in range(2):
    began = time.perf_counter()
    trimtab.evaluate(SQL, {"ticks": table})
    times.append(time.perf_counter() - began)
print(json.dumps(times))
"""
_FIRST_ROWS = 300_000  # enough rows for the engine to compile


def _first_use(sizes: Sizes) -> tuple[Table, ...]:
    """How long a process takes to its first answer, with nothing compiled and with kernels on disk."""
    times: dict[str, list[float]] = {}
    for _ in range(sizes.first_use_rounds):
        with tempfile.TemporaryDirectory() as folder:
            for cache in ("nothing on disk", "kernel on disk"):
                settings = {"TRIMTAB_CACHE_DIR": folder, "NUMBA_CACHE_DIR": folder}
                imported, first, second = _in_new_process(_FIRST_SCRIPT, settings, _FIRST_ROWS, sizes.keys)
                times.setdefault("import trimtab", []).append(imported)
                times.setdefault(f"first evaluate, {cache}", []).append(first)
                times.setdefault("second evaluate", []).append(second)
    if not times:
        return ()
    return (
        Table(
            ("step", "time"),
            tuple((name, seconds(measure.Timing(tuple(values), _FIRST_ROWS))) for name, values in times.items()),
            f"First use: a new process, {_FIRST_ROWS:,} rows",
        ),
    )


def _in_new_process(script: str, settings: dict[str, str], *arguments: int) -> list[Any]:
    """What a script prints, as JSON."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | settings, check=True, capture_output=True, text=True)
    printed: list[Any] = json.loads(done.stdout)
    return printed
