"""Seeded inputs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

VENUES = ("ARCX", "BATS", "EDGX", "IEXG", "XNAS", "XNYS")
KINDS = ("order", "change", "cancel", "payment")


def ticks(rows: int, keys: int, *, seed: int = 1) -> pa.Table:
    """`symbol`, `ts` and `price`, in order of time; symbols have Zipf(1.0) shares, prices have cents.

    >>> ticks(2, 10).schema.names
    ['symbol', 'ts', 'price']
    """
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.standard_normal(rows)) * 0.01
    return pa.table(
        {
            "symbol": _zipf(rows, keys, rng),
            "ts": pa.array(np.arange(rows) * 1000, pa.timestamp("us")),
            "price": np.round(100 + walk + rng.standard_normal(rows), 2),
        }
    )


def trades(rows: int, keys: int, *, seed: int = 1) -> pa.Table:
    """Ticks a millisecond apart, with a `size`, a `venue` and the `kind` of event beside the price."""
    rng = np.random.default_rng(seed + 1)
    venues = pa.DictionaryArray.from_arrays(rng.integers(0, len(VENUES), rows), pa.array(VENUES))
    kinds = pa.DictionaryArray.from_arrays(rng.choice(len(KINDS), rows, p=(0.3, 0.3, 0.1, 0.3)), pa.array(KINDS))
    return (
        ticks(rows, keys, seed=seed)
        .append_column("size", pa.array(100 * rng.geometric(0.4, rows)))
        .append_column("venue", venues.dictionary_decode())
        .append_column("kind", kinds.dictionary_decode())
    )


def _zipf(rows: int, keys: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    shares = 1 / np.arange(1, keys + 1)
    return rng.choice(keys, rows, p=shares / shares.sum())
