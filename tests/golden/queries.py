"""Queries of every kind, with every part that an operator can have, and the stream that they read.

`python -m tests.golden.queries` writes their signatures. Do that for new queries only: a job refuses its
checkpoint if the signature of a query has changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import trimtab
from trimtab.engine.keyed.description import Logic, Snapshot
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query

SIGNATURES = Path(__file__).with_name("signatures.json")
SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64(), "x": pa.int64(), "y": pa.float64(), "s": pa.string()})
_MATCH = "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {})"
_OVER = "OVER (PARTITION BY k ORDER BY ts {})"

QUERIES = {
    "plain": "SELECT k, x + 1 AS x FROM t WHERE x > 0",
    "rises": _MATCH.format("MEASURES A.x AS a, B.x AS b PATTERN (A B) DEFINE B AS B.x > A.x"),
    "falls": _MATCH.format(
        """MEASURES FIRST(D.y) AS high, LAST(D.y) AS low, AVG(D.y) AS mean, MATCH_NUMBER() AS n, CLASSIFIER() AS c
           ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST U PATTERN (S (D | {- E -})+? U{2,3})
           DEFINE D AS D.y < PREV(D.y, 1) AND D.x <> 3, E AS E.s LIKE 'a%', U AS SUM(U.x) > 1.5 OR U.s IS NULL"""
    ),
    "orders": _MATCH.format(
        """MEASURES A.x AS x AFTER MATCH SKIP TO NEXT ROW PATTERN (^ PERMUTE(A, B) | C TIMEOUT)
           WITHIN INTERVAL '5' SECOND DEFINE A AS A.x >= 1, B AS B.y > 0, C AS C.x = 0"""
    ),
    "counts": "SELECT k, COUNT(*) AS n, SUM(x) AS x, MAX_BY(s, y) AS s FROM t GROUP BY k, window(ts, '10 seconds')",
    "quantiles": """SELECT k, approx_percentile(y, 0.5) AS y FROM t
        GROUP BY k, window(ts, '10 seconds', '5 seconds', '1 second')""",
    "sessions": "SELECT k, MIN(y) AS y FROM t GROUP BY k, session_window(ts, '3 seconds')",
    "rolling": f"""SELECT k, SUM(x) {_OVER.format("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")} AS three,
        AVG(y) {_OVER.format("RANGE BETWEEN INTERVAL 5 SECONDS PRECEDING AND CURRENT ROW")} AS five,
        LAG(x, 2) {_OVER.format("")} AS before, ROW_NUMBER() {_OVER.format("")} AS n FROM t""",
    "steps": "SELECT k, n FROM golden_steps(TABLE(t) PARTITION BY k ORDER BY ts, every => 2)",
}


class _Steps:
    def __init__(self, every: int, seen: int) -> None:
        self.every, self.seen = every, seen

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        before, self.seen = self.seen, self.seen + rows.num_rows
        passed = range(before // self.every + 1, self.seen // self.every + 1)
        return pa.table({"n": pa.array([number * self.every for number in passed], pa.int64())})

    def snapshot(self) -> Snapshot | None:
        return {"seen": self.seen}


@trimtab.operator("golden_steps")
@dataclass(frozen=True)
class Steps(trimtab.KeyedOperator):
    """A row for every `every` rows of a key."""

    output = pa.schema([("n", pa.int64())])
    state = pa.schema([("seen", pa.int64())])
    every: int = 10

    def open(self, snapshot: Snapshot | None) -> Logic:
        """Count from zero, or go on."""
        return _Steps(self.every, 0 if snapshot is None else snapshot["seen"])


def compiled(sql: str) -> Query:
    """A query over the stream `t`."""
    return compile_query(sql, {"t": SCHEMA}, event_time="ts")


def write_signatures() -> None:
    """Write the signatures of all queries."""
    lines = [f"{json.dumps(name)}: {json.dumps(compiled(sql).signature)}" for name, sql in QUERIES.items()]
    SIGNATURES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_signatures()
