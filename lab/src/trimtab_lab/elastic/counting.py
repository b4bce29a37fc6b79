"""An operator with a simulated cost per row: an engine waits for the time that the row gives.

So several engines on few cores have the same relative loads as on as many machines. The counts are real, so that
answers can be compared; and states can be merged, so that hot keys may be split.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.keyed.description import KeyedOperator, Logic, Snapshot, operator
from trimtab.worker.whereabouts import this_executor


@operator("counted_at_a_cost")
@dataclass(frozen=True)
class CountedAtACost(KeyedOperator):
    """Rows and the total of their values, by key, reported when the input ends.

    A row takes `wait_us` microseconds, and `slow_wait_us` on the executor whose id is `slow`.
    """

    slow: str = ""

    columns = ("value", "wait_us", "slow_wait_us")
    output = pa.schema([("rows", pa.int64()), ("total", pa.int64())])
    state = output

    def open(self, snapshot: Snapshot | None) -> Logic:
        """Continue with the counts of the snapshot."""
        is_slow = bool(self.slow) and this_executor() == self.slow
        cost = "slow_wait_us" if is_slow else "wait_us"
        return Counting(cost, snapshot["rows"], snapshot["total"]) if snapshot else Counting(cost)

    def merge(self, left: Snapshot, right: Snapshot) -> Snapshot:
        """Counts add up."""
        return {name: left[name] + right[name] for name in ("rows", "total")}


@dataclass(slots=True)
class Counting:
    """The counts of one key; `cost` is the column with the cost of a row on this executor."""

    cost: str
    rows: int = 0
    total: int = 0

    def on_rows(self, rows: pa.Table) -> None:
        """Wait, then count."""
        time.sleep(pc.sum(rows.column(self.cost)).as_py() * 1e-6)
        self.rows += rows.num_rows
        self.total += pc.sum(rows.column("value")).as_py()

    def on_close(self) -> pa.Table:
        """Return the counts."""
        return pa.table([[self.rows], [self.total]], schema=CountedAtACost.output)

    def snapshot(self) -> Snapshot:
        """The counts."""
        return {"rows": self.rows, "total": self.total}
