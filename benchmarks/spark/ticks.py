"""Seeded ticks in Parquet files, one for each batch of a stream, in order of time over all of them.

No two ticks have the same time, so every engine has to find the same matches.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

OPENING = datetime.datetime(2026, 1, 5, 9, 30, tzinfo=datetime.UTC)
APART_US = 1_000
ROW_GROUP = 122_880
SCHEMA = pa.schema([("symbol", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("price", pa.float64())])
SPARK_SCHEMA = "symbol BIGINT, ts TIMESTAMP, price DOUBLE"

_WANDERING = 0.01  # the step of the common price from one tick to the next
_NOISE = 1.0  # the deviation of each price from it

Draw = Callable[[int, np.random.Generator], npt.NDArray[np.int64]]
"""Returns the symbols of a number of rows."""


def write_ticks(
    folder: Path, files: int, rows_per_file: int, keys: int, *, zipf: float = 1.0, seed: int = 1, first_row: int = 0
) -> list[Path]:
    """Write ticks whose symbols have Zipf shares: with 1.0, the second has half as many as the first."""
    return _write(folder, [rows_per_file] * files, zipf_symbols(keys, zipf), seed=seed, first_row=first_row)


def write_uniform(
    folder: Path, files: int, rows_per_file: int, keys: int, *, seed: int = 1, first_row: int = 0
) -> list[Path]:
    """Write ticks in which all keys are equally likely."""

    def draw(rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return rng.integers(0, keys, rows)

    return _write(folder, [rows_per_file] * files, draw, seed=seed, first_row=first_row)


def write_every_key(
    folder: Path, keys: int, *, rows_per_file: int = 1_000_000, seed: int = 1, first_row: int = 0
) -> list[Path]:
    """Write one tick of every key, in random order: after these, all keys are live.

    Files that follow in the same folder start at `first_row=keys`.
    """
    order = np.random.default_rng(seed).permutation(keys)
    taken = 0

    def draw(rows: int, _rng: np.random.Generator) -> npt.NDArray[np.int64]:
        nonlocal taken
        taken += rows
        return order[taken - rows : taken]

    sizes = [min(rows_per_file, keys - done) for done in range(0, keys, rows_per_file)]
    return _write(folder, sizes, draw, seed=seed, first_row=first_row)


def zipf_symbols(keys: int, zipf: float) -> Draw:
    """Symbols from 0, the most frequent one, with shares of 1 / (symbol + 1) ** zipf."""
    shares = np.arange(1, keys + 1) ** -zipf
    edges = np.cumsum(shares / shares.sum())

    def draw(rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return np.minimum(np.searchsorted(edges, rng.random(rows), side="right"), keys - 1)

    return draw


def read_ticks(files: Iterable[Path]) -> pa.Table:
    """The ticks of the files in one table, for engines that take one."""
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files])


def _write(folder: Path, sizes: list[int], draw: Draw, *, seed: int, first_row: int) -> list[Path]:
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    opening_us = round(OPENING.timestamp() * 1_000_000)
    level, row, written = 100.0, first_row, []
    for rows in sizes:
        walk = level + np.cumsum(rng.standard_normal(rows)) * _WANDERING
        times_us = opening_us + np.arange(row, row + rows) * APART_US
        columns = {
            "symbol": pa.array(draw(rows, rng), pa.int64()),
            "ts": pa.array(times_us, SCHEMA.field("ts").type),
            "price": np.round(walk + rng.standard_normal(rows) * _NOISE, 2),
        }
        file = folder / f"{row:012}.parquet"
        # In row groups as most writers make them: only one core reads a file with one group.
        pq.write_table(pa.table(columns, SCHEMA), file, row_group_size=ROW_GROUP)
        # Spark reads the oldest file first, and files written in the same millisecond in any order.
        modified_s = float(times_us[-1]) / 1_000_000
        os.utime(file, (modified_s, modified_s))
        written.append(file)
        level, row = float(walk[-1]), row + rows
    return written
