"""Random streams with random queries over them, from a seed or any other choices, for the laws of jobs.

Rows arrive out of order and often tie in time. Queries are random patterns of `query_cases` and a few fixed ones for
everything else that a query can be: windows, sessions, OVER, a user's operator, time-outs, filters, plain columns.
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
}
"""Over the table `t` of `query_cases.SCHEMA`; only patterns and `runs_of` depend on the order of rows that tie."""


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
    ['k', 'k2', 'ts', 'x', 'y', 's', 'd', 'b']
    """
    return a_stream(SeededChoices(seed))


def a_stream(choices: Choices, *, late: bool = True) -> StreamCase:
    """A case; `late`: rows may also be later than the delay allows."""
    delay_s = between(choices, 0, MOST_DELAY_S)
    is_on_time = not (late and chance(choices, 25))
    table = arriving(choices, _with_keys(a_table(choices)), delay_s if is_on_time else delay_s + 3)
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
