"""How rows lie while frames move over them: key by key, those kept from before, then new ones."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.engine.columns.arrays import FloatArray, Int64Array
from trimtab.engine.columns.groups import counting_order
from trimtab.engine.columns.kernels import column_kernel
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
    if order.dtype == np.float64:
        wide = order.astype(np.float64, copy=False)
        return _range_floating(wide, layout.starts, layout.fresh, float(frame.preceding)), ends
    # Whole numbers are at most 5.5 apart if they are at most 5 apart.
    reach, whole = int(frame.preceding * scale), order.astype(np.int64, copy=False)
    return _range_whole(whole, layout.starts, layout.fresh, reach), ends


@column_kernel
def _range_whole(order: Int64Array, starts: Int64Array, fresh: Int64Array, reach: int) -> Int64Array:
    """The first place within `reach` before each new row."""
    out = np.zeros(order.size, np.int64)
    for key in range(fresh.size):
        left = starts[key]
        for i in range(fresh[key], starts[key + 1]):
            # Unsigned, because the distance of two int64 may not fit into one.
            while np.uint64(order[i]) - np.uint64(order[left]) > np.uint64(reach):
                left += 1
            out[i] = left
    return out


@column_kernel
def _range_floating(order: FloatArray, starts: Int64Array, fresh: Int64Array, reach: float) -> Int64Array:
    """As `_range_whole`; NaN comes last and is within reach of NaN only."""
    out = np.zeros(order.size, np.int64)
    for key in range(fresh.size):
        left = starts[key]
        for i in range(fresh[key], starts[key + 1]):
            if np.isnan(order[i]):
                while not np.isnan(order[left]):
                    left += 1
            else:
                while left < i and order[left] < order[i] - reach:
                    left += 1
            out[i] = left
    return out
