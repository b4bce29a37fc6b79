"""The rows that are sent: keys by Zipf's law, each with a value to count and its cost."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trimtab_lab.elastic.orders import KEYS, DayOrder, FeedOrder
from trimtab_lab.routers.router import Int64Array
from trimtab_lab.workloads.key_streams import zipf_keys

SCHEMA = "ts TIMESTAMP, key INT, value BIGINT, wait_us INT, slow_wait_us INT"
FIRST_S = 1_700_000_000
"""The time of the first event of a feed."""


def rows_of(keys: Int64Array, begin_s: float, end_s: float, wait_us: int, slow_us: int) -> pa.Table:
    """Rows of these keys, one after the other; the value of a row is its number in the table.

    Rows wait until the watermark has passed them: if all had the same time, they would wait for the next batch.
    """
    count = len(keys)
    times = np.linspace(begin_s * 1e6, end_s * 1e6, count, endpoint=False).astype(np.int64)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "key": pa.array(keys.astype(np.int32)),
            "value": pa.array(np.arange(count)),
            "wait_us": pa.array(np.full(count, wait_us, np.int32)),
            "slow_wait_us": pa.array(np.full(count, slow_us, np.int32)),
        }
    )


def feed_of(order: FeedOrder) -> list[pa.Table]:
    """One table per batch. The same keys are the most frequent ones in all phases."""
    tables: list[pa.Table] = []
    for phase in order.phases:
        keys = zipf_keys(phase.batches * phase.events, KEYS, phase.exponent, order.seed)
        for number in range(phase.batches):
            own = keys[number * phase.events : (number + 1) * phase.events]
            begin_s = FIRST_S + len(tables)
            tables.append(rows_of(own, begin_s, begin_s + 1, phase.wait_us, phase.slow_wait_us))
    return tables


def write_feed(folder: Path, tables: Sequence[pa.Table]) -> None:
    """Write one file per batch, each a second newer than the one before: Spark orders them by their times."""
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        path = folder / f"{number:06d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (FIRST_S + number,) * 2)


def rate_at(order: DayOrder, at_s: float) -> float:
    """Events a second at a moment of the day: lowest at both ends, highest in the middle.

    >>> day = DayOrder(seconds=60.0, low_per_s=10.0, high_per_s=90.0, wait_us=1, engines=1, max_engines=2)
    >>> [round(rate_at(day, at)) for at in (0, 15, 30, 60)]
    [10, 50, 90, 10]
    """
    height = (1.0 - math.cos(2.0 * math.pi * at_s / order.seconds)) / 2.0
    return order.low_per_s + (order.high_per_s - order.low_per_s) * height


def counts_of(tables: Sequence[pa.Table]) -> dict[int, tuple[int, int]]:
    """Rows and total of each key: the right answer."""
    table = pa.concat_tables(tables).group_by("key").aggregate([("value", "count"), ("value", "sum")])
    columns = [table.column(name).to_pylist() for name in ("key", "value_count", "value_sum")]
    return {key: (count, total) for key, count, total in zip(*columns, strict=True)}


def top_share(order: FeedOrder) -> float:
    """The share of the events that the most frequent key has."""
    keys = pa.concat_tables(feed_of(order)).column("key")
    return float(pc.max(pc.value_counts(keys).field("counts")).as_py() / len(keys))
