"""Updates of articles, as the paper's Real Job 1 reads them: rates that drift, and some articles in the news.

Synthetic: the paper's stream is Wikipedia's edit history. The number of updates of a key in a batch follows its rate
without the noise of small numbers, as in a much larger stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab_lab.experiment import Scale
from trimtab_lab.live.key_groups import key_group, salts

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

ENGINES, KEY_GROUPS = 20, 300
BUCKETS, ARTICLES_OF_A_BUCKET = 3_000, 10
WINDOW_S, BATCH_S = 60, 30
"""The paper's window, and how much event time a batch covers."""
OPENING_US = 1_735_689_600_000_000
SCHEMA = "ts TIMESTAMP, bucket INT, article BIGINT, wait_us INT, salt INT"

DRIFT, DRIFT_BATCHES = 0.3, 40.0
NEWS, NEWS_BATCHES, NEWS_FACTOR = 60, 15.0, 4.0
"""How many keys are in the news at a time, for how many batches on average, with how many times their updates."""
MERGED_SHARE = 0.5
"""The cost of merging an article's count, as a share of the cost of an update."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is sent: `batches` of `updates` each, which cost an engine `wait_us` each; `period` in batches."""

    batches: int
    updates: int
    wait_us: int
    period: int


FULL = Size(batches=37, updates=4_000, wait_us=400, period=3)
REDUCED = Size(batches=5, updates=1_000, wait_us=20, period=1)


def size_of(scale: Scale) -> Size:
    """How much is sent at this scale."""
    return FULL if scale is Scale.FULL else REDUCED


@cache
def updates(scale: Scale, seed: int) -> list[pa.Table]:
    """One table per batch, with every key on its own engine."""
    size, rng = size_of(scale), np.random.default_rng(seed)
    counts = _counts(_rates(size.batches, rng) * size.updates)
    return [_table(batch, count, size, rng) for batch, count in enumerate(counts)]


@cache
def split_updates(scale: Scale, seed: int) -> list[pa.Table]:
    """The same updates, each sent to the less loaded of its key's two engines; the counts merged after every window.

    A merge is a row on the engine that the key is hashed to, and its cost depends on the number of articles.
    """
    from trimtab_lab.routers.partial_key_grouping import PartialKeyGrouping

    size, router = size_of(scale), PartialKeyGrouping(ENGINES, seed=seed)
    tables: list[pa.Table] = []
    partial: list[pa.Table] = []  # of the current window
    for batch, table in enumerate(updates(scale, seed)):
        buckets = table.column("bucket").to_numpy().astype(np.int64)
        workers = router.route(buckets)
        sent = _salted(table, workers)
        partial.append(table.append_column("worker", pa.array(workers)))
        if (batch + 1) * BATCH_S % WINDOW_S == 0:
            sent = pa.concat_tables([sent, _merges(pa.concat_tables(partial), table, size)])
            partial = []
        tables.append(sent)
    return tables


def _rates(batches: int, rng: np.random.Generator) -> Float64Array:
    """(batches, keys) shares of a batch's updates."""
    base = rng.lognormal(0.0, 0.6, BUCKETS)
    keep = np.exp(-1.0 / DRIFT_BATCHES)
    wander = rng.normal(0.0, DRIFT, BUCKETS)
    in_news = np.zeros(BUCKETS, np.bool_)
    in_news[rng.permutation(BUCKETS)[:NEWS]] = True
    rates = np.empty((batches, BUCKETS))
    for batch in range(batches):
        rates[batch] = base * np.exp(wander) * np.where(in_news, NEWS_FACTOR, 1.0)
        wander = keep * wander + np.sqrt(1 - keep**2) * rng.normal(0.0, DRIFT, BUCKETS)
        over = in_news & (rng.random(BUCKETS) < 1.0 / NEWS_BATCHES)
        in_news = in_news & ~over
        in_news[rng.permutation(np.flatnonzero(~in_news))[: int(over.sum())]] = True
    shares: Float64Array = rates / rates.sum(axis=1, keepdims=True)
    return shares


def _counts(expected: Float64Array) -> Int64Array:
    """(batches, keys) integers whose sum over any range of batches is within one of the expected sum."""
    offsets = np.random.default_rng(0).random(expected.shape[1])
    totals = np.floor(np.cumsum(expected, axis=0) + offsets).astype(np.int64)
    return np.diff(totals, axis=0, prepend=0)


def _table(batch: int, counts: Int64Array, size: Size, rng: np.random.Generator) -> pa.Table:
    buckets = rng.permutation(np.repeat(np.arange(BUCKETS), counts))
    rows = len(buckets)
    inside = (ARTICLES_OF_A_BUCKET * rng.random(rows) ** 2).astype(np.int64)  # some are updated more than others
    times = OPENING_US + (batch * BATCH_S * 1_000_000) + np.arange(rows) * (BATCH_S * 1_000_000 // max(1, rows))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "bucket": pa.array(buckets.astype(np.int32)),
            "article": pa.array(buckets * ARTICLES_OF_A_BUCKET + inside),
            "wait_us": pa.array(np.full(rows, size.wait_us, np.int32)),
            "salt": pa.array(np.zeros(rows, np.int32)),
        }
    )


def _salted(table: pa.Table, workers: npt.NDArray[np.int32] | Int64Array) -> pa.Table:
    buckets = table.column("bucket").to_numpy().astype(np.int64)
    found = salts(buckets, workers, groups=KEY_GROUPS, engines=ENGINES)
    return table.set_column(table.schema.get_field_index("salt"), "salt", pa.array(found))


def _merges(window: pa.Table, last: pa.Table, size: Size) -> pa.Table:
    """A row for every key and engine that has counts of it, on the engine that merges them."""
    sums = window.group_by(["bucket", "worker"]).aggregate([("article", "count_distinct")])
    buckets = sums.column("bucket").to_numpy().astype(np.int64)
    entries = sums.column("article_count_distinct").to_numpy()
    rows = len(buckets)
    merged = pa.table(
        {
            "ts": pa.array([last.column("ts")[-1].as_py()] * rows, pa.timestamp("us", "UTC")),
            "bucket": pa.array(buckets.astype(np.int32)),
            "article": pa.array(np.full(rows, -1)),
            "wait_us": pa.array(np.rint(entries * size.wait_us * MERGED_SHARE).astype(np.int32)),
            "salt": pa.array(np.zeros(rows, np.int32)),
        }
    )
    return _salted(merged, homes()[buckets])


@cache
def homes() -> Int64Array:
    """The engine of each key by hashing alone."""
    return np.array([key_group(KEY_GROUPS, bucket) % ENGINES for bucket in range(BUCKETS)], np.int64)


def group_costs(tables: list[pa.Table], *, is_split: bool) -> Float64Array:
    """(batches, key groups) the simulated cost of a batch's rows, in seconds."""
    found = np.zeros((len(tables), KEY_GROUPS))
    for batch, table in enumerate(tables):
        columns = ("bucket", "salt") if is_split else ("bucket",)
        sums = table.group_by(list(columns)).aggregate([("wait_us", "sum")])
        keys = zip(*(sums.column(name).to_pylist() for name in columns), strict=True)
        groups = np.array([key_group(KEY_GROUPS, *key) for key in keys])
        found[batch] = np.bincount(groups, sums.column("wait_us_sum").to_numpy() * 1e-6, KEY_GROUPS)
    return found
