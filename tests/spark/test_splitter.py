"""The splitter and the heads in the JVM agree with their plain twins."""

from __future__ import annotations

import datetime
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.plain_splitter import Splitter, slot_of
from tests.support.spreads import spread_over
from trimtab.deciding.placement import Placement, Spread
from trimtab.engine.columns.watermark import ONLY, BatchTime, StreamTime, TimeRule
from trimtab.language.compile import compile_query
from trimtab.spark import heads
from trimtab.spark.settings import copy_for_jobs, on_session
from trimtab.spark.tier_one import TierOne
from trimtab.state.files import Folder
from trimtab.worker.intake import ROUTE, SLOT, Intake, intake_of
from trimtab.worker.orders import Head, Orders

KEY_GROUPS, ENGINES = 16, 3
DAWN = datetime.datetime(2026, 1, 1)
SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "x": pa.int64(), "p": pa.string()})
HOUR_US = 3_600_000_000
PARTITIONS = ("p0", "p1", "p2", "p3")
PLAIN = {
    "rises": """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x
        PATTERN (A B) DEFINE B AS B.x > A.x)"""
}
ROUTES = PLAIN | {
    "counts": "SELECT x, COUNT(*) AS n FROM t GROUP BY x, window(ts, '1 hour')",
    "rows": "SELECT k, x + 1 AS y FROM t",
}
FILTERED = {
    "few": "SELECT k, COUNT(*) AS n FROM t WHERE x > 12 GROUP BY k, window(ts, '1 hour')",
    "fewer": "SELECT k, SUM(x) AS n FROM t WHERE x = 3 GROUP BY k, window(ts, '1 hour')",
}
SPLIT = {"counts": "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k, window(ts, '1 hour')"}


def table(rows: int = 300) -> pa.Table:
    """Rows of a day, some without a time, a key or a partition."""
    draw = np.random.default_rng(3)

    def some(values: list[Any]) -> list[Any]:
        return [None if draw.random() < 0.05 else value for value in values]

    minutes = draw.integers(0, 24 * 60, rows)
    return pa.table(
        {
            "k": some(draw.integers(0, 20, rows).tolist()),
            "ts": some([DAWN + datetime.timedelta(minutes=int(minute)) for minute in minutes]),
            "x": some(draw.integers(0, 15, rows).tolist()),
            "p": some([f"p{int(minute) % 4}" for minute in minutes]),
        },
        schema=SCHEMA,
    )


def stream_of(spark: Any, rows: pa.Table) -> Any:
    """The rows as Spark gives a batch's."""
    made = spark.createDataFrame(rows.to_pylist(), "k bigint, ts timestamp_ntz, x bigint, p string")
    return on_session(made, copy_for_jobs(spark))


def orders(time: BatchTime, spread: tuple[Spread, ...] = ()) -> Orders:
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


def at_engines(frame: Any, tier_one: TierOne, given: Orders) -> tuple[Head, list[pa.Table]]:
    """The head, and what arrives at each engine."""
    shuffle = tier_one.shuffle(frame, given)
    assert shuffle is not None
    shuffle.run()

    def dumped(batches: Any) -> Any:
        from pyspark import TaskContext

        rows = pa.Table.from_batches(batches, schema) if (batches := list(batches)) else schema.empty_table()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId().to_bytes(2, "big")
        yield pa.record_batch({"report": pa.array([number + sink.getvalue().to_pybytes()], pa.binary())})

    schema = tier_one.schema
    found: dict[int, pa.Table] = {}
    for row in shuffle.reports(dumped).collect():
        found[int.from_bytes(row.report[:2], "big")] = pa.ipc.open_stream(io.BytesIO(row.report[2:])).read_all()
    return tier_one.head(frame, shuffle, given.time), [found[number] for number in range(ENGINES)]


def by_twin(rows: pa.Table, intake: Intake, given: Orders) -> list[pa.Table]:
    """The rows of each engine by the plain splitter, which takes them with a slot for each route in a column."""
    if ROUTE not in rows.column_names:
        wide = rows.rename_columns([slot_of(0) if name == SLOT else name for name in rows.column_names])
        return Splitter(intake, given).split(wide)[1]
    parts: list[list[pa.Table]] = [[] for _ in range(ENGINES)]
    for number, route in enumerate(intake.routes):
        own = rows.filter(pa.array(np.asarray(rows[ROUTE]) == number))
        engines = Splitter(intake, given)._engines(own, route, own[SLOT].to_numpy())
        for engine in range(ENGINES):
            parts[engine].append(own.filter(pa.array(engines == engine)))
    return [pa.concat_tables(each) for each in parts]


def bag(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.select(sorted(rows.column_names)).to_pylist()))


@pytest.mark.parametrize(
    ("queries", "partition_by"),
    [(PLAIN, None), (ROUTES, "p"), (FILTERED, None), (SPLIT, "p")],
    ids=["one", "routes", "filtered", "split"],
)
def test_rows_go_where_the_plain_splitter_sends_them(
    spark: Any, queries: dict[str, str], partition_by: str | None
) -> None:
    given = table()
    frame = stream_of(spark, given)
    compiled = {name: compile_query(sql, {"t": SCHEMA}, event_time="ts") for name, sql in queries.items()}
    intake = intake_of(compiled, SCHEMA, "ts", ["counts"] if queries is SPLIT else (), partition_by)
    tier_one = TierOne(intake, frame, KEY_GROUPS, keep_original=False)
    time = BatchTime(TimeRule(0))
    rows = tier_one.rows(frame, time).toArrow()
    slots = sorted({int(slot) for slot in rows[SLOT].to_pylist()})
    spread = tuple(spread_over(slot, (0, 1, 2)) for slot in slots[:3]) if queries is SPLIT else ()
    work = orders(time, spread)
    _, found = at_engines(frame, tier_one, work)
    assert [bag(each) for each in found] == [bag(each) for each in by_twin(rows, intake, work)]
    assert all(each.num_rows for each in found)


@pytest.mark.parametrize(
    ("known", "latest", "kind"),
    [((), None, "timestamp"), (PARTITIONS, None, "timestamp_ntz"), (PARTITIONS[:2], 12, "date")],
    ids=["no partition is known", "all are", "some are, and rows are too far ahead"],
)
def test_heads_are_the_same_observed_and_computed_and_by_the_plain_splitter(
    spark: Any, known: tuple[str, ...], latest: int | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = table()
    frame = stream_of(spark, given)
    frame = frame.withColumn("ts", frame.ts.cast(kind))
    dawn_us = int(DAWN.replace(tzinfo=datetime.UTC).timestamp() * 1e6)
    latest_us = None if latest is None else dawn_us + latest * HOUR_US
    for partition_by in (None, "p"):
        schema = SCHEMA.set(1, pa.field("ts", pa.date32() if kind == "date" else pa.timestamp("us")))
        compiled = {"rises": compile_query(PLAIN["rises"], {"t": schema}, event_time="ts")}
        intake = intake_of(compiled, schema, "ts", (), partition_by)
        before = StreamTime(newest_us=dict.fromkeys(known[:1], dawn_us)) if partition_by else StreamTime()
        time = BatchTime(TimeRule(0, known[1:], max(1, len(known))), before, latest_us=latest_us)
        tier_one = TierOne(intake, frame, KEY_GROUPS, keep_original=False)
        arriving = tier_one.rows(frame, time).toArrow()
        wide = arriving.rename_columns([slot_of(0) if name == SLOT else name for name in arriving.column_names])
        right = Splitter(intake, orders(time)).head(wide)
        assert set(right.newest_us) == (set(PARTITIONS) if partition_by else {ONLY})
        work = orders(time)
        assert at_engines(frame, tier_one, work)[0] == right
        with monkeypatch.context() as patched:
            patched.setattr(heads.HeadWatch, "observed", lambda *_: None)
            assert at_engines(frame, tier_one, work)[0] == right
