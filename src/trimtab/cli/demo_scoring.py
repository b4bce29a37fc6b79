"""The operator of the demonstration of balancing: payments that are far above what their card usually pays.

It stands for one that asks a model about every event. What the model takes is simulated by waiting, once per key and
batch: an engine that waits is as busy as one that computes, and a machine with two cores can show four or eight of
them. What it finds doesn't depend on the waiting.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import trimtab
from trimtab.engine.keyed import Snapshot

QUERY = """\
SELECT card, at_us, amount, usual
FROM unusual_payments(TABLE(payments) PARTITION BY card ORDER BY ts, times => 8, model_us => {model_us})
"""


@trimtab.operator("unusual_payments")
@dataclass(frozen=True)
class UnusualPayments(trimtab.KeyedOperator):
    """Payments of more than so many times the mean of the card's earlier ones.

    `model_us`: what a call of the model takes, for one event, in microseconds.
    """

    times: int = 8
    model_us: int = 0
    columns = ("ts", "amount")
    output = pa.schema([("at_us", pa.int64()), ("amount", pa.int64()), ("usual", pa.int64())])
    state = pa.schema([("payments", pa.int64()), ("total", pa.int64())])

    def open(self, snapshot: Snapshot | None) -> _Card:
        """What is known of a card."""
        return _Card(self, **(snapshot or {}))


@dataclass
class _Card:
    description: UnusualPayments
    payments: int = 0
    total: int = 0

    def on_rows(self, rows: pa.Table) -> pa.Table:
        time.sleep(rows.num_rows * self.description.model_us / 1e6)
        amounts = rows["amount"].to_numpy()
        # Whole numbers: however the rows are cut, the sums are the same.
        before = self.total + np.cumsum(amounts) - amounts
        counts = self.payments + np.arange(len(amounts))
        unusual = np.flatnonzero((counts > 0) & (amounts * counts > self.description.times * before))
        self.payments, self.total = self.payments + len(amounts), self.total + int(amounts.sum())
        return pa.table(
            {
                "at_us": rows["ts"].combine_chunks().cast(pa.int64()).take(pa.array(unusual)),
                "amount": amounts[unusual],
                "usual": before[unusual] // np.maximum(1, counts[unusual]),
            }
        )

    def snapshot(self) -> Snapshot:
        return {"payments": self.payments, "total": self.total}
