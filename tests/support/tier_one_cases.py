"""Queries and random rows on which tier 1 in the JVM, tier 1 over columns and their plain twins are compared."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pyarrow as pa

from trimtab.deciding.placement import Placement, Spread
from trimtab.engine.columns.watermark import BatchTime
from trimtab.language.compile import compile_query
from trimtab.state.files import Folder
from trimtab.worker.intake import Intake, intake_of
from trimtab.worker.orders import Orders

KEY_GROUPS, ENGINES = 16, 3
DAWN = dt.datetime(2026, 1, 1)
SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "ts": pa.timestamp("us"),
        "x": pa.int64(),
        "p": pa.string(),
        "y": pa.float64(),
        "price": pa.decimal128(12, 2),
        "big": pa.decimal128(30, 4),
        "is_open": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.list_(pa.string()),
        "place": pa.struct({"lat": pa.int32(), "name": pa.string()}),
        "counts": pa.map_(pa.string(), pa.int64()),
    }
)
_RISES = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x
    PATTERN (A B) DEFINE B AS B.x > A.x)"""
_COUNTS = "COUNT(*) AS n FROM t GROUP BY"
_FALLS = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x, B.y AS y
    PATTERN (A B+) DEFINE B AS B.y < A.y - {} AND B.x > PREV(B.x) * 2 AND B.big < A.big * 3)"""
CASES: dict[str, dict[str, str]] = {
    "one": {"rises": _RISES},
    "routes": {"rises": _RISES, "counts": f"SELECT x, {_COUNTS} x, window(ts, '1 hour')", "rows": "SELECT x FROM t"},
    "filtered": {
        "few": "SELECT k, COUNT(*) AS n FROM t WHERE x > 12 GROUP BY k, window(ts, '1 hour')",
        "fewer": "SELECT k, SUM(x) AS n FROM t WHERE x = 3 GROUP BY k, window(ts, '1 hour')",
    },
    "computed": {
        "by parts": "SELECT reverse(p) AS u, MAX(y * 2) AS m FROM t WHERE y > 0"
        " GROUP BY reverse(p), window(ts, '1 hour')",
        "lists": "SELECT k, tags, place, counts, price FROM t",
    },
    "derived": {
        **{f"falls {far}": _FALLS.format(far) for far in (1, 2.5)},
        "wide": "SELECT k, MAX(x * 4611686018427387904) AS m FROM t WHERE y > 0.5 GROUP BY k, window(ts, '1 hour')",
        "both": "SELECT k, MAX(x * 3) AS m, MAX(upper(p)) AS u FROM t GROUP BY k, window(ts, '1 hour')",
    },
    "bare": {"lists": "SELECT k, tags, place, counts, price, at FROM t"},
    "all types": {
        "many": "SELECT p, y, price, big, is_open, day, at, COUNT(*) AS n FROM t"
        " GROUP BY p, y, price, big, is_open, day, at, window(ts, '1 hour')"
    },
    "split": {"hot": "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k, window(ts, '1 hour')"},
    "split twice": {
        "hot": "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k, window(ts, '1 hour')",
        "hot too": "SELECT k, SUM(y) AS s FROM t GROUP BY k, window(ts, '1 hour')",
        "by x": "SELECT x, SUM(y) AS s FROM t GROUP BY x, window(ts, '2 hours')",
        "rises": _RISES,
    },
}
SPLIT = ("hot", "hot too")


def rows_of(count: int, seed: int = 3) -> pa.Table:
    """Rows of a day; some values of each column are null."""
    dice = random.Random(seed)

    def row() -> dict[str, Any]:
        minute = dice.randrange(24 * 60)
        at = DAWN + dt.timedelta(minutes=minute)
        whole: dict[str, Any] = {
            "k": dice.randrange(20),
            "ts": at,
            "x": dice.randrange(15),
            "p": f"p{minute % 4}",
            "y": dice.choice((0.0, -0.0, 1.5, float("nan"), dice.gauss(0, 5))),
            "price": Decimal(dice.randrange(-(10**6), 10**6)).scaleb(-2),
            "big": Decimal(dice.randrange(-(10**25), 10**25)).scaleb(-4),
            "is_open": dice.random() < 0.5,
            "day": at.date(),
            "at": at.replace(tzinfo=dt.UTC),
            "tags": [dice.choice(("a", 'b"', None)) for _ in range(dice.randrange(3))],
            "place": {"lat": dice.randrange(90), "name": dice.choice(("here", None))},
            "counts": [(name, dice.randrange(3)) for name in dice.sample(("a", "b", "c"), dice.randrange(3))],
        }
        return {name: None if dice.random() < 0.05 else value for name, value in whole.items()}

    return pa.Table.from_pylist([row() for _ in range(count)], SCHEMA)


def intake_for(case: str, partition_by: str | None = None, split: Collection[str] = SPLIT) -> Intake:
    """What tier 1 computes for the queries of a case."""
    compiled = {name: compile_query(sql, {"t": SCHEMA}, event_time="ts") for name, sql in CASES[case].items()}
    return intake_of(compiled, SCHEMA, "ts", [name for name in split if name in compiled], partition_by)


def orders_for(time: BatchTime, spread: tuple[Spread, ...] = ()) -> Orders:
    """Orders with a placement that isn't even."""
    placement = Placement.even(ENGINES, KEY_GROUPS).moved({3: 0, 5: 2}).with_spread(spread)
    nowhere = Folder("/nowhere")
    return Orders(
        plan=b"",
        plan_id="",
        batch=0,
        engines=ENGINES,
        owner=placement.array(),
        time=time,
        runs={},
        segments={},
        folder=nowhere,
        outbox=nowhere,
        spread=placement.spread_slots(),
        shares=placement.share_table(),
    )


def bag(rows: pa.Table) -> list[str]:
    """The rows as text, whatever the order of rows and columns."""
    return sorted(map(repr, rows.select(sorted(rows.column_names)).to_pylist()))
