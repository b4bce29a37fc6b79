"""Operators with a simulated cost per row: an engine waits for the time that the row gives.

So several engines on few cores have the same relative loads as on as many machines. Their output is computed for real.
The cost is a column, because the first rows of a run (its past) cost nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.keyed.description import KeyedOperator, Logic, Snapshot, operator
from trimtab_lab.workloads.first_story import FirstStory

SHORTEST_SLEEP_US = 200
"""The overhead of a sleep is 80 us, which would be most of a shorter one."""
_owed_us = [0]


@operator("first_story_at_a_cost")
@dataclass(frozen=True)
class FirstStoryAtACost(KeyedOperator):
    """First story detection as in the examples; each row takes `wait_us` microseconds more."""

    history: int = 500
    tau: float = 0.2

    columns = ("id", "terms", "wait_us")
    output = FirstStory.output
    state = FirstStory.state

    def open(self, snapshot: Snapshot | None) -> Logic:
        """Continue with the tweets of the snapshot."""
        return Waiting(FirstStory(history=self.history, tau=self.tau).open(snapshot))


@dataclass(slots=True)
class Waiting:
    """A logic with a simulated cost."""

    logic: Logic

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        """Wait, then process the rows."""
        wait_for(rows)
        return self.logic.on_rows(rows)

    def snapshot(self) -> Snapshot | None:
        """The snapshot of the logic."""
        return self.logic.snapshot()


@operator("top_articles")
@dataclass(frozen=True)
class TopArticles(KeyedOperator):
    """The articles of a key with the most updates in each window of time, the most updated first.

    Rows are updates: `ts`, the `article`, and `wait_us`, the cost of the row. A window is reported when a row after it
    arrives. Updates of no article (-1) take their time and aren't counted.
    """

    most: int = 3
    window_s: int = 60

    columns = ("ts", "article", "wait_us")
    output = pa.schema([("window_s", pa.int64()), ("article", pa.int64()), ("updates", pa.int64())])
    state = pa.schema([("window", pa.int64()), ("articles", pa.binary()), ("updates", pa.binary())])

    def open(self, snapshot: Snapshot | None) -> Logic:
        """Continue with the counts of the snapshot."""
        if snapshot is None:
            return Counting(self, -1, np.zeros(0, np.int64), np.zeros(0, np.int64))
        articles, updates = (np.frombuffer(snapshot[name], "<i8") for name in ("articles", "updates"))
        return Counting(self, snapshot["window"], articles, updates)


@dataclass(slots=True)
class Counting:
    """The updates of one key in the current window."""

    description: TopArticles
    window: int
    articles: np.ndarray[tuple[int], np.dtype[np.int64]]
    updates: np.ndarray[tuple[int], np.dtype[np.int64]]

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        """Count the rows, window by window."""
        wait_for(rows)
        seconds = rows.column("ts").to_numpy().astype("datetime64[s]").astype(np.int64)
        windows = seconds // self.description.window_s
        articles = rows.column("article").to_numpy()
        tops = []
        for window in np.unique(windows):
            if window != self.window:
                tops.append(self._top())
                self.window, self.articles, self.updates = int(window), np.zeros(0, np.int64), np.zeros(0, np.int64)
            new = articles[(windows == window) & (articles >= 0)]
            found, places = np.unique(np.concatenate([self.articles, new]), return_inverse=True)
            weights = np.concatenate([self.updates, np.ones(len(new), np.int64)])
            self.articles, self.updates = found, np.bincount(places, weights, len(found)).astype(np.int64)
        return pa.concat_tables(tops) if tops else None

    def snapshot(self) -> Snapshot | None:
        """The counts of the current window."""
        articles, updates = (each.astype("<i8").tobytes() for each in (self.articles, self.updates))
        return {"window": self.window, "articles": articles, "updates": updates}

    def _top(self) -> pa.Table:
        first = np.lexsort((self.articles, -self.updates))[: self.description.most]
        begins = np.full(len(first), self.window * self.description.window_s)
        return pa.table([begins, self.articles[first], self.updates[first]], schema=TopArticles.output)


def wait_for(rows: pa.Table) -> None:
    """Sleep for the cost of all rows together; a short time is added to a later sleep instead."""
    _owed_us[0] += int(rows.column("wait_us").to_numpy().sum())
    if _owed_us[0] >= SHORTEST_SLEEP_US:
        time.sleep(_owed_us[0] * 1e-6)
        _owed_us[0] = 0
