"""A plain selection: rows pass through unchanged. Its expressions are computed row by row, before and after it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from trimtab.engine.operator import TIME_US, Description, Moment, Obstacle, Operator, State


@dataclass(frozen=True, slots=True)
class Selection(Description):
    """Each row stands alone: there are no keys, no state, and no order."""

    partition = ()
    order = ()
    state_tables = ()

    @property
    def is_keyed(self) -> bool:
        """False: rows have no keys."""
        return False

    def signature(self) -> None:
        """None: there is no state that a signature would describe. Checkpoints contain this null."""

    def split_obstacle(self) -> Obstacle:
        """There are no keys that could be hot."""
        return Obstacle("it takes rows one by one, and they are on all engines already", "leave out split")

    def by_slot(self) -> Selection:
        """Unchanged: without keys there are no slots."""
        return self

    def _operator(self) -> Operator:
        return PassOn()


class PassOn(Operator):
    """Returns its rows without copying them; their `TIME_US` stays, or is null if they have none."""

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """The rows themselves."""
        del state, moment
        if TIME_US not in rows.column_names:
            rows = rows.append_column(TIME_US, pa.nulls(rows.num_rows, pa.int64()))
        return rows, {}

    def warm(self, schema: pa.Schema) -> bool:
        """There is no machine code to load."""
        del schema
        return False
