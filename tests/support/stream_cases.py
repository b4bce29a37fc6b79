"""Random streams with random queries over them, from a seed or any other choices, for the laws of jobs.

Rows arrive out of order and often tie in time, and then often differ only in where their nulls are. Queries are random
patterns of `query_cases` and a few fixed ones for everything else that a query can be: windows, sessions, OVER, an
operator of a user's, time-outs, filters, plain columns, times of day.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.choices import Choices, SeededChoices, between, chance, one_of, repeat
from tests.support.query_cases import SCHEMA, a_query, a_table
from trimtab.engine.keyed.description import KeyedOperator, operator

EVENT_TIME = "ts"
MOST_DELAY_S = 6
NO_KEY = 3
"""The key of rows whose key would be null: without a key they could not be placed."""

FIXED_QUERIES = {
    "columns": "SELECT k, x, upper(s) AS s FROM t",
    "filter": "SELECT k, ts, x FROM t WHERE x > 1",
    "tumbling": "SELECT k, window.start AS w, COUNT(*) AS n, SUM(x) AS x FROM t GROUP BY k, window(ts, '3 seconds')",
    "sliding": """
        SELECT k2, window.end AS w, COUNT(x) AS n, MAX(y) AS y FROM t WHERE x > 0
        GROUP BY k2, window(ts, '4 seconds', '2 seconds')""",
    "of everything": "SELECT window.end AS w, COUNT(*) AS n FROM t GROUP BY window(ts, '2 seconds')",
    "sessions": "SELECT k, session_window.start AS a, COUNT(*) AS n FROM t GROUP BY k, session_window(ts, '2 seconds')",
    "over rows": """
        SELECT k, ts, x, SUM(x) OVER (PARTITION BY k ORDER BY ts, x ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s
        FROM t""",
    "over time": """
        SELECT k, k2, COUNT(*) OVER
          (PARTITION BY k, k2 ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW) AS n FROM t""",
    "runs": "SELECT * FROM runs_of(TABLE(t) PARTITION BY k ORDER BY ts, least => 1)",
    "no sequel": """
        SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.ts AS ts, COUNT(*) AS n
          AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* TIMEOUT) WITHIN INTERVAL '3' SECOND DEFINE A AS x > 1, B AS x < 2)
        """,
    "rising": """
        SELECT k, n, upper(last) AS last FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
          MEASURES COUNT(*) AS n, LAST(s) AS last PATTERN (A B+) DEFINE B AS B.y >= PREV(B.y)) WHERE n > 1""",
    "two keys": """
        SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k, k2 ORDER BY ts MEASURES FIRST(ts) AS a, SUM(x * 2) AS x
          PATTERN (A{2,3}) WITHIN INTERVAL '5' SECOND DEFINE A AS NOT b OR x + 1 > 1)""",
    "debit and credit": """
        SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.debit AS debit, B.credit AS credit
          AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE B AS B.credit = A.debit)""",
    "numbered": """
        SELECT k, debit, credit, tags, parts, COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n
        FROM t""",
    "hours": """
        SELECT *, HOUR(last) AS last_hour, CAST(last AS STRING) AS text FROM t MATCH_RECOGNIZE (
          PARTITION BY k ORDER BY ts MEASURES HOUR(A.ts) AS hour, CAST(A.ts AS DATE) AS day, MAX(B.ts) AS last
          PATTERN (A B+) DEFINE B AS HOUR(B.ts) = 0 AND B.ts > TIMESTAMP'2026-01-01 00:00:00')""",
}
"""Over tables of `SPARSE_SCHEMA`; only those of `depends_on_ties` depend on the order of rows that tie."""
SPARSE_SCHEMA = pa.schema(
    [
        *SCHEMA,
        ("debit", pa.int64()),
        ("credit", pa.int64()),
        ("tags", pa.map_(pa.string(), pa.int64())),
        ("parts", pa.list_(pa.int64())),
    ]
)
"""The table of the random queries, and columns in which rows that tie often differ in nothing but their nulls."""
_TAGS: tuple[dict[str, int | None] | None, ...] = (None, {}, {"a": 1}, {"a": 2}, {"a": None}, {"a": 1, "b": None})
_PARTS: tuple[list[int | None] | None, ...] = (None, [], [1], [1, None], [None, 1], [None])


def depends_on_ties(sql: str) -> bool:
    """Whether the answer depends on the order of rows that tie in time."""
    return any(word in sql for word in ("MATCH_RECOGNIZE", "runs_of", "ROWS UNBOUNDED"))


@dataclass(frozen=True, slots=True)
class StreamCase:
    """Rows in their order of arrival, where they are cut into batches, and queries over them.

    With `is_on_time` no row is later than the delay allows, however the rows are cut.
    """

    queries: tuple[str, ...]
    table: pa.Table
    cuts: tuple[int, ...]
    delay_s: int
    is_on_time: bool


def random_stream(seed: int) -> StreamCase:
    """The case of a seed.

    >>> random_stream(3).table.column_names
    ['k', 'k2', 'ts', 'x', 'y', 's', 'd', 'b', 'debit', 'credit', 'tags', 'parts']
    """
    return a_stream(SeededChoices(seed))


def a_stream(choices: Choices, *, late: bool = True) -> StreamCase:
    """A case; `late`: rows may also be later than the delay allows."""
    delay_s = between(choices, 0, MOST_DELAY_S)
    is_on_time = not (late and chance(choices, 25))
    rows = _sparse(choices, _with_keys(a_table(choices)))
    table = arriving(choices, rows, delay_s if is_on_time else delay_s + 3)
    cuts = sorted(choices.below(table.num_rows + 1) for _ in repeat(choices, 75, 8))
    queries = [one_of(choices, *FIXED_QUERIES.values()) for _ in repeat(choices, 60, 2)]
    if not queries or chance(choices, 60):
        queries.append(a_query(choices))
    return StreamCase(tuple(queries), table, tuple(cuts), delay_s, is_on_time)


def arriving(choices: Choices, table: pa.Table, most_s: int) -> pa.Table:
    """The rows in order of arrival, if each takes up to `most_s` seconds to arrive.

    Then no row arrives before one that is more than that older.
    """
    times = table.column(EVENT_TIME).to_pylist()
    arrives = [at + datetime.timedelta(seconds=choices.below(most_s + 1)) for at in times]
    order = sorted(range(table.num_rows), key=arrives.__getitem__)
    return table.take(pa.array(order, pa.int64()))


def _with_keys(table: pa.Table) -> pa.Table:
    keys = table.column("k").fill_null(NO_KEY)
    return table.set_column(SCHEMA.get_field_index("k"), SCHEMA.field("k"), keys)


def _sparse(choices: Choices, table: pa.Table) -> pa.Table:
    """The table with columns that are mostly null; of debit and credit one is null in every row."""
    columns: dict[str, list[object]] = {"debit": [], "credit": [], "tags": [], "parts": []}
    for _ in range(table.num_rows):
        pair = one_of(choices, (1, None), (None, 1), (2, None), (None, 2))
        columns["debit"].append(pair[0])
        columns["credit"].append(pair[1])
        columns["tags"].append(one_of(choices, *_TAGS))
        columns["parts"].append(one_of(choices, *_PARTS))
    for name, values in columns.items():
        values = [list(each.items()) if isinstance(each, dict) else each for each in values]
        table = table.append_column(SPARSE_SCHEMA.field(name), pa.array(values, SPARSE_SCHEMA.field(name).type))
    return table


@operator("runs_of")
@dataclass(frozen=True)
class RunsOf(KeyedOperator):
    """The lengths of runs of rows with `x` of at least `least`; a run also ends two seconds after its last row."""

    least: int
    columns = ("ts", "x")
    output = pa.schema([("rows", pa.int64()), ("until", pa.timestamp("us"))])
    state = pa.schema([("rows", pa.int64()), ("until_us", pa.int64())])

    def open(self, snapshot: Any) -> RunLogic:
        """The logic of one key."""
        return RunLogic(self.least, **(snapshot or {}))


@dataclass
class RunLogic:
    """The present run, if there is one."""

    least: int
    rows: int = 0
    until_us: int = 0

    def on_rows(self, rows: pa.Table) -> pa.Table:
        """Go on with the run, or end it."""
        ended: list[dict[str, Any]] = []
        times = rows.column("ts").cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        for at_us, x in zip(times, rows.column("x").to_pylist(), strict=True):
            if self.rows and at_us >= self.until_us:
                self._end(ended)
            if x is not None and x >= self.least:
                self.rows, self.until_us = self.rows + 1, int(at_us) + 2_000_000
            elif self.rows:
                self._end(ended)
        return pa.Table.from_pylist(ended, schema=RunsOf.output)

    def wake_us(self) -> int | None:
        """When the run ends by time."""
        return self.until_us if self.rows else None

    def on_time(self, now_us: int) -> pa.Table:
        """End the run by time."""
        del now_us
        ended: list[dict[str, Any]] = []
        self._end(ended)
        return pa.Table.from_pylist(ended, schema=RunsOf.output)

    def on_close(self) -> pa.Table:
        """End the present run: it counts."""
        ended: list[dict[str, Any]] = []
        if self.rows:
            self._end(ended)
        return pa.Table.from_pylist(ended, schema=RunsOf.output)

    def snapshot(self) -> dict[str, Any] | None:
        """The present run."""
        return {"rows": self.rows, "until_us": self.until_us} if self.rows else None

    def _end(self, ended: list[dict[str, Any]]) -> None:
        until = np.datetime64(self.until_us, "us").astype(datetime.datetime)
        ended.append({"rows": self.rows, "until": until})
        self.rows, self.until_us = 0, 0
