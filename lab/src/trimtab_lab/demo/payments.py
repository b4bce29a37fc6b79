"""The stream of the demonstration of balancing: payments by cards, four of which are hot."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

CARDS = 300
HOT_CARDS = 4
HOT_SHARE = 0.9
"""Of the payments, in equal parts. With one hot card each, four engines are evenly loaded; hashing seldom does that."""
BEGIN = datetime.datetime(2026, 1, 5, 9, 0)
FILE_S = 60
"""Every file has a minute of payments, and every batch one file."""


def card_name(card: int) -> str:
    """The key of a card."""
    return f"card-{card:03d}"


def card_shares() -> npt.NDArray[np.float64]:
    """The share of the payments that each card has, hot ones first.

    >>> card_shares()[[0, 3, 4]].round(4).tolist()
    [0.225, 0.225, 0.0003]
    """
    cold = CARDS - HOT_CARDS
    return np.repeat([HOT_SHARE / HOT_CARDS, (1 - HOT_SHARE) / cold], [HOT_CARDS, cold])


def hot_first(seed: int) -> npt.NDArray[np.int64]:
    """The cards in the order of their shares: how well hashing balances depends on which ones are hot."""
    return np.random.default_rng((seed, 0)).permutation(CARDS).astype(np.int64)


def write_payments(folder: Path, rows: int, files: int, *, seed: int) -> pa.Table:
    """Write `rows` payments to `files` files of equal size; return all of them in their order.

    Amounts are in cents, and one in a hundred is far above what is usual for its card. No two rows have the same time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order, usual = hot_first(seed), np.random.default_rng((seed, 1)).lognormal(8.0, 0.6, CARDS)
    tables = []
    for number, count in enumerate(len(part) for part in np.array_split(np.arange(rows), files)):
        rng = np.random.default_rng((seed, 2, number))
        cards = order[rng.choice(CARDS, size=count, p=card_shares())]
        amounts = usual[cards] * rng.lognormal(0.0, 0.4, count) * np.where(rng.random(count) < 0.01, 20.0, 1.0)
        times_us = (number * FILE_S * 1e6 + np.arange(count) * (FILE_S * 1e6 / max(1, count))).astype(np.int64)
        tables.append(
            pa.table(
                {
                    "card": pa.array([card_name(card) for card in cards.tolist()]),
                    "ts": pa.array(np.datetime64(BEGIN, "us") + times_us.astype("timedelta64[us]")),
                    "amount": pa.array(np.maximum(1, amounts).astype(np.int64)),
                }
            )
        )
        path = folder / f"payments-{number:03d}.parquet"
        pq.write_table(tables[-1], path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
    return pa.concat_tables(tables)
