"""The splitter over Arrow columns: the head of some rows, and which engine each of them goes to.

On Spark, expressions in the JVM do the same (`spark/splitter.py`, `spark/heads.py`), and
`tests/support/plain_splitter.py` is the same row by row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.column_hash import chained, seeds
from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import ONLY
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.worker.intake import Intake, Route
from trimtab.worker.orders import Head, Int32Array, Int64Array, Orders


def head_of(times: pa.Array, partition: pa.Array | None, latest_us: int | None) -> Head:
    """The head of rows with these times; those after `latest_us` count, but don't move the watermark.

    partition   the name of each row's partition; None: there is only one
    """
    moments, no_time = times_us(times)
    counts = np.ones(len(moments), np.bool_) if no_time is None else ~no_time
    if latest_us is not None:
        counts &= moments <= latest_us
    if partition is None:
        return Head(len(moments), {ONLY: int(moments[counts].max())} if counts.any() else {})
    known = pa.table({"name": partition, "at": moments}).filter(pc.and_(pa.array(counts), partition.is_valid()))
    newest = known.group_by("name").aggregate([("at", "max")])
    return Head(len(moments), dict(zip(newest["name"].to_pylist(), newest["at_max"].to_pylist(), strict=True)))


def arrivals_mixed(intake: Intake, arrivals: Mapping[str, pa.Array], count: int) -> Int64Array:
    """The number by which the rows of a spread key are divided into shares."""
    names = sorted({reading.arrival for reading in intake.split_readings})
    if len(names) == 1:
        only: Int64Array = arrivals[names[0]].to_numpy()
        return only
    mixed = seeds(count)
    for name in names:
        mixed = chained(arrivals[name], mixed)
    return mixed.view(np.int64)


def engines_of(route: Route, slots: Int64Array, mixed: Int64Array | None, orders: Orders) -> Int32Array:
    """The engine of each row on a route: that of its key group, or of its share if its key is spread.

    `mixed`: see `arrivals_mixed`; None: no key is spread.
    """
    engines: Int32Array = orders.owner[slots >> GROUP_SHIFT]
    if not route.split or mixed is None or not len(orders.spread):
        return engines
    places = np.minimum(np.searchsorted(orders.spread, slots), len(orders.spread) - 1)
    is_spread = orders.spread[places] == slots
    shares = np.mod(mixed[is_spread], orders.shares.shape[1])
    engines[is_spread] = orders.shares[places[is_spread], shares]
    return engines
