"""The stream of the demonstration: a day of synthetic trades in parquet files, slightly out of order."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trimtab.errors import InputError
from trimtab.state.files import Folder
from trimtab.state.lock import LOCK, check_free
from trimtab_lab.workloads.ticks import market_ticks

SYMBOLS = 300
DELAY_S = 2
MARK = ".trimtab-demo"


@dataclass(frozen=True, slots=True)
class DemoFolders:
    """Where a demonstration writes: everything is in one folder, which the next demonstration replaces."""

    home: Path

    @property
    def ticks(self) -> Path:
        """The stream's files."""
        return self.home / "ticks"

    @property
    def checkpoint(self) -> Path:
        """The job's checkpoint."""
        return self.home / "checkpoint"

    def found(self, query: str) -> Path:
        """The output of a query."""
        return self.home / query

    def make_afresh(self) -> None:
        """Remove the files of an earlier demonstration, and nothing else.

        Raises InputError `input.file`, and StateError `state.locked` while another one is using the folder.
        """
        for lock in (self.checkpoint / LOCK, *self.home.glob(f"*/checkpoint/{LOCK}")):
            if lock.exists():
                check_free(Folder(str(lock.parent)))
        try:
            if self.home.exists() and not (self.home / MARK).exists():
                message = f"{self.home} exists already, and no demonstration made it"
                raise InputError("input.file", message, "name another folder: --out FOLDER")
            shutil.rmtree(self.home, ignore_errors=True)
            self.ticks.mkdir(parents=True)
            (self.home / MARK).touch()
        except OSError as error:
            raise InputError("input.file", f"{self.home} can't be written: {error.strerror}") from error


def write_stream(folder: Path, rows: int, files: int, *, seed: int = 7) -> pa.Table:
    """Write `files` files of trades, one per batch; return all rows, in the order in which they arrive.

    Rows arrive up to two seconds after their event time, so neighbours change places, also across files. No symbol has
    two trades at the same microsecond, as their order would be undefined.
    """
    ticks = market_ticks(rows, SYMBOLS, seed=seed)
    # Rows are in order of time, so those of the same millisecond are adjacent and get different microseconds.
    times = ticks["ts"].to_numpy() + (np.arange(rows) % 1000).astype("timedelta64[us]")
    ticks = ticks.set_column(ticks.schema.get_field_index("ts"), "ts", pa.array(times))
    late_us = np.random.default_rng(seed).integers(0, DELAY_S * 1_000_000, rows)
    ticks = ticks.take(pa.array(np.argsort(times + late_us.astype("timedelta64[us]"), kind="stable")))
    edges = np.linspace(0, rows, files + 1).astype(int)
    for number, (start, end) in enumerate(pairwise(edges)):
        path = folder / f"ticks-{number:03d}.parquet"
        pq.write_table(ticks.slice(start, end - start), path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
    return ticks


def in_order(table: pa.Table) -> pa.Table:
    """The rows in a fixed order: the order of a stream depends on its batches."""
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
    return table.take(order).combine_chunks()
