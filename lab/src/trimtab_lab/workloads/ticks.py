"""Synthetic market ticks: a seeded day of trading with inserted falls and recoveries."""

from __future__ import annotations

import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

OPENING = datetime.datetime(2026, 1, 5, 9, 30)
SESSION_S = 6.5 * 3600
NAMES = (
    *("KEEL", "HELM", "MAST", "BOOM", "SPAR", "TACK", "HULL", "DECK", "OARS", "KNOT"),
    *("BUOY", "REEF", "TIDE", "GALE", "SAIL", "PORT", "LUFF", "GIBE", "YAWL", "DORY"),
)
_PER_ROOT_SECOND = 2e-4  # standard deviation of a price after a second, as a share of it
_BOUNCE = 2e-4  # between buyers' and sellers' prices, as a share
_SHAPES_PER_SYMBOL = 4


def market_ticks(rows: int, symbols: int = 20, *, seed: int = 7) -> pa.Table:
    """One session of `rows` ticks: symbol, ts, price and quantity, in order of time.

    Symbols are Zipf-skewed: the first has about a quarter of the rows. Each price is a random walk,
    rounded to cents, in which a few falls of 3 to 9 % recover within minutes. The same arguments give
    the same table.

    >>> market_ticks(3, 2)["symbol"].to_pylist()
    ['KEEL', 'HELM', 'HELM']
    >>> market_ticks(1000) == market_ticks(1000)
    True
    """
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, symbols + 1)
    owners = rng.choice(symbols, size=rows, p=shares / shares.sum())
    times = np.sort(rng.random(rows)) * SESSION_S
    prices = np.empty(rows)
    for symbol in range(symbols):
        own = np.flatnonzero(owners == symbol)
        prices[own] = _prices(times[own], rng)
    names = [NAMES[n] if n < len(NAMES) else f"S{n}" for n in range(symbols)]
    opening_us = np.datetime64(OPENING, "us")
    return pa.table(
        {
            "symbol": pa.array(np.array(names)[owners], pa.string()),
            "ts": pa.array(opening_us + (times * 1e3).astype("timedelta64[ms]")),
            "price": pa.array(np.maximum(prices, 0.01).round(2)),
            "quantity": pa.array(100 * rng.geometric(0.4, rows)),
        }
    )


def _prices(times_s: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """A random walk of the logarithm of the price, with falls and recoveries inserted."""
    gaps_s = np.diff(times_s, prepend=0.0)
    walk = np.cumsum(rng.standard_normal(len(times_s)) * np.sqrt(gaps_s) * _PER_ROOT_SECOND)
    walk += rng.standard_normal(len(times_s)) * _BOUNCE
    slots_s = SESSION_S / _SHAPES_PER_SYMBOL  # one shape in each, so that they don't overlap
    for slot in range(_SHAPES_PER_SYMBOL):
        fall_s, rise_s = rng.uniform(40, 120), rng.uniform(90, 300)
        bottom_s = slot * slots_s + rng.uniform(300, slots_s - 600)
        depth = rng.uniform(0.03, 0.09)
        away = np.where(times_s < bottom_s, (bottom_s - times_s) / fall_s, (times_s - bottom_s) / rise_s)
        near = np.clip(1 - away, 0, 1)
        walk -= depth * near * near * (3 - 2 * near)  # smooth at the top and at the bottom
    return rng.uniform(20, 400) * np.exp(walk)
