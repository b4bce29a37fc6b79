"""Rows that the task which reads them sets aside: they can't be decoded or cast, or they are too far ahead.

How far ahead a row is counts from the moment at which it was appended to its source, and not from when it is read: the
source keeps that moment, so a row has the same verdict in every batch and every repetition. Where the source doesn't
know it, the clock of the batch's plan decides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.times import times_us
from trimtab.engine.columns.watermark import BatchTime
from trimtab.sources.casting import cast_rows
from trimtab.sources.source import UNDECODED, Clock, Rows
from trimtab.worker.intake import SOURCE_PARTITION, SOURCE_POSITION, own_spelling
from trimtab.worker.orders import BoolArray


def taken_and_aside(
    rows: Rows, schema: pa.Schema, event_time: str, time: BatchTime, partition: str, *, with_places: bool
) -> tuple[pa.Table, pa.Table | None]:
    """The rows that can be taken, with the types of `schema`; and the others, if there are any.

    Those have the same columns, null where nothing could be decoded, and after them those of `UNDECODED`. The rows that
    can be taken have the columns of `placed` after them, if they are asked for: an engine may set rows aside, too.
    """
    rows, others = typed(rows, schema, partition)
    table, positions, found = rows.table, rows.positions, list[pa.Table]()
    column = str(own_spelling(event_time, schema))
    ahead = is_ahead(table.column(column), rows, time)
    if ahead is not None:
        moment = "the clock" if _appended_us(rows) is None else "when the row was appended"
        reason, taken = f"{column} is too far ahead of {moment}", pa.array(~ahead)
        found.append(_because(reason, table, positions, pa.array(ahead), partition))
        table, positions = table.filter(taken), _filtered(positions, taken)
    for bad in (rows.undecoded, others):
        if bad is not None and bad.num_rows:
            nothing = [pa.nulls(bad.num_rows, kind) for kind in schema.types]
            found.append(_table([*nothing, *bad.cast(UNDECODED).columns], schema))
    if with_places:
        table = placed(table, partition, positions)
    return table, pa.concat_tables(found) if found else None


def placed(rows: pa.Table, partition: str, positions: pa.Array | None) -> pa.Table:
    """The rows, and after their columns where each of them is: the name of the partition, and the position in it."""
    names, where = pa.repeat(partition, rows.num_rows), _known(positions, rows.num_rows)
    return rows.append_column(SOURCE_PARTITION, names).append_column(SOURCE_POSITION, where)


def is_ahead(times: pa.ChunkedArray, rows: Rows, time: BatchTime) -> BoolArray | None:
    """Which rows with these event times are too far ahead; None: none is.

    What writers say of the moment of appending is believed only as far as the clock has come.
    """
    if time.latest_us is None:
        return None
    moments, no_time = times_us(times)
    limits_us = np.full(len(moments), time.latest_us)
    appended_us = _appended_us(rows)
    if appended_us is not None and time.max_ahead_us is not None:
        by_append = appended_us.fill_null(time.latest_us - time.max_ahead_us).to_numpy() + time.max_ahead_us
        limits_us = np.minimum(by_append, limits_us) if rows.clock is Clock.WRITER else by_append
    ahead: BoolArray = moments > limits_us
    if no_time is not None:
        ahead &= ~no_time
    return ahead if ahead.any() else None


def _appended_us(rows: Rows) -> pa.Array | None:
    """When the rows were appended, if that says how far ahead they are."""
    return None if rows.clock is Clock.FILE else rows.appended_us


def typed(rows: Rows, schema: pa.Schema, partition: str) -> tuple[Rows, pa.Table | None]:
    """The rows with the types that the queries know; and those that can't have them, with the columns of `UNDECODED`.

    What is finer than a microsecond is cut off, as Spark does.
    """
    if rows.table.schema == schema:
        return rows, None
    table, wrong = cast_rows(rows.table.select(schema.names), schema)
    if not wrong:
        return replace(rows, table=table), None
    is_good = np.ones(rows.table.num_rows, dtype=np.bool_)
    is_good[list(wrong)] = False
    where, kept = _known(_filtered(rows.positions, pa.array(~is_good)), len(wrong)), pa.array(is_good)
    columns = [pa.repeat(partition, len(wrong)), where, pa.nulls(len(wrong), pa.binary()), list(wrong.values())]
    appended_us, positions = _filtered(rows.appended_us, kept), _filtered(rows.positions, kept)
    others = pa.table(columns, schema=UNDECODED)
    return replace(rows, table=table, appended_us=appended_us, positions=positions), others


def _because(reason: str, table: pa.Table, positions: pa.Array | None, chosen: pa.Array, partition: str) -> pa.Table:
    rows = table.filter(chosen)
    count, where = rows.num_rows, _known(_filtered(positions, chosen), rows.num_rows)
    columns = [pa.repeat(partition, count), where, pa.nulls(count, pa.binary()), pa.repeat(reason, count)]
    return _table([*rows.columns, *columns], rows.schema)


def _filtered(numbers: pa.Array | None, chosen: pa.Array) -> pa.Array | None:
    return None if numbers is None else numbers.filter(chosen)


def _known(positions: pa.Array | None, count: int) -> pa.Array:
    return pa.nulls(count, pa.int64()) if positions is None else positions


def _table(columns: list[pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    # Names may occur twice: a stream may have a column `value`. They are told apart by their places.
    return pa.Table.from_arrays(columns, schema=pa.schema([*schema, *UNDECODED]))
