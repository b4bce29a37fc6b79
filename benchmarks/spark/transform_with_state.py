"""The V-shape with Spark's `transformWithStateInPandas`, with the open match of each symbol in RocksDB.

It is as fast as the interface allows: times are integers, since Spark's worker makes a Python object of every value; a
symbol costs one read of its state, and a write only if the state has changed; matches of a symbol are returned in one
frame, and there are no empty frames. There is no watermark: the files are in order of time, and within a batch the rows
of a symbol are sorted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.spark.pattern import MATCH_COLUMNS, Match
from benchmarks.spark.session import Batch, describe, local_session, run_stream
from benchmarks.spark.ticks import write_ticks

_OUTPUT = "symbol BIGINT, top DOUBLE, bottom DOUBLE, back DOUBLE, began BIGINT, ended BIGINT"

Open = tuple[float, int, float | None]
"""An open match: price and time of its top, and the price of the lowest row if there is one below the top."""


class VShapes(StatefulProcessor):
    """Finds V-shapes of one symbol at a time; the state is the open match."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._open = handle.getValueState("open", "top DOUBLE, began BIGINT, bottom DOUBLE")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803 (Spark's names)
        """The matches that the rows of a batch complete."""
        frames = list(rows)
        times_us = np.concatenate([frame["ts"].to_numpy() for frame in frames])
        prices = np.concatenate([frame["price"].to_numpy() for frame in frames])
        order = np.argsort(times_us, kind="stable")
        before = self._open.get()
        found, after = step(before, times_us[order].tolist(), prices[order].tolist())
        if after is None:
            if before is not None:
                self._open.clear()
        elif after != before:
            self._open.update(after)
        if found:
            columns = [np.full(len(found), key[0]), *map(np.array, zip(*found, strict=True))]
            # Making it from arrays takes a third of the time that it takes from tuples.
            yield pd.DataFrame(dict(zip(MATCH_COLUMNS, columns, strict=True)), copy=False)


def step(
    before: Any, times_us: list[int], prices: list[float]
) -> tuple[list[tuple[float, float, float, int, int]], Open | None]:
    """The matches in rows that follow an open match, and the match that is open after them.

    >>> step(None, [1, 2, 3, 4], [9.0, 8.0, 7.0, 8.0])
    ([(9.0, 7.0, 8.0, 1, 4)], None)
    >>> step((9.0, 1, None), [2, 3, 4], [8.0, 8.0, 7.0])
    ([], (8.0, 3, 7.0))
    """
    top, began, bottom = (None, 0, None) if before is None else before
    found = []
    for time_us, price in zip(times_us, prices, strict=True):
        if top is None:
            top, began = price, time_us
        elif price < (top if bottom is None else bottom):
            bottom = price
        elif bottom is not None and price > bottom:
            found.append((top, bottom, price, began, time_us))
            top = bottom = None
        else:  # as high as the row before, or no fall yet: only a match that starts here can continue
            top, began, bottom = price, time_us, None
    return found, None if top is None else (top, began, bottom)


def v_shapes(ticks: DataFrame) -> DataFrame:
    """The stream of matches."""
    plain = ticks.select("symbol", f.unix_micros("ts").alias("ts"), "price")
    found = plain.groupBy("symbol").transformWithStateInPandas(VShapes(), _OUTPUT, "append", "none")
    times = {name: f.timestamp_micros(name) for name in ("began", "ended")}
    return found.withColumns(times)


def run(spark: SparkSession, folder: Path, checkpoint: Path, *, files_per_batch: int = 1) -> tuple[Batch, ...]:
    """The batches of the query, whose matches are discarded."""

    def start(ticks: DataFrame) -> DataStreamWriter:
        return v_shapes(ticks).writeStream.format("noop")

    return run_stream(spark, folder, checkpoint, start, files_per_batch=files_per_batch)


def matches(spark: SparkSession, folder: Path, checkpoint: Path) -> list[Match]:
    """The matches in the files, sorted."""
    found: list[Match] = []

    def gather(batch: DataFrame, _number: int) -> None:
        plain = batch.withColumns({name: f.unix_micros(name) for name in ("began", "ended")})
        found.extend(tuple(row) for row in plain.select(*MATCH_COLUMNS).collect())

    run_stream(spark, folder, checkpoint, lambda ticks: v_shapes(ticks).writeStream.foreachBatch(gather))
    return sorted(found)


def main() -> None:
    """Run it on 3 x 100,000 ticks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_ticks(folder / "ticks", 3, 100_000, 10_000)
        spark = local_session()
        print(describe("transformWithStateInPandas", run(spark, folder / "ticks", folder / "checkpoint")))


if __name__ == "__main__":
    main()
