"""Balancing while the stream runs: its gain, its cost without skew, and how fast it decides.

First story detection (Zacheilas et al., 2016) is the expensive operator: every tweet is compared with all of the last
500 of its key, as by the paper's rule.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import trimtab
from benchmarks.results import Bar, Cell, Number, Result, Side, Table
from benchmarks.spark import ours
from benchmarks.spark.figures import number, ratio
from benchmarks.spark.ticks import write_every_key, write_uniform
from trimtab.api.run import Run
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance
from trimtab.driver.progress import BatchProgress
from trimtab.planning.registry import POLICIES
from trimtab_lab.workloads.tweet_feeds import EVEN, SKEWED, SPARK_SCHEMA, Phase, write_feed, zipf_feed
from trimtab_lab.workloads.tweets import TweetStream

STORIES = "SELECT * FROM first_story(TABLE(tweets) PARTITION BY fingerprint ORDER BY ts, exhaustive => true)"
AVERAGES = "SELECT k, avg(v) AS mean, count(*) AS events FROM s GROUP BY k, window(ts, '1 second')"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a run.

    tweets, batches, warm_up  of a run of first story detection; balancing settles in the first batches, which warm up
    rounds                    how often the runs without skew are repeated, in turn
    keys, rows, moves         of the batches in which a key group moves: every second one
    hot_rows, hot_batches     of the stream with one hot key
    engines, groups           of the decisions
    """

    tweets: int
    batches: int
    warm_up: int
    rounds: int
    keys: int
    rows: int
    moves: int
    hot_rows: int
    hot_batches: int
    engines: int
    groups: int


FULL = Sizes(
    tweets=150_000,
    batches=10,
    warm_up=6,
    rounds=1,
    keys=20_000,
    rows=20_000,
    moves=60,
    hot_rows=400_000,
    hot_batches=14,
    engines=64,
    groups=16_384,
)
QUICK = replace(
    FULL, tweets=2_000, batches=3, warm_up=1, rounds=1, keys=500, rows=500, moves=2, hot_rows=20_000, hot_batches=6
)


def run(spark: SparkSession, folder: Path, sizes: Sizes) -> Result:
    """Measure each part."""
    parts = [_skewed(spark, folder, sizes), _even(spark, folder, sizes), _one_move(spark, folder, sizes)]
    parts += [_split(spark, folder, sizes), _decisions(sizes)]
    about = (
        f"Batches of {sizes.tweets:,} tweets, each compared with the last 500 of its key, on 2 engines of `local[2]`."
        " Hashed: `balance=None`. Balanced: the default."
    )
    tables, bars = zip(*parts, strict=True)
    return Result("Balance while the stream runs", about, tables, tuple(itertools.chain(*bars)))


Part = tuple[Table, list[Bar]]


def _skewed(spark: SparkSession, folder: Path, sizes: Sizes) -> Part:
    """Zipf 1.5: throughput, also as a share of what the hottest key allows."""
    feed = _feed(folder, SKEWED, sizes)
    hashed = _tweets(spark, feed, folder / "hashed", None)[sizes.warm_up :]
    balanced = _tweets(spark, feed, folder / "balanced", "milp")[sizes.warm_up :]
    gain = ratio(_throughput(balanced), _throughput(hashed))
    allowed = number([_allowed_share(batch) for batch in balanced], "%")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, _throughput(batches), _rstd(batches), f"{sum(b.moved for b in batches)}")
        for name, batches in (("hashed", hashed), ("balanced", balanced))
    )
    rows += (("balanced over hashed", gain, "", ""),)
    table = Table(("", "throughput", "RSTD of the engines' work", "moves after the warm-up"), rows, f"Zipf {SKEWED}")
    claim = f"Zipf {SKEWED}: balanced throughput, of what the hottest key group allows"
    return table, [Bar(claim, allowed, Side.AT_LEAST, 95.0)]


def _even(spark: SparkSession, folder: Path, sizes: Sizes) -> Part:
    """Zipf 0.2: the coordinator has nothing to do, and must cost nothing."""
    feed = _feed(folder, EVEN, sizes)
    off: list[BatchProgress] = []
    on: list[BatchProgress] = []
    for turn in range(sizes.rounds):
        off += _tweets(spark, feed, folder / f"off{turn}", None)[sizes.warm_up :]
        on += _tweets(spark, feed, folder / f"on{turn}", "milp")[sizes.warm_up :]
    slower = ratio(number([b.batch_ms for b in on], "ms"), number([b.batch_ms for b in off], "ms"))
    rows: tuple[tuple[Cell, ...], ...] = (
        ("coordinator off", number([b.batch_ms for b in off], "ms"), _throughput(off)),
        ("coordinator on", number([b.batch_ms for b in on], "ms"), _throughput(on)),
        ("on over off", slower, ""),
    )
    table = Table(("", "a batch", "throughput"), rows, f"Zipf {EVEN}")
    return table, [Bar(f"Zipf {EVEN}: a batch with the coordinator on, over off", slower, Side.AT_MOST, 1.02)]


def _one_move(spark: SparkSession, folder: Path, sizes: Sizes) -> Part:
    """In every second batch one key group moves: how much time that adds."""
    write_every_key(folder / "ticks", sizes.keys)
    warm_up = 10 if sizes.moves > 10 else 2
    write_uniform(folder / "ticks", warm_up + 2 * sizes.moves, sizes.rows, sizes.keys, first_row=sizes.keys)

    def move(held: Run, batch: int) -> None:
        placement = held.placement["ticks"]
        if batch % 2:
            group = batch % len(placement.owner)
            held.move({group: (placement.owner[group] + 1) % placement.engines})

    _, history = ours.run(spark, folder / "ticks", folder / "moving", watch=move)
    history = history[warm_up:]
    moved = [b.batch_ms for b in history if b.moved]
    usual = [b.batch_ms for b in history if not b.moved]
    added = statistics.median(moved) - statistics.median(usual)
    extra = Number(added, added, added, "ms", 1)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("nothing moves", number(usual, "ms"), f"{len(usual)}"),
        ("a key group moves", number(moved, "ms"), f"{len(moved)}"),
        ("added, in the median", extra, ""),
    )
    table = Table(("", "a batch", "batches"), rows, f"A key group moves, {sizes.rows:,} ticks a batch")
    return table, [Bar("a key group's move adds to its batch, in the median", extra, Side.AT_MOST, 5.0)]


def _split(spark: SparkSession, folder: Path, sizes: Sizes) -> Part:
    """One key with 60 % of the stream, an average over a window, 4 engines."""
    _write_hot(folder / "hot", sizes)
    found: dict[str, list[BatchProgress]] = {}
    answers = []
    for name, split in {
        "whole": None,
        "pkg": "pkg",
        "random-choices": "random-choices",
        "consistent": "consistent",
    }.items():
        target = folder / f"split {name}"
        found[name] = _averages(spark, folder / "hot", target, split)
        answers.append(pq.read_table(target / "found").sort_by([("k", "ascending"), ("events", "ascending")]))
    exact = all(table.equals(answers[0]) for table in answers)
    last = {name: history[-4:] for name, history in found.items()}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, number([b.rstd_of_events for b in batches], "%"), number([b.batch_ms for b in batches], "ms"))
        for name, batches in last.items()
    )
    title = f"A key with 60 % of the stream on 4 engines; the answers are {'the same' if exact else 'NOT the same'}"
    bars = [
        Bar(
            f"a key with 60 %, split by {name}: RSTD",
            number([b.rstd_of_events for b in last[name]], "%"),
            Side.AT_MOST,
            10.0,
        )
        for name in ("random-choices", "consistent")
    ]
    return Table(("", "RSTD of the engines' events", "a batch"), rows, title), bars


def _decisions(sizes: Sizes) -> Part:
    """How long the coordinator takes to decide on a large cluster whose load has shifted."""
    rows: list[tuple[Cell, ...]] = []
    bars: list[Bar] = []
    for policy in POLICIES:
        spent, moves = _decided(policy, sizes)
        taken = number(spent, "ms")
        rows.append((policy, taken, f"{max(spent):.0f} ms", f"{moves:,}"))
        worst = Number(max(spent), min(spent), max(spent), "ms", 1)
        bars.append(
            Bar(f"{policy} decides on {sizes.engines} engines x {sizes.groups:,} groups", worst, Side.AT_MOST, 200)
        )
    title = f"Decisions: {sizes.engines} engines, {sizes.groups:,} key groups"
    return Table(("policy", "a decision to move", "the longest", "moves, the first time"), tuple(rows), title), bars


def _decided(policy: str, sizes: Sizes) -> tuple[list[float], int]:
    spent: list[float] = []
    first = 0
    Coordinator(Balance(planner=policy)).warm()
    for seed in range(7):
        rng = np.random.default_rng(seed)
        shares = rng.permutation(1.0 / np.arange(1, sizes.groups + 1) ** 0.8)
        events = rng.multinomial(1_000_000, shares / shares.sum())
        seen = Observation.of_events(0, Placement.even(sizes.engines, sizes.groups), events.tolist())
        coordinator = Coordinator(Balance(planner=policy, measure="events", patience=1))
        began = time.perf_counter()
        decision = coordinator.step(seen)
        spent.append((time.perf_counter() - began) * 1e3)
        assert decision.actions, decision.reason
        first = first or sum(len(getattr(action, "moves", ())) for action in decision.actions)
    return spent, first


def _feed(folder: Path, exponent: float, sizes: Sizes) -> Path:
    count = sizes.tweets * sizes.batches
    written = TweetStream(seed=1).take(count)
    write_feed(folder / f"zipf {exponent}", zipf_feed(written, [Phase(exponent, count)]), sizes.tweets)
    return folder / f"zipf {exponent}"


def _tweets(spark: SparkSession, feed: Path, target: Path, balance: str | None) -> list[BatchProgress]:
    frame = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(feed))
    job = trimtab.Job(spark, checkpoint=str(target / "checkpoint"), engines=2, balance=balance)
    job.stream("tweets", frame, event_time="ts")
    job.query("stories", STORIES).write("parquet", path=str(target / "found"))
    return _history(job)


def _averages(spark: SparkSession, source: Path, target: Path, split: str | None) -> list[BatchProgress]:
    frame = spark.readStream.schema("k BIGINT, ts TIMESTAMP, v DOUBLE").option("maxFilesPerTrigger", 1)
    job = trimtab.Job(
        spark, checkpoint=str(target / "checkpoint"), engines=4, balance=Balance(measure="events", period_batches=2)
    )
    job.stream("s", frame.parquet(str(source)), event_time="ts")
    job.query("averages", AVERAGES, split=split).write("parquet", path=str(target / "found"))
    return _history(job)


def _history(job: trimtab.Job) -> list[BatchProgress]:
    started = job.start(available_now=True)
    started.await_termination()
    return list(started.history)


def _write_hot(folder: Path, sizes: Sizes) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    start = np.datetime64("2026-01-05T00:00:00", "us")
    for batch in range(sizes.hot_batches):
        keys = np.where(rng.random(sizes.hot_rows) < 0.6, 0, rng.integers(1, 5_000, sizes.hot_rows))
        numbers = batch * sizes.hot_rows + np.arange(sizes.hot_rows)
        times = start + (numbers * 2_000_000 // sizes.hot_rows).astype("timedelta64[us]")
        columns = {"k": keys, "ts": pa.array(times, pa.timestamp("us", "UTC")), "v": rng.random(sizes.hot_rows)}
        pq.write_table(pa.table(columns), folder / f"{batch:03}.parquet")


def _throughput(batches: Sequence[BatchProgress]) -> Number:
    return number([1000 * b.events / b.batch_ms for b in batches], "tweets/s")


def _rstd(batches: Sequence[BatchProgress]) -> Number:
    return number([b.rstd for b in batches], "%")


def _allowed_share(batch: BatchProgress) -> float:
    """The slowest engine's time if work were divided as evenly as the hottest group allows, over its real time."""
    work = [engine.busy_ms for engine in batch.engines]
    assert batch.decision is not None
    least = batch.decision.least_rstd / 100.0
    # With two engines a deviation of d puts one of them d above the mean.
    ideal = statistics.fmean(work) * (1.0 + least)
    return min(100.0, 100.0 * ideal / max(work))
