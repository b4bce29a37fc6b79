"""The V-shape on bytewax, in the two ways that its users would write it: a step per row, and a step per batch."""

from __future__ import annotations

from typing import Any

import bytewax.operators as op
import pyarrow as pa
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.testing import TestingSink, TestingSource, run_main

Row = tuple[str, tuple[int, float]]
"""Key, time in microseconds and price. bytewax requires keys to be text."""

Found = tuple[float, float, float, int]
"""The prices of the top, the bottom and the way back, and the time of the last."""

BATCH_ROWS = 10_000  # about the fastest: 1, 100 and 1,000 are slower, 100,000 is no faster for a step per row


def rows_of(ticks: pa.Table) -> list[Row]:
    """The ticks as Python values, as bytewax needs them; this isn't timed."""
    keys = (str(key) for key in ticks["symbol"].to_pylist())
    times_us = ticks["ts"].cast(pa.int64()).to_pylist()
    return list(zip(keys, zip(times_us, ticks["price"].to_pylist(), strict=True), strict=True))


def by_row(rows: list[Row]) -> list[tuple[str, Found]]:
    """The matches, by `stateful_flat_map`."""
    return _run(rows, lambda stream: op.stateful_flat_map("v_shapes", stream, _next))


def by_batch(rows: list[Row]) -> list[tuple[str, Found]]:
    """The matches, by `stateful_batch`: more code, and faster."""
    return _run(rows, lambda stream: op.stateful_batch("v_shapes", stream, _Logic))


def _run(rows: list[Row], step: Any) -> list[tuple[str, Found]]:
    found: list[tuple[str, Found]] = []
    flow = Dataflow("v_shapes")
    stream = op.input("ticks", flow, TestingSource(rows, batch_size=BATCH_ROWS))
    op.output("matches", step(stream), TestingSink(found))
    run_main(flow)
    return found


_State = tuple[float, float | None]


def _next(state: _State | None, row: tuple[int, float]) -> tuple[_State | None, tuple[Found, ...]]:
    time_us, price = row
    if state is None:
        return (price, None), ()
    top, bottom = state
    if price < (top if bottom is None else bottom):
        return (top, price), ()
    if bottom is not None and price > bottom:
        return None, ((top, bottom, price, time_us),)
    return (price, None), ()


class _Logic(StatefulBatchLogic):  # type: ignore[misc]  # see bytewax in pyproject.toml
    def __init__(self, resume: tuple[float | None, float | None] | None) -> None:
        self.top, self.bottom = resume or (None, None)

    def on_batch(self, values: list[tuple[int, float]]) -> tuple[list[Found], bool]:
        found: list[Found] = []
        top, bottom = self.top, self.bottom
        for time_us, price in values:
            if top is None:
                top = price
            elif price < (top if bottom is None else bottom):
                bottom = price
            elif bottom is not None and price > bottom:
                found.append((top, bottom, price, time_us))
                top = bottom = None
            else:
                top, bottom = price, None
        self.top, self.bottom = top, bottom
        return found, False

    def snapshot(self) -> tuple[float | None, float | None]:
        return self.top, self.bottom
