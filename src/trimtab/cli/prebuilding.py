"""Machine code as a part of the installation: all kernels that don't depend on a query, compiled ahead.

Each part does on a few made-up rows what jobs do, so that everything a job would have to compile is compiled. What a
pattern needs in addition is generated from its query, and compiled in a process beside the job.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib.metadata import entry_points

import numpy as np
import pyarrow as pa

from trimtab.api.evaluate import evaluate
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.policy import DEFAULT, Balance
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of
from trimtab.planning.linear_program import missing
from trimtab.planning.registry import POLICIES, solvers_of

_NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_NUMBERS = ("n", "x", "d")
_VALUES = (*_NUMBERS, "s", "b", "at")
_GROUPED = {
    "any": ("count({})", "max({})", "min({})", "first({})", "last({})", "any_value({})", "max_by({}, n)",
            "min_by(x, {})", "collect_list({})", "count(DISTINCT {})", "approx_count_distinct({})", "approx_top_k({})"),
    "numbers": ("sum({})", "avg({})", "stddev({})", "var_pop({})", "approx_percentile({}, 0.5)"),
}  # fmt: skip
_SLIDING = {
    "any": ("count({})", "max({})", "min({})", "first_value({})", "last_value({})", "lag({})"),
    "numbers": ("sum({})", "avg({})", "stddev({})", "var_pop({})"),
}
_FRAMES = (
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN INTERVAL 5 SECONDS PRECEDING AND CURRENT ROW",
)
_PATTERN = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY s ORDER BY ts MEASURES LAST(D.x) AS low, sum(D.n) AS n
    ALL ROWS PER MATCH PATTERN (S D+ U) DEFINE D AS D.x < PREV(D.x), U AS U.x > PREV(U.x))"""


def made_up_rows(rows: int = 24) -> pa.Table:
    """Rows with columns of every kind, some of them null."""
    numbers = list(range(rows))
    return pa.table(
        {
            "ts": pa.array([_NOON + dt.timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")),
            "s": pa.array([None if n % 7 == 3 else f"k{n % 3}" for n in numbers]),
            "n": pa.array([None if n % 5 == 4 else n * n % 11 for n in numbers], pa.int64()),
            "x": pa.array([None if n % 6 == 5 else n * 7 % 5 / 2 for n in numbers], pa.float64()),
            "d": pa.array([Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(12, 2)),
            "b": pa.array([n % 2 == 0 for n in numbers]),
            "at": pa.array([_NOON + dt.timedelta(minutes=n) for n in numbers], pa.timestamp("us", "UTC")),
        }
    )


def _run(sql: str) -> None:
    """Run a query over the rows at once and in three batches, and warm it as a job does."""
    rows = made_up_rows()
    evaluate(sql, {"t": rows}, event_time="ts")
    evaluate(sql, {"t": rows}, event_time="ts", cuts=[7, 15], delay="2 seconds")
    query = compile_query(sql, {"t": rows.schema}, event_time="ts")
    operator_of(query).warm(query.intake.run(rows.slice(0, 0)).schema)


def _calls(of: dict[str, tuple[str, ...]]) -> list[str]:
    """Every function over every kind of column that it takes, each with a name."""
    calls = [call.format(name) for name in _VALUES for call in of["any"]]
    calls += [call.format(name) for name in _NUMBERS for call in of["numbers"]]
    return [f"{call} AS c{number}" for number, call in enumerate(calls)]


def grouped_windows() -> None:
    """GROUP BY window(...), with a slide and without, and session_window(...)."""
    for window in (
        "window(ts, '5 seconds')",
        "window(ts, '6 seconds', '3 seconds')",
        "session_window(ts, '2 seconds')",
    ):
        _run(f"SELECT s, {', '.join(_calls(_GROUPED))} FROM t GROUP BY s, {window}")


def sliding_windows() -> None:
    """Every function OVER every kind of frame."""
    for frame in _FRAMES:
        over = f"OVER (PARTITION BY s ORDER BY ts {frame})"
        calls = [call.replace(" AS ", f" {over} AS ") for call in _calls(_SLIDING) if not call.startswith("lag")]
        _run(f"SELECT s, {', '.join(calls)}, lag(x) OVER (PARTITION BY s ORDER BY ts) AS before FROM t")


def patterns() -> None:
    """What all patterns share: numbering keys, putting rows in order, and running sums along a match."""
    from trimtab.engine.columns.keys import load_machine_code
    from trimtab.engine.match.run.scanning import scan

    load_machine_code()
    for values in (np.zeros(4, np.int64), np.zeros(4, np.float64)):
        scan(0, values, np.ones(4, np.bool_), np.zeros(4, np.int64), np.zeros_like(values))
    evaluate(_PATTERN, {"t": made_up_rows()}, event_time="ts", cuts=[7, 15])


def tier_one() -> None:
    """Hashing rows over Arrow columns."""
    from trimtab.engine.columns.xxhash64 import load_machine_code

    load_machine_code()


def planners(*policies: str) -> None:
    """The planners of a job's balance, as far as their solvers are installed."""
    for policy in policies:
        if not missing(solvers_of(policy)):
            Coordinator(Balance(planner=policy)).warm()


PARTS: dict[str, Callable[[], None]] = {
    "optimising-planner": partial(planners, DEFAULT.planner),  # first, as it takes longest
    "grouped-windows": grouped_windows,
    "sliding-windows": sliding_windows,
    "other-planners": partial(planners, *(policy for policy in POLICIES if policy != DEFAULT.planner)),
    "patterns": patterns,
    "tier-one": tier_one,
}
"""By name, in the order in which they are built."""
PARTS |= {name: part for entry in entry_points(group="trimtab.parts") for name, part in entry.load().items()}
ENGINE_PARTS = ("grouped-windows", "sliding-windows", "patterns", "tier-one")
"""What workers run. A job compiles the other parts in a process beside it, and uses plain planners until then."""
