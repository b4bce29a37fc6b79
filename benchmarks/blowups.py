"""Patterns on which backtracking takes exponential or quadratic time: our time has to be linear in the rows.

One key, where every row may be every label. In half of the cases the last label never holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import trimtab
from benchmarks import measure
from benchmarks.results import Cell, Result, Table, milliseconds, ratio

PATTERNS = ("(A | B)* C", "(A+)+ B", " ".join(["A?"] * 20) + " B", "(A* B*)* C", "PERMUTE(A, B, C, D, E, F)")
_LABELS = "ABCDEF"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run; the time of the last number of rows is compared with that of `compared`."""

    rows: tuple[int, ...]
    compared: int
    rounds: int
    patterns: tuple[str, ...] = PATTERNS


FULL = Sizes((25_000, 50_000, 100_000, 200_000), 50_000, 5)
QUICK = Sizes((50_000, 200_000), 50_000, 2)
TINY = Sizes((50, 200), 50, 1, PATTERNS[:2])  # each takes seconds to compile


def run(sizes: Sizes) -> Result:
    """Measure each pattern on each number of rows."""
    with measure.loading(measure.compiled):
        rows = tuple(_row(pattern, never, sizes) for never in (False, True) for pattern in sizes.patterns)
    compared = f"time({sizes.rows[-1]:,}) / time({sizes.compared:,})"
    table = Table(("pattern", *(f"{count:,} rows" for count in sizes.rows), compared), rows)
    growth = sizes.rows[-1] // sizes.compared
    return Result(
        "Patterns that blow up elsewhere",
        "One key, and every row may be every label. `Z` in place of the last label is one that never holds. Times are"
        " of the whole of `trimtab.evaluate`, with its fixed part; kernels are compiled before.",
        (table,),
        notes=(
            f"{growth} is linear; less is the fixed part of a call.",
            "Where `Z` never holds no match is found, and every start stays open as long as the pattern allows.",
        ),
    )


def query(pattern: str, *, never: bool) -> str:
    """The query; `never` puts a label that never holds in place of the last one.

    >>> query("(A+)+ B", never=True).split("PATTERN ")[1]
    '((A+)+ Z) DEFINE A AS x > 0, Z AS x > 1)'
    """
    used = [label for label in _LABELS if label in pattern.replace("PERMUTE", "")]
    conditions = dict.fromkeys(used, "x > 0")
    if never:
        pattern = "Z".join(pattern.rsplit(used[-1], 1))
        del conditions[used[-1]]
        conditions["Z"] = "x > 1"
    define = ", ".join(f"{label} AS {condition}" for label, condition in conditions.items())
    return (
        f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n, LAST(ts) AS last"
        f" PATTERN ({pattern}) DEFINE {define})"
    )


def rows_of(count: int) -> pa.Table:
    """`count` equal rows."""
    return pa.table({"ts": np.arange(count), "x": np.ones(count, np.int64)})


def _row(pattern: str, never: bool, sizes: Sizes) -> tuple[Cell, ...]:
    sql = query(pattern, never=never)
    inputs = {rows: rows_of(rows) for rows in sizes.rows}
    trimtab.evaluate(sql, {"t": inputs[sizes.rows[0]]})  # compiles
    timings = measure.interleaved(
        {f"{rows}": partial(trimtab.evaluate, sql, {"t": table}) for rows, table in inputs.items()},
        rows=sizes.rows[-1],
        rounds=sizes.rounds,
    )
    written = sql.partition("PATTERN (")[2].partition(") DEFINE")[0].replace(" ".join(["A?"] * 20), "A? A? ... (20)")
    return (
        f"`{written}`",
        *(milliseconds(timing) for timing in timings.values()),
        ratio(timings[f"{sizes.rows[-1]}"], timings[f"{sizes.compared}"]),
    )
