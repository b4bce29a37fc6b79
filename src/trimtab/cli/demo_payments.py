"""The stream of the demonstration of balancing: payments by cards, of which others are hot every now and then."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

CARDS = 300
SKEW = 1.1
"""Zipf: the hottest card has about a fifth of the payments, less than one of four engines can take."""
BEGIN = datetime.datetime(2026, 1, 5, 9, 0)
FILE_S = 60
"""Every file is a minute of payments, and every batch a file."""


def phase_of(file: int, files: int, phases: int) -> int:
    """In which phase a file is: as equally long as they can be.

    >>> [phase_of(file, 7, 3) for file in range(7)]
    [0, 0, 0, 1, 1, 2, 2]
    """
    return file * phases // files


def write_payments(folder: Path, rows: int, files: int, phases: int, *, seed: int) -> pa.Table:
    """Write so many files with so many rows in all; give all rows, in their order. The same arguments, the same rows.

    In each phase the cards are dealt anew from the hottest to the coldest. Amounts are in cents, and a few are far
    above what is usual for their card. No two rows have the same time.
    """
    tables = []
    for number, count in enumerate(len(part) for part in np.array_split(np.arange(rows), files)):
        dice = np.random.default_rng((seed, 1, number))
        cards = order_of_cards(phase_of(number, files, phases), seed)[_ranks(count, dice)]
        usual = np.random.default_rng((seed, 2)).lognormal(8.0, 0.6, CARDS)[cards]
        amounts = usual * dice.lognormal(0.0, 0.4, count) * np.where(dice.random(count) < 0.01, 20.0, 1.0)
        times_us = (number * FILE_S * 1e6 + np.arange(count) * (FILE_S * 1e6 / max(1, count))).astype(np.int64)
        tables.append(
            pa.table(
                {
                    "card": pa.array([f"card-{card:03d}" for card in cards.tolist()]),
                    "ts": pa.array(np.datetime64(BEGIN, "us") + times_us.astype("timedelta64[us]")),
                    "amount": pa.array(np.maximum(1, amounts).astype(np.int64)),
                }
            )
        )
        path = folder / f"payments-{number:03d}.parquet"
        pq.write_table(tables[-1], path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes the oldest first
    return pa.concat_tables(tables)


def order_of_cards(phase: int, seed: int) -> npt.NDArray[np.int64]:
    """The cards of a phase, the hottest first."""
    return np.random.default_rng((seed, 0, phase)).permutation(CARDS).astype(np.int64)


def _ranks(count: int, dice: np.random.Generator) -> npt.NDArray[np.int64]:
    shares = np.arange(1, CARDS + 1) ** -SKEW
    return dice.choice(CARDS, size=count, p=shares / shares.sum()).astype(np.int64)
