"""The state of an `OverQuery`, unpacked: totals per key, and the rows that are still needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import BoolArray, Int64Array, int64s, plain
from trimtab.engine.columns.keys import Keys, kept_rows, rows_to_keep
from trimtab.engine.columns.times import known_times_us
from trimtab.engine.operator import Moment, State
from trimtab.engine.windows.over_call import OverColumns
from trimtab.keyed_state import DEADLINE, KEYS

FRAME, WAITING = "frame", "waiting"
SEEN = "__seen"  # the state column of `rows_before`; checkpoints have this name
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Memory:
    """What is carried from batch to batch.

    Per key: `rows_before`, the number of rows that have left; `last`, the order columns of the last
    of them; and `parts`, the partial results of each call. `frame`: rows that have left and are in
    reach of frames. `waiting`: rows that have not left.
    """

    rows_before: Int64Array
    last: list[pa.Array]
    parts: list[list[pa.Array]]
    frame: pa.Table
    frame_keys: Int64Array
    waiting: pa.Table
    waiting_keys: Int64Array

    @classmethod
    def of_state(cls, over: OverColumns, state: State, count: int) -> Memory:
        """Read the state for `count` keys; new keys have no rows yet."""
        keys = state.get(KEYS)

        def column(name: str, kind: pa.DataType) -> pa.Array:
            known = pa.array([], kind) if keys is None else plain(keys[name]).cast(kind)
            return pa.concat_arrays([known, _blank(kind, count - len(known))])

        parts = [[column(name, field.type) for name, field in _part_columns(over, i)] for i in range(len(over.calls))]
        last = [column(last_column(i), over.type_of(k.column)) for i, k in enumerate(over.order)]
        rows_before = int64s(column(SEEN, pa.int64()))
        frame = kept_rows(state.get(FRAME), over.retained, over.schema)
        return cls(rows_before, last, parts, *frame, *kept_rows(state.get(WAITING), over.columns, over.schema))

    def to_state(self, over: OverColumns, keys: Keys, moment: Moment) -> State:
        """Pack the state; keys that no later row depends on are forgotten."""
        used, deadlines = self._lifetimes(over, keys.count, moment)
        numbers, chosen = np.cumsum(used) - 1, pa.array(used)
        columns = dict(keys.take(np.flatnonzero(used)).columns)
        columns[DEADLINE] = pa.array(deadlines, mask=deadlines == NEVER).filter(chosen)
        columns[SEEN] = pa.array(self.rows_before[used])
        for i, last in enumerate(self.last):
            columns[last_column(i)] = last.filter(chosen)
        for i, parts in enumerate(self.parts):
            for (name, _), part in zip(_part_columns(over, i), parts, strict=True):
                columns[name] = part.filter(chosen)
        return {
            KEYS: pa.table(columns),
            FRAME: rows_to_keep(self.frame, numbers[self.frame_keys]),
            WAITING: rows_to_keep(self.waiting, numbers[self.waiting_keys]),
        }

    def _lifetimes(self, over: OverColumns, count: int, moment: Moment) -> tuple[BoolArray, Int64Array]:
        """Which keys stay, and the watermark at which each must be visited."""
        used, deadlines = np.ones(count, np.bool_), np.full(count, NEVER)
        if moment.watermark_us is None:
            return used, deadlines  # the last order of every key is needed
        if over.forgetful:
            used[:] = False
            used[self.waiting_keys] = used[self.frame_keys] = True
            if over.range_back is not None:
                # The last row in reach decides when a key can be forgotten.
                latest = np.full(count, -NEVER)
                reach = int(over.range_back) + 1
                np.maximum.at(latest, self.frame_keys, known_times_us(self.frame[over.time], over.time) + reach)
                deadlines = np.where(latest > -NEVER, latest, deadlines)
        np.minimum.at(deadlines, self.waiting_keys, known_times_us(self.waiting[over.time], over.time) + 1)
        return used, deadlines


def last_column(place: int) -> str:
    """The column with the last value of the order column at this place."""
    return f"__last{place}"


def _part_columns(over: OverColumns, call: int) -> list[tuple[str, pa.Field]]:
    """The columns of a call's partial results, with their names in the state."""
    if over.calls[call].bounded:
        return []
    name = over.calls[call].name
    return [(f"{name}.{field.name}", field) for field in over.running[call].fields]


def _blank(kind: pa.DataType, count: int) -> pa.Array:
    """The partial results of keys without rows: zero, empty, or null."""
    if pa.types.is_integer(kind):
        return pa.array(np.zeros(count, np.int64)).cast(kind)
    if pa.types.is_fixed_size_list(kind):
        zeros = _blank(kind.value_type, count * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(zeros, kind.list_size)
    if pa.types.is_list(kind):
        offsets = pa.array(np.zeros(count + 1), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array([], kind.value_type))
    return pa.nulls(count, kind)
