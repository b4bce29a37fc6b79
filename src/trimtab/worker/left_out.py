"""What tasks that read columns don't send, because engines can make it of what is sent anyway.

These are hashes, and columns that are computed of others: that takes a fraction of the time in which the same bytes go
through Spark's shuffle, and engines do it side by side, also where a single task reads.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import single
from trimtab.rowwise.determined import determined_by
from trimtab.worker.computing import Columns, computed_columns
from trimtab.worker.hashes import Hashes
from trimtab.worker.intake import Intake


def left_to_engines(hashes: Hashes, schema: pa.Schema) -> frozenset[str]:
    """The computed columns that needn't be sent, as others are that determine them; `schema`: of the stream.

    With them go the flags that say which rows failed for a query, if all of its computed columns are among them. None
    if rows are dropped before they are sent: one of which a column can't be computed has to arrive.
    """
    intake = hashes.intake
    if intake.is_filtered or not all(route.is_keyed for route in intake.routes):
        return frozenset()  # rows without a key go to engines by all that is sent
    sent = {c.source for c in intake.columns if c.source is not None and c.name in hashes.names}
    needed = {name for reading in intake.readings for name in reading.ties}
    needed |= {name for route in intake.routes for name in route.keys}
    columns = set[str]()
    for column in intake.columns:
        if column.source is None and column.name not in needed:
            of = determined_by(column.text, schema)
            columns |= {column.name} if of and sent.issuperset(of) else set()
    flags = {each.failed for each in intake.readings if each.failed and columns.issuperset(each.computed)}
    return frozenset(columns | flags)


def completed(rows: pa.Table, schema: pa.Schema, hashes: Hashes) -> pa.Table:
    """The rows as they are sent, with all columns of `schema`: those that are missing are made."""
    missing = {name for name in schema.names if name not in rows.column_names}
    if not missing:
        return rows
    columns = {name: single(rows.column(name)) for name in rows.column_names}
    columns |= _computed(hashes.intake, columns, missing)
    columns |= hashes.made(columns, rows.num_rows, missing)
    return pa.table([columns[name] for name in schema.names], names=schema.names)


def _computed(intake: Intake, columns: Columns, missing: set[str]) -> Columns:
    rows = pa.table({c.source: columns[c.name] for c in intake.columns if c.source and c.name in columns})
    found = computed_columns(intake, rows, missing)
    # A flag that was sent says which rows failed in columns that were computed before.
    return {name: pc.or_(made, columns[name]) if name in columns else made for name, made in found.items()}
