"""Many queries on one stream give what each gives alone, wherever the stream is cut and whatever happens."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import rules
from tests.engine.test_sharing import ticks
from tests.support.bottle import Bottle
from trimtab.deciding.placement import Placement
from trimtab.engine.columns.watermark import TimeRule

OTHERS = {
    "cheap": "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts "
    "MEASURES A.ts AS began, B.ts AS ended PATTERN (A B) DEFINE B AS B.price > A.price) WHERE symbol < 3",
    "filtered": "SELECT * FROM (SELECT * FROM ticks WHERE volume > 300) MATCH_RECOGNIZE ("
    "PARTITION BY symbol ORDER BY ts MEASURES A.ts AS began, B.price AS price PATTERN (A B) "
    "DEFINE B AS B.price > A.price + 1)",
    "by_price": "SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts, price DESC "
    "MEASURES A.price AS price ALL ROWS PER MATCH PATTERN (A B+) DEFINE B AS B.volume < PREV(B.volume))",
    "sums": "SELECT symbol, SUM(volume) AS volume FROM ticks GROUP BY symbol, window(ts, '2 seconds')",
    "tops": "SELECT symbol, window.start AS began, MAX(price) AS price, COUNT(*) AS n FROM ticks "
    "GROUP BY symbol, window(ts, '3 seconds', '1 second')",
    "sessions": "SELECT symbol, session_window.start AS began, COUNT(*) AS n, MAX(price) AS price FROM ticks "
    "WHERE volume > 300 GROUP BY symbol, session_window(ts, '1 second')",
    "means": "SELECT symbol, ts, price, AVG(price) OVER (PARTITION BY symbol ORDER BY ts "
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS mean FROM ticks",
    "totals": "SELECT symbol, ts, SUM(volume) OVER (PARTITION BY symbol ORDER BY ts "
    "RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW) AS total FROM ticks",
}


def answers(folder: Path, queries: dict[str, str], batches: list[pa.Table], *, moving: bool) -> dict[str, list[str]]:
    """The rows of each query."""
    folder.mkdir()
    named = {name: sql.replace("ticks", "t") for name, sql in queries.items()}
    rule = TimeRule(delay_us=1_000_000)
    bottle = Bottle(str(folder), named, rules.SCHEMA, "ts", rule=rule)
    for number, rows in enumerate(batches):
        bottle.batch(rows, Placement.even(1 + number % 3, 8) if moving else None, deaths=[9] if moving else [])
    bottle.close()
    return {name: sorted(map(str, bottle.rows(name).to_pylist())) for name in queries}


@pytest.mark.parametrize("seed", range(2))
def test_many_queries_give_what_each_gives_alone(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = ticks(rng, 240)
    cuts = [0, *sorted(rng.integers(0, 240, 3).tolist()), 240]
    batches = [table.slice(start, end - start) for start, end in itertools.pairwise(cuts)]
    queries = {each.name: each.sql for each in rules.desk(6)} | OTHERS
    together = answers(tmp_path / "together", queries, batches, moving=True)
    assert sum(map(len, together.values())) > 50
    for name, sql in queries.items():
        assert answers(tmp_path / name, {name: sql}, batches, moving=False) == {name: together[name]}
