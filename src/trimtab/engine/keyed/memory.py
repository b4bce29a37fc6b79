"""The state of a `KeyedQuery`, unpacked: a snapshot per key, and the rows that wait for the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trimtab.engine.columns.arrays import Int64Array, int64s, plain, plain_type
from trimtab.engine.columns.keys import Keys
from trimtab.engine.columns.times import known_times_us
from trimtab.engine.keyed.description import KeyedOperator
from trimtab.engine.operator import State
from trimtab.errors import OperatorError
from trimtab.keyed_state import DEADLINE, KEY, KEYS, ROW

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
    def of_state(cls, description: KeyedOperator, name: str, columns: Sequence[str], state: State) -> Memory:
        """Read a state that isn't empty. Raises OperatorError `operator.state` if it was written with other types."""
        table, kind = state[SNAPSHOTS], state_type(description)
        snapshots = plain(table[SNAPSHOT])
        if snapshots.type != kind:
            message = f"the stored state is {snapshots.type}, but the declared one is {kind}"
            raise OperatorError("operator.state", name, message, "start again without the old state")
        waiting = state[WAITING].select([f"{ROW}{c}" for c in columns]).rename_columns(list(columns))
        return cls(
            snapshots=snapshots,
            snapshot_keys=int64s(plain(table[KEY])),
            wakes_us=int64s(plain(table[WAKE]).fill_null(NEVER)),
            waiting=waiting,
            waiting_keys=int64s(plain(state[WAITING][KEY])),
        )

    @classmethod
    def empty(cls, description: KeyedOperator, columns: Sequence[str], schema: pa.Schema) -> Memory:
        """The memory before the first row of such a schema."""
        none = np.empty(0, np.int64)
        fields = [pa.field(c, plain_type(schema.field(c).type)) for c in columns]
        return cls(pa.array([], state_type(description)), none, none, pa.schema(fields).empty_table(), none)

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
        names = [KEY, *(f"{ROW}{name}" for name in self.waiting.column_names)]
        owners, waiting_owners = (pa.array(numbers[own], pa.int64()) for own in (self.snapshot_keys, self.waiting_keys))
        return {
            KEYS: pa.table(columns),
            SNAPSHOTS: pa.table({KEY: owners, WAKE: _times(self.wakes_us), SNAPSHOT: self.snapshots}),
            WAITING: pa.table([waiting_owners, *self.waiting.columns], names=names),
        }


def state_type(description: KeyedOperator) -> pa.DataType:
    """The type of a snapshot."""
    return pa.struct(list(description.state))


def _times(values: Int64Array) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == NEVER)
