"""Other shapes of queries, each through `trimtab.evaluate` from SQL text to Arrow table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

import trimtab
from benchmarks import measure
from benchmarks.results import Result, Table, rate, seconds
from benchmarks.workloads import trades


@dataclass(frozen=True, slots=True)
class Shape:
    """A query over `t`; a slow one runs on a `share` of the rows."""

    name: str
    sql: str
    event_time: str | None = None
    share: float = 1.0


def _match(name: str, clauses: str, *, event_time: str | None = None, share: float = 1.0) -> Shape:
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts {clauses})"
    return Shape(name, sql, event_time, share)


_V = """\
MEASURES S.price AS top, LAST(D.price) AS bottom, U.price AS back {rows} PATTERN (S D+ U)
DEFINE D AS D.price < PREV(D.price), U AS U.price > PREV(U.price)"""

SHAPES = (
    _match(
        "a loop, SUM and AVG in MEASURES and DEFINE",
        """MEASURES A.price AS top, COUNT(B.*) AS n, SUM(B.size) AS size, AVG(B.price) AS mean, C.price AS back
        PATTERN (A B+ C)
        DEFINE B AS B.price < A.price AND SUM(B.size) < 5000, C AS C.price > AVG(B.price)""",
    ),
    _match(
        "alternation in a loop",
        """MEASURES A.price AS a, COUNT(B.*) AS fallen, COUNT(C.*) AS large, D.price AS d
        PATTERN (A (B | C)+ D)
        DEFINE B AS B.price < PREV(B.price), C AS C.size > 200, D AS D.price > A.price""",
    ),
    _match(
        "the V-shape, ALL ROWS PER MATCH",
        _V.replace("S.price AS top", "CLASSIFIER() AS label, S.price AS top").format(rows="ALL ROWS PER MATCH"),
    ),
    _match("the V-shape, AFTER MATCH SKIP TO NEXT ROW", _V.format(rows="AFTER MATCH SKIP TO NEXT ROW")),
    _match(
        "absence: no payment WITHIN 10 seconds, TIMEOUT",
        """MEASURES O.ts AS ordered, COUNT(*) AS n PATTERN (O REST* TIMEOUT) WITHIN INTERVAL '10' SECOND
        DEFINE O AS O.kind = 'order', REST AS REST.kind <> 'payment'""",
        event_time="ts",
    ),
    _match(
        "strings across rows",
        """MEASURES FIRST(B.ts) AS began, A.venue AS venue, COUNT(B.*) AS n PATTERN (B+ A)
        DEFINE B AS B.size < 500 AND (LAST(B.venue, 1) IS NULL OR B.venue <> LAST(B.venue, 1)),
               A AS A.venue = LAST(B.venue)""",
    ),
    _match(
        "PERMUTE of three WITHIN a minute",
        """MEASURES A.ts AS a, B.ts AS b, C.ts AS c PATTERN (PERMUTE(A, B, C)) WITHIN INTERVAL '1' MINUTE
        DEFINE A AS A.kind = 'order', B AS B.kind = 'payment', C AS C.kind = 'change'""",
    ),
    _match(
        "a condition by DuckDB on each pair of rows (interpreted)",
        """MEASURES A.ts AS a, B.ts AS b PATTERN (A B)
        DEFINE B AS levenshtein(A.venue, B.venue) <= 2 AND B.price > A.price""",
        share=0.02,
    ),
    Shape(
        "OVER, AVG of the last 100 rows",
        "SELECT symbol, ts, AVG(price) OVER (PARTITION BY symbol ORDER BY ts"
        " ROWS BETWEEN 99 PRECEDING AND CURRENT ROW) AS v FROM t",
    ),
    Shape(
        "OVER, SUM of the last minute",
        "SELECT symbol, ts, SUM(size) OVER (PARTITION BY symbol ORDER BY ts"
        " RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS v FROM t",
    ),
    Shape("OVER, LAG", "SELECT symbol, ts, LAG(price) OVER (PARTITION BY symbol ORDER BY ts) AS v FROM t"),
    Shape(
        "tumbling windows of a minute",
        "SELECT symbol, window.start AS began, COUNT(*) AS n, AVG(price) AS mean, MAX(size) AS largest FROM t"
        " GROUP BY symbol, window(ts, '1 minute')",
    ),
    Shape(
        "sessions with gaps of 5 seconds",
        "SELECT symbol, COUNT(*) AS n, AVG(price) AS mean FROM t GROUP BY symbol, session_window(ts, '5 seconds')",
    ),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run."""

    rows: int
    keys: int
    rounds: int


FULL = Sizes(1_000_000, 10_000, 5)
QUICK = Sizes(100_000, 1_000, 2)
TINY = Sizes(2_000, 20, 1)


def run(sizes: Sizes) -> Result:
    """Measure each shape: the first call, which compiles, and then more calls."""
    table = trades(sizes.rows, sizes.keys)
    rows = []
    for shape in SHAPES:
        part = table.slice(0, max(1, int(sizes.rows * shape.share)))
        found = 0

        def once(shape: Shape = shape, part: pa.Table = part) -> pa.Table:
            nonlocal found
            answer = trimtab.evaluate(shape.sql, {"t": part}, event_time=shape.event_time)
            found = answer.num_rows
            return answer

        first = measure.repeated(once, rows=part.num_rows, rounds=1)
        timing = measure.repeated(once, rows=part.num_rows, rounds=sizes.rounds)
        rows.append((shape.name, f"{part.num_rows:,}", f"{found:,}", seconds(first), seconds(timing), rate(timing)))
    columns = ("shape", "rows in", "rows out", "first call", "later calls", "rows/s")
    return Result(
        "Other shapes",
        f"{sizes.rows:,} trades of {sizes.keys:,} keys with Zipf(1.0) shares, through `trimtab.evaluate`. The queries"
        " are in `benchmarks/shapes.py`.",
        (Table(columns, tuple(rows)),),
        notes=(
            "The first call of a pattern compiles its kernel, which is then kept on disk.",
            "A call that the engine has no code for, and that uses several rows, is computed by DuckDB one row at a"
            " time, and cached by its arguments.",
        ),
    )
