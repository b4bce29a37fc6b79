"""Event times as whole numbers: microseconds, or nanoseconds if the column has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.columns.arrays import BoolArray, Int64Array, int64s, null_mask, plain
from trimtab.errors import InputError


def is_time(kind: pa.DataType) -> bool:
    """Whether a column of this type can be the event time."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def tick_type(kind: pa.DataType) -> pa.DataType:
    """The timestamp type in which windows over a column are computed and returned."""
    if not pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    return kind if kind.unit == "ns" else pa.timestamp("us", kind.tz)


def ticks_per_us(kind: pa.DataType) -> int:
    """How many ticks a microsecond has."""
    return 1000 if pa.types.is_timestamp(kind) and kind.unit == "ns" else 1


def ticks(array: pa.Array, name: str) -> Int64Array:
    """The ticks of an event-time column.

    Raises InputError `input.null-time` if a row has no time, and `input.type` if the column isn't a time.
    """
    if not is_time(array.type):
        raise InputError("input.type", f"{name} is {array.type}, and a window needs a timestamp")
    refuse_nulls(array, name)
    return int64s(array.cast(tick_type(array.type)))


def refuse_nulls(array: pa.Array, name: str) -> None:
    """Raise InputError `input.null-time` if a row has no time: it would have no place in the order."""
    if array.null_count:
        row = pc.index(array.is_null(), pa.scalar(True)).as_py()
        message = f"{array.null_count} row(s) have no {name}, the first is row {row} of its batch"
        raise InputError("input.null-time", message, f"leave them out: WHERE {name} IS NOT NULL")


def floor_us(values: Int64Array, kind: pa.DataType) -> Int64Array:
    """The microsecond that each tick is in."""
    scale = ticks_per_us(kind)
    return values if scale == 1 else np.floor_divide(values, scale)


def times_us(column: pa.Array | pa.ChunkedArray) -> tuple[Int64Array, BoolArray | None]:
    """A time column in microseconds since the epoch, and where it is null (None: nowhere).

    >>> times_us(pa.array([1_999, -1], pa.timestamp("ns")))
    (array([ 1, -1]), None)
    """
    array = plain(column)
    assert is_time(array.type), array.type
    return floor_us(int64s(array.cast(tick_type(array.type))), array.type), null_mask(array)


def known_times_us(column: pa.Array | pa.ChunkedArray, name: str) -> Int64Array:
    """The microseconds of an event-time column; raises as `ticks` does."""
    array = plain(column)
    return floor_us(ticks(array, name), array.type)
