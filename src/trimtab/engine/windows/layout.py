"""How rows lie while frames move over them: key by key, those kept from before, then new ones."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import FloatArray, Int64Array
from trimtab.engine.columns.groups import counting_order
from trimtab.engine.columns.kernels import column_kernel
from trimtab.engine.columns.order import order_codes
from trimtab.engine.signature import signed


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of rows.

    order    (m,)     the row at each place; rows are numbered kept ones first, then new ones
    keys     (m,)     the key at each place
    starts   (k + 1,) the first place of each key
    fresh    (k,)     the first place of each key's new rows
    places   (r,)     the place of every new row, in the order in which they are put out
    peers    (m,)     the end (exclusive) of the places with an equal order (new rows only)
    """

    order: Int64Array
    keys: Int64Array
    starts: Int64Array
    fresh: Int64Array
    places: Int64Array
    peers: Int64Array


def lay_out(kept: Int64Array, new: Int64Array, by_time: Int64Array, ranks: Sequence[Int64Array], count: int) -> Layout:
    """Lay rows out; `kept` and `new` are key numbers, `by_time` sorts the new rows, `ranks` are their order columns."""
    rows = np.concatenate([np.arange(len(kept)), by_time + len(kept)])
    keys = np.concatenate([kept, new[by_time]])
    order, starts = counting_order(keys, count)
    places = np.empty(len(rows), np.int64)
    places[order] = np.arange(len(rows))
    order, keys = rows[order], keys[order]
    fresh = starts[:-1] + np.bincount(kept, minlength=count)
    # A place ends its peers if the next one is of another key or differs in the order columns.
    ends = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
    for rank in ranks:
        values = np.concatenate([np.zeros(len(kept), np.int64), rank])[order]
        ends[:-1] |= values[1:] != values[:-1]
    stops = np.where(ends, np.arange(1, len(keys) + 1), len(keys))
    peers = np.minimum.accumulate(stops[::-1])[::-1]
    return Layout(order, keys, starts, fresh, places[len(kept) :], peers)


class Unit(enum.Enum):
    """What a frame's length counts."""

    ROWS = "ROWS"
    RANGE = "RANGE"


@signed("frame")
@dataclass(frozen=True, slots=True)
class Frame:
    """The rows before the current one that belong to its frame; `preceding` None: all of them.

    A RANGE is measured in microseconds over a time, or in the unit of a number; rows that are equal
    to the current one in the order belong to its frame, too.
    """

    unit: Unit = Unit.RANGE
    preceding: int | float | None = None


def bounds(frame: Frame, layout: Layout, order: Int64Array | FloatArray, scale: int) -> tuple[Int64Array, Int64Array]:
    """The first place of each new row's frame, and its end (exclusive).

    `order` is the order column by place; `scale` of its units are one of the frame's.
    """
    here = np.arange(len(layout.order))
    ends = here + 1 if frame.unit is Unit.ROWS else layout.peers
    first = layout.starts[layout.keys]
    if frame.preceding is None:
        return first, ends
    if frame.unit is Unit.ROWS:
        return np.maximum(first, here - int(frame.preceding)), ends
    codes, limits = (order_codes(pa.array(each)) for each in (order, further_back(order, frame.preceding * scale)))
    return _first_within(codes, limits, layout.starts, layout.fresh), ends


def further_back(order: Int64Array | FloatArray, reach: int | float) -> Int64Array | FloatArray:
    """The positions `reach` before these, but not before the smallest int64."""
    if order.dtype == np.float64:
        return np.asarray(order - reach, np.float64)
    # Unsigned, because the distance of two int64 may not fit into one.
    room = order.astype(np.uint64) - np.uint64(2**63)
    return np.asarray(order - np.minimum(room, np.uint64(int(reach))).astype(np.int64), np.int64)


@column_kernel
def _first_within(codes: Int64Array, limits: Int64Array, starts: Int64Array, fresh: Int64Array) -> Int64Array:
    """The first place whose code is at or after each new row's limit. NaN, which comes last, has only NaN within."""
    out = np.zeros(codes.size, np.int64)
    for key in range(fresh.size):
        left = starts[key]
        for i in range(fresh[key], starts[key + 1]):
            while codes[left] < limits[i]:
                left += 1
            out[i] = left
    return out
