"""The state of a `KeyedQuery`, unpacked: a snapshot per key, and the rows that wait for the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, int64s, plain
from trimtab.engine.columns.keys import Keys, kept_rows, rows_to_keep
from trimtab.engine.columns.times import known_times_us
from trimtab.engine.keyed.description import KeyedOperator
from trimtab.engine.operator import State
from trimtab.errors import OperatorError
from trimtab.keyed_state import DEADLINE, KEY, KEYS

SNAPSHOTS, WAITING = "snapshots", "waiting"
WAKE, SNAPSHOT = "wake_us", "state"
NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Memory:
    """What is carried from batch to batch.

    `snapshots` are structs, at most one per key; `wakes_us` is when each of these keys is to be woken. `waiting`: rows
    that have not been handed over.
    """

    snapshots: pa.Array
    snapshot_keys: Int64Array
    wakes_us: Int64Array
    waiting: pa.Table
    waiting_keys: Int64Array

    @classmethod
    def of_state(
        cls, description: KeyedOperator, name: str, columns: Sequence[str], state: State, schema: pa.Schema
    ) -> Memory:
        """Read the state; `schema` is that of the rows.

        Raises OperatorError `operator.state` if the state was written with other types.
        """
        kind = state_type(description)
        none = {KEY: pa.array([], pa.int64()), WAKE: pa.array([], pa.int64()), SNAPSHOT: pa.array([], kind)}
        table = state.get(SNAPSHOTS, pa.table(none))
        snapshots = plain(table[SNAPSHOT])
        if snapshots.type != kind:
            message = f"the stored state is {snapshots.type}, but the declared one is {kind}"
            raise OperatorError("operator.state", name, message, "start again without the old state")
        waiting = kept_rows(state.get(WAITING), columns, schema)
        return cls(snapshots, int64s(plain(table[KEY])), int64s(plain(table[WAKE]).fill_null(NEVER)), *waiting)

    def to_state(self, keys: Keys, time: str | None) -> State:
        """Pack the state; keys without snapshot and rows are forgotten. `time` is the event-time column, if any."""
        used, deadlines = np.zeros(keys.count, np.bool_), np.full(keys.count, NEVER)
        used[self.waiting_keys] = used[self.snapshot_keys] = True
        deadlines[self.snapshot_keys] = self.wakes_us
        if time is not None and self.waiting.num_rows:
            np.minimum.at(deadlines, self.waiting_keys, known_times_us(self.waiting[time], time) + 1)
        numbers = np.cumsum(used) - 1
        columns = dict(keys.take(np.flatnonzero(used)).columns)
        columns[DEADLINE] = _times(deadlines[used])
        owners = pa.array(numbers[self.snapshot_keys], pa.int64())
        return {
            KEYS: pa.table(columns),
            SNAPSHOTS: pa.table({KEY: owners, WAKE: _times(self.wakes_us), SNAPSHOT: self.snapshots}),
            WAITING: rows_to_keep(self.waiting, numbers[self.waiting_keys]),
        }


def state_type(description: KeyedOperator) -> pa.DataType:
    """The type of a snapshot."""
    return pa.struct(list(description.state))


def _times(values: Int64Array) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == NEVER)
