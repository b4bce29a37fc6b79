"""An operator whose rows say what they cost: an engine waits so long for each, as if it worked.

So a few engines on few cores keep the relations that as many machines would have. What it counts is counted for real,
so that answers can be compared; and its states merge, so that hot keys may be split.
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
    """Rows and the total of their values, by key, told when the input ends.

    A row takes `wait_us` microseconds, and `slow_wait_us` on the executor whose id is `slow`.
    """

    slow: str = ""

    columns = ("value", "wait_us", "slow_wait_us")
    output = pa.schema([("rows", pa.int64()), ("total", pa.int64())])
    state = output

    def open(self, snapshot: Snapshot | None) -> Logic:
        """Go on with the counts that the snapshot has."""
        is_slow = bool(self.slow) and this_executor() == self.slow
        cost = "slow_wait_us" if is_slow else "wait_us"
        return Counting(cost, snapshot["rows"], snapshot["total"]) if snapshot else Counting(cost)

    def merge(self, left: Snapshot, right: Snapshot) -> Snapshot:
        """Counts add up."""
        return {name: left[name] + right[name] for name in ("rows", "total")}


@dataclass(slots=True)
class Counting:
    """The counts of one key; `cost` is the column with what a row takes here."""

    cost: str
    rows: int = 0
    total: int = 0

    def on_rows(self, rows: pa.Table) -> None:
        """Wait, then count."""
        time.sleep(pc.sum(rows.column(self.cost)).as_py() * 1e-6)
        self.rows += rows.num_rows
        self.total += pc.sum(rows.column("value")).as_py()

    def on_close(self) -> pa.Table:
        """Tell the counts."""
        return pa.table([[self.rows], [self.total]], schema=CountedAtACost.output)

    def snapshot(self) -> Snapshot:
        """The counts."""
        return {"rows": self.rows, "total": self.total}
