"""The columns of tier 1 that are computed of a row, over Arrow columns; a row that can't be computed fails alone."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import single
from trimtab.rowwise.attempt import attempted
from trimtab.rowwise.types import plain
from trimtab.worker.intake import Intake

Columns = dict[str, pa.Array]


def computed_columns(intake: Intake, rows: pa.Table, names: Collection[str]) -> Columns:
    """These of the intake's computed columns, and for each query with one of them which rows have failed in those.

    `rows` have the names of the stream's columns.
    """
    chosen = [column for column in intake.columns if column.source is None and column.name in names]
    attempts = attempted(rows, [c.text for c in chosen], [c.type for c in chosen])
    found = {c.name: as_sent(attempt.column) for c, attempt in zip(chosen, attempts, strict=True)}
    masks = {c.name: attempt.failed for c, attempt in zip(chosen, attempts, strict=True)}
    for reading in intake.readings:
        own = [masks[name] for name in reading.computed if name in masks]
        if reading.failed is not None and own:
            failed = [mask for mask in own if mask is not None]
            found[reading.failed] = pa.array(np.logical_or.reduce(failed) if failed else np.zeros(rows.num_rows, bool))
    return found


def as_sent(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in the layout in which Spark sends its type: strings are plain ones, and zoned times are in UTC."""
    array = single(column)
    kind = plain(array.type)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp(kind.unit, "UTC")
    return array if array.type == kind else array.cast(kind)
