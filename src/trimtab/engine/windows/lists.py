"""Lists as columns: taking list arrays apart and putting them together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.windows.accumulator import Slots
from trimtab.machine_code.kernel import kernel


def taken_apart(lists: pa.Array) -> tuple[npt.NDArray[Any], Int64Array]:
    """The values of all lists of numbers, and where each list starts and the last one ends."""
    return lists.values.to_numpy(), lists.offsets.to_numpy().astype(np.int64)


def put_together(values: npt.NDArray[Any], offsets: Int64Array) -> pa.Array:
    """The lists that `taken_apart` takes apart."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


@kernel
def with_room(out: npt.NDArray[Any], used: int, more: int) -> npt.NDArray[Any]:
    """`out`, or a larger copy of it with room for some more."""
    if used + more <= out.size:
        return out
    larger = np.empty(2 * (used + more), out.dtype)
    for i in range(used):  # a slice assigned to a slice takes 2 s to compile
        larger[i] = out[i]
    return larger


def items_of(lists: pa.Array, slots: Slots) -> tuple[pa.Array, Slots]:
    """All items of all lists, and the slot that each goes to when its list goes to `slots`."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    if len(offsets) == 0:  # a list array of length zero may have no offsets at all
        return lists.values.slice(0, 0), Slots(np.empty(0, np.int64), slots.count)
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    return values, Slots(np.repeat(slots.ids, np.diff(offsets)), slots.count)


def lists_by_slot(columns: Sequence[pa.Array], slots: Slots) -> list[pa.Array]:
    """For every column, a list per slot of its items, in their order."""
    order, starts = slots.ordered
    places, offsets = pa.array(order), pa.array(starts, pa.int32())
    return [pa.ListArray.from_arrays(offsets, column.take(places)) for column in columns]
