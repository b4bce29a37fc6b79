"""Hot keys spread over several engines: the same rows in the same batches; refused if they couldn't be exact."""

from __future__ import annotations

import datetime
import itertools
import pathlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab
from tests.spark.bench import COLUMNS, COUNTS, KEY_GROUPS, RISES, Bench
from tests.support.bottle import Bottle
from tests.support.spreads import spread_over
from trimtab.deciding.load_estimates import LoadEstimates
from trimtab.deciding.observation import observe
from trimtab.deciding.placement import SCHEMES, Placement, Spread
from trimtab.deciding.policy import Measure
from trimtab.deciding.spreading import HotLoads, spread_keys
from trimtab.driver.splitting import check_split
from trimtab.engine.columns.watermark import TimeRule
from trimtab.errors import JobError, OperatorError
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.language.compile import compile_query
from trimtab.worker.intake import intake_of
from trimtab.worker.orders import EngineReport

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "x": pa.float64(), "s": pa.string()})
DAWN = datetime.datetime(2026, 1, 1)
HOT = 7
WINDOWS = """
    SELECT k, window.start AS at, COUNT(*) AS n, AVG(x) AS mean, SUM(x) AS total, STDDEV(x) AS spread,
      MIN(s) AS least, MAX_BY(s, x) AS best, FIRST(s) AS opening, COUNT(DISTINCT s) AS kinds
    FROM t GROUP BY k, window(ts, '8 seconds', '4 seconds')"""
SESSIONS = """
    SELECT k, session_window.start AS at, session_window.end AS until, AVG(x) AS mean, LAST(x) AS closing
    FROM t WHERE x > 0.2 GROUP BY k, session_window(ts, '2 seconds')"""
OVERALL = "SELECT COUNT(*) AS n, SUM(x) AS total FROM t GROUP BY window(ts, '5 seconds')"


def batches(count: int, rows: int = 400) -> list[pa.Table]:
    """Batches of ten seconds. Key 7 has six rows of ten, and pauses; in the last second every key has a row."""
    draw = np.random.default_rng(5)
    tables = []
    for number in range(count):
        keys = np.where(draw.random(rows) < 0.6, HOT, draw.integers(10, 42, rows))
        seconds = np.sort(draw.integers(0, 9_000, rows)) / 1e3
        keys[(keys == HOT) & (seconds % 5 > 2.5)] = 11 if number == 2 else HOT
        keys, seconds = np.append(keys, [HOT, *range(10, 42)]), np.append(seconds, np.full(33, 9.5))
        values = draw.normal(1.0, 1.0, len(keys))
        tables.append(
            pa.table(
                {
                    "k": keys,
                    "ts": [DAWN + datetime.timedelta(seconds=number * 10 + second) for second in seconds.tolist()],
                    "x": pa.array(values, mask=draw.random(len(keys)) < 0.05),
                    "s": [None if v > 2 else f"site {int(v * 5) % 7}" for v in values],
                },
                schema=SCHEMA,
            )
        )
    return tables


def bag(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rows sorted; times without their zone, which is UTC."""
    return sorted(
        repr({n: v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for n, v in row.items()})
        for row in rows
    )


@dataclass(frozen=True)
class Ways:
    """Where the hot key is from batch to batch; None: at home."""

    of_batch: Sequence[Sequence[int] | None]

    def spread(self, batch: int, slots: Sequence[int]) -> list[Spread]:
        engines = self.of_batch[batch] if batch < len(self.of_batch) else None
        return [] if engines is None else [spread_over(slot, engines) for slot in slots]


WAYS = Ways([None, (0, 1, 2, 3), (0, 1, 2, 3), (1, 3, 3), None, (2, 0), (0, 3)])  # the last one is the end of the input


def run_job(bench: Bench, split: str | None, slots: Sequence[int], *, close: bool) -> list[list[int]]:
    """Run a job over the files, with hot keys spread by hand if it is split; returns events by batch and engine."""
    job = bench.job(delay="1 second", engines=4, balance=None)  # spread by hand
    runs: list[Any] = []

    def change(frame: Any, batch: int) -> None:
        del frame
        while not runs:
            time.sleep(0.01)
        (pipeline,) = runs[0]._pipelines.values()
        # A requested change is lost when the job ends; the placement of its last batch is not.
        assert list(pipeline.placing.expected().spread) == WAYS.spread(2 if batch == 3 else batch, sorted(slots))
        pipeline.placing.change(lambda now: now.with_spread(WAYS.spread(batch + 1, slots)))

    for name, sql in {"windows": WINDOWS, "sessions": SESSIONS, "overall": OVERALL}.items():
        job.query(name, sql, split=split).write(bench.keep(name))
    job.query("counts", COUNTS).write(bench.keep("counts"))  # the same keys, never split
    job.query("columns", COLUMNS).write(change if split else bench.keep("columns"))
    run = job.start(available_now=True, close=close)
    runs.append(run)
    run.await_termination()
    return [[engine.events for engine in batch.engines] for batch in run.history]


def slot_of(spark: Any, *columns: str) -> int:
    """The slot of a key, as the splitter computes it."""
    hashed = spark.range(1).selectExpr(f"xxhash64({', '.join(columns)}) AS h" if columns else "42L AS h")
    [[slot]] = hashed.selectExpr(f"shiftleft(pmod(h, {KEY_GROUPS}), 48) | shiftrightunsigned(h, 16)").collect()
    return int(slot)


def test_a_split_key_gives_the_same_rows_at_the_same_batches(spark: Any, tmp_path: pathlib.Path) -> None:
    tables = batches(6)
    slots = [slot_of(spark, f"{HOT}L"), slot_of(spark)]
    benches = {name: Bench(spark, tmp_path / name, SCHEMA) for name in ("whole", "split")}
    for table in tables:
        benches["whole"].stream.add(table)
    for table in tables[:3]:
        benches["split"].stream.add(table)
    whole = run_job(benches["whole"], None, slots, close=True)
    split = run_job(benches["split"], "consistent", slots, close=False)
    assert len(benches["split"].manifest()["spread"]) == 2
    for table in tables[3:]:
        benches["split"].stream.add(table)
    run_job(benches["split"], "consistent", slots, close=True)
    assert [engines for _, engines in benches["split"].manifest()["spread"]] == [[0, 3] * 32] * 2, "to the very end"
    for name in ("windows", "sessions", "overall", "counts"):
        given = {key: {batch: bag(rows) for batch, rows in bench.given[name].items()} for key, bench in benches.items()}
        assert given["split"] == given["whole"], name
    everything = pa.concat_tables(tables)
    for name, sql in {"windows": WINDOWS, "sessions": SESSIONS, "overall": OVERALL}.items():
        answer = trimtab.evaluate(sql, {"t": everything}, event_time="ts", delay="1 second")
        assert bag(benches["split"].rows(name)) == bag(answer.to_pylist()), name
    assert max(split[1]) / sum(split[1]) < max(whole[1]) / sum(whole[1]), "the first batch with spread keys"


# Without Spark ---------------------------------------------------------------------------------


@trimtab.operator("split_minutes")
@dataclass(frozen=True)
class Minutes(trimtab.KeyedOperator):
    """Counts rows by minute, and reports each minute when it is over."""

    early: bool = False
    output = pa.schema([("minute", pa.int64()), ("n", pa.int64())])
    state = pa.schema([("minutes", pa.list_(pa.int64())), ("counts", pa.list_(pa.int64()))])
    columns = ("ts",)

    def open(self, snapshot: Mapping[str, Any] | None) -> MinutesOfKey:
        return MinutesOfKey(self.early, dict(zip(*snapshot.values(), strict=True)) if snapshot else {})

    def merge(self, left: Mapping[str, Any], right: Mapping[str, Any]) -> Mapping[str, Any]:
        both = MinutesOfKey(self.early, dict(zip(*left.values(), strict=True)))
        both.add(zip(*right.values(), strict=True))
        found = both.snapshot()
        assert found is not None
        return found


@dataclass
class MinutesOfKey:
    early: bool
    found: dict[int, int] = field(default_factory=dict)

    def add(self, counts: Iterator[tuple[int, int]]) -> None:
        for minute, count in counts:
            self.found[minute] = self.found.get(minute, 0) + count

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        minutes = rows["ts"].cast(pa.int64()).to_numpy() // 60_000_000
        self.add((int(minute), 1) for minute in minutes)
        return self._told(list(self.found)) if self.early else None

    def wake_us(self) -> int | None:
        return (min(self.found) + 1) * 60_000_000 if self.found else None

    def on_time(self, wake_us: int) -> pa.Table | None:
        return self._told([wake_us // 60_000_000 - 1])

    def on_close(self) -> pa.Table | None:
        return self._told(list(self.found))

    def snapshot(self) -> Mapping[str, Any] | None:
        return {"minutes": list(self.found), "counts": list(self.found.values())} if self.found else None

    def _told(self, minutes: list[int]) -> pa.Table:
        return pa.table({"minute": minutes, "n": [self.found.pop(minute) for minute in minutes]}, Minutes.output)


MINUTES = "SELECT * FROM split_minutes(TABLE(t) PARTITION BY k ORDER BY ts)"


def test_an_operator_with_a_merge_can_be_split(tmp_path: pathlib.Path) -> None:
    tables = batches(14)
    bottle = Bottle(str(tmp_path), {"minutes": MINUTES}, SCHEMA, "ts", rule=TimeRule(1_000_000), split=["minutes"])
    [slot] = bottle.slots_of("minutes", pa.table({"k": [HOT], "ts": [DAWN], "x": [1.0], "s": [None]}, SCHEMA))
    given = []
    for number, table in enumerate(tables):
        now = Placement.even(4, KEY_GROUPS).with_spread(WAYS.spread(number % 6, [int(slot)]))
        bottle.batch(table, now)
        given.append(bottle.rows("minutes").num_rows)
    assert given[5] == 0 < given[6], "a minute is reported as soon as it is over"
    bottle.close()
    answer = trimtab.evaluate(MINUTES, {"t": pa.concat_tables(tables)}, event_time="ts", delay="1 second")
    assert bag(bottle.rows("minutes").to_pylist()) == bag(answer.to_pylist())


QUERIES = {"windows": WINDOWS, "sessions": SESSIONS, "overall": OVERALL, "minutes": MINUTES}


@settings(max_examples=15)
@given(st.data())
def test_spreading_any_keys_in_any_batch_does_not_change_the_answer(data: st.DataObject) -> None:
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.none() | st.floats(-9, 9)), max_size=40)
    )
    rows.sort(key=lambda row: row[1])
    table = pa.table(
        {
            "k": [k for k, _, _ in rows],
            "ts": [DAWN + datetime.timedelta(seconds=second) for _, second, _ in rows],
            "x": [x for _, _, x in rows],
            "s": [str(second % 3) for _, second, _ in rows],
        },
        schema=SCHEMA,
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    with tempfile.TemporaryDirectory() as folder:
        bottle = Bottle(folder, QUERIES, SCHEMA, "ts", split=data.draw(st.lists(st.sampled_from(sorted(QUERIES)))))
        every = sorted({int(slot) for query in bottle.split for slot in bottle.slots_of(query, table)})
        for start, stop in itertools.pairwise([0, *cuts, len(rows), len(rows)]):
            engines = data.draw(st.integers(1, 3))
            chosen = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
            numbers = st.lists(st.integers(0, engines - 1), min_size=1, max_size=4)
            spread = [spread_over(slot, data.draw(numbers)) for slot in chosen]
            now = bottle.placement.resized(engines).with_spread(spread)
            closing = start == len(rows) == stop
            deaths = data.draw(st.lists(st.integers(0, 16), max_size=2))
            if closing:
                bottle.close(now, deaths=deaths)
                break
            bottle.batch(table.slice(start, stop - start), now, deaths=deaths)
            if data.draw(st.booleans()):
                bottle.restart()
        for name, sql in QUERIES.items():
            answer = trimtab.evaluate(sql, {"t": table}, event_time="ts", cuts=[*cuts, len(rows)])
            assert bag(bottle.rows(name).to_pylist()) == bag(answer.to_pylist()), name


def test_an_operator_that_puts_out_rows_for_a_part_is_an_error(tmp_path: pathlib.Path) -> None:
    early = MINUTES.replace("ORDER BY ts", "ORDER BY ts, early => TRUE")
    [table] = batches(1, 50)
    bottle = Bottle(str(tmp_path), {"minutes": early}, SCHEMA, "ts", split=["minutes"])
    [slot, *_] = bottle.slots_of("minutes", table)
    with pytest.raises(OperatorError, match="before the parts were merged") as raised:
        bottle.batch(table, Placement.even(2, KEY_GROUPS).with_spread([spread_over(int(slot), [0, 1])]))
    assert raised.value.code == "operator.merge"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_key_with_most_of_the_stream_is_found_and_spread_evenly(scheme: str, tmp_path: pathlib.Path) -> None:
    first, second, third = batches(3, 4000)
    bottle = Bottle(str(tmp_path), {"windows": WINDOWS}, SCHEMA, "ts", key_groups=64, split=["windows"])
    placement = Placement.even(4, 64)

    def events_of_engines() -> list[int]:
        loads = [int(report.loads.events.sum()) + report.hot.spread_events for report in bottle.reports]
        assert sum(loads) == bottle_rows
        return loads

    bottle_rows = first.num_rows
    bottle.batch(first, placement)
    before = hot_loads(bottle.reports, placement)
    assert deviation(events_of_engines()) > 50
    assert before.loads.sum() + before.base.sum() == first.num_rows
    [spread] = spread_keys(scheme, before)
    placement, bottle_rows = placement.with_spread([spread]), second.num_rows
    bottle.batch(second, placement)
    assert deviation(events_of_engines()) < (10 if scheme != "pkg" else 80)
    after = hot_loads(bottle.reports, placement)
    assert after.loads[after.slots == spread.slot] == pytest.approx([0.6 * second.num_rows], rel=0.05)
    assert after.loads.sum() + after.base.sum() == second.num_rows
    assert spread_keys(scheme, after, before=placement.spread) == placement.spread, "it stays as it is"
    bottle_rows = third.num_rows
    bottle.batch(third)
    assert bottle.placement == placement, "also after a commit"


def hot_loads(reports: Sequence[EngineReport], placement: Placement) -> HotLoads:
    """The hot keys that a coordinator that counts events finds after a single batch."""
    observed = observe(0, 1.0, 1.0, placement, reports)
    estimates = LoadEstimates(Measure.EVENTS, half_life=1.0, interval_s=1.0)
    estimates.take(observed)
    slots, loads = estimates.hot_keys()
    base = np.bincount(placement.array(), estimates.loads(slots.tolist()), placement.engines)
    return HotLoads(slots, loads, placement.array()[slots >> GROUP_SHIFT], base.astype(np.float64))


def deviation(loads: Sequence[int]) -> float:
    return float(100 * np.std(loads) / np.mean(loads))


def test_a_split_query_has_a_route_of_its_own_if_others_are_not_split() -> None:
    compiled = {name: compile_query(COUNTS, {"t": SCHEMA}, event_time="ts") for name in "abc"}
    assert [route.split for route in intake_of(compiled, SCHEMA, "ts", ["b"]).routes] == [False, True]
    assert [route.split for route in intake_of(compiled, SCHEMA, "ts", "abc").routes] == [True]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (RISES, "a pattern needs all rows of its key in one place"),
        (COLUMNS, "it takes rows one by one"),
        ("SELECT k, SUM(x) OVER (PARTITION BY k ORDER BY ts) AS x FROM t", "with OVER the result of a row needs"),
        (WINDOWS.replace("COUNT(*)", "PERCENTILE_APPROX(x, 0.5)"), "percentile_approx of parts"),
        (MINUTES.replace("split_minutes", "split_forgetful"), "operator split_forgetful doesn't say how two states"),
    ],
)
def test_queries_whose_answer_would_not_stay_exact_are_refused(sql: str, why: str) -> None:
    with pytest.raises(JobError, match=why) as raised:
        check_split("q", compile_query(sql, {"t": SCHEMA}, event_time="ts"), "pkg", {})
    assert (raised.value.code, bool(raised.value.hint)) == ("job.split", True)


def test_only_known_schemes_are_accepted_and_one_per_stream() -> None:
    query = compile_query(WINDOWS, {"t": SCHEMA}, event_time="ts")
    check_split("q", query, "consistent", {"other": "consistent", "whole": None})
    check_split("q", query, None, {"other": "consistent"})
    for split, others in (("shuffle", {}), ("pkg", {"other": "consistent"})):
        with pytest.raises(JobError, match=r"can't be split by 'shuffle'|and query other of the same stream") as raised:
            check_split("q", query, split, others)
        assert raised.value.code == "job.split"


@trimtab.operator("split_forgetful")
@dataclass(frozen=True)
class Forgetful(trimtab.KeyedOperator):
    output = pa.schema([("n", pa.int64())])
    state = pa.schema([("n", pa.int64())])

    def open(self, snapshot: Mapping[str, Any] | None) -> MinutesOfKey:
        raise NotImplementedError
