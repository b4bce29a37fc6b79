"""The operator of the demonstration of balancing: payments far above what their card usually pays, scored by a model.

The model's work is either simulated by waiting, so that a machine with two cores can run four engines, or real: a
neural network of integers with random weights. Its scores mean nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import trimtab
from trimtab.engine.keyed.description import Snapshot

Int64Array = npt.NDArray[np.int64]

WIDTH = 64
"""Neurons in a layer: one layer takes about 4 us for an event. NumPy multiplies integers on one core, exactly."""


def scoring_sql(*, wait_us: int = 0, layers: int = 0) -> str:
    """The query: a model that waits `wait_us` microseconds for each event, or that has `layers` layers."""
    work = f", wait_us => {wait_us}" if wait_us else f", layers => {layers}" if layers else ""
    return (
        "SELECT card, at_us, amount, usual, score\n"
        f"FROM unusual_payments(TABLE(payments) PARTITION BY card ORDER BY ts{work})"
    )


@trimtab.operator("unusual_payments")
@dataclass(frozen=True)
class UnusualPayments(trimtab.KeyedOperator):
    """Payments of more than `times` times the mean of the card's earlier ones; every payment is scored."""

    times: int = 8
    wait_us: int = 0
    layers: int = 0
    columns = ("ts", "amount")
    output = pa.schema([(name, pa.int64()) for name in ("at_us", "amount", "usual", "score")])
    state = pa.schema([("payments", pa.int64()), ("total", pa.int64())])

    def open(self, snapshot: Snapshot | None) -> _Card:
        """The logic of one card."""
        return _Card(self, **(snapshot or {}))


@dataclass
class _Card:
    description: UnusualPayments
    payments: int = 0
    total: int = 0

    def on_rows(self, rows: pa.Table) -> pa.Table:
        description, amounts = self.description, rows["amount"].to_numpy()
        time.sleep(rows.num_rows * description.wait_us / 1e6)
        # Integers: the sums don't depend on how the rows are cut into batches.
        before = self.total + np.cumsum(amounts) - amounts
        counts = self.payments + np.arange(len(amounts))
        usual = before // np.maximum(1, counts)
        scores = _scores(np.stack([amounts, usual, counts], axis=1), description.layers)
        unusual = np.flatnonzero((counts > 0) & (amounts * counts > description.times * before))
        self.payments, self.total = self.payments + len(amounts), self.total + int(amounts.sum())
        at_us = rows["ts"].combine_chunks().cast(pa.int64()).to_numpy()
        found = (at_us[unusual], amounts[unusual], usual[unusual], scores[unusual])
        return pa.table(list(found), schema=description.output)

    def snapshot(self) -> Snapshot:
        return {"payments": self.payments, "total": self.total}


def _scores(features: Int64Array, layers: int) -> Int64Array:
    """A score for each row of features; 0 without a layer."""
    if not layers:
        return np.zeros(len(features), np.int64)
    values = np.zeros((len(features), WIDTH), np.int64)
    values[:, : features.shape[1]] = features % 256
    for layer in range(layers):
        values = (values @ _weights(layer)) % 256
    return np.asarray(values[:, 0])


@cache
def _weights(layer: int) -> Int64Array:
    return np.random.default_rng(layer).integers(-8, 9, (WIDTH, WIDTH))
