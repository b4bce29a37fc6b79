"""A plain selection: rows that pass on as they are. All its work is done on single rows, before and after it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from trimtab.engine.operator import DEFAULTS, TIME_US, Description, Moment, Obstacle, Operator, Settings, State


@dataclass(frozen=True, slots=True)
class Selection(Description):
    """Rows don't meet: there are no keys, no state, and no order."""

    partition = ()
    order = ()
    state_tables = ()

    @property
    def is_keyed(self) -> bool:
        """They don't."""
        return False

    def signature(self) -> None:
        """None: there is no state that a signature would have to describe, and checkpoints say so."""

    def split_obstacle(self) -> Obstacle:
        """There are no hot keys."""
        return Obstacle("it takes rows one by one, and they are on all engines already", "leave out split")

    def by_slot(self) -> Selection:
        """Slots are for keys."""
        return self

    def open(self, settings: Settings = DEFAULTS) -> Operator:
        """It needs nothing."""
        del settings
        return PassOn()


class PassOn(Operator):
    """Gives the rows that it is handed, nothing copied, dated as they come or not at all."""

    def advance(self, rows: pa.Table, state: State, moment: Moment) -> tuple[pa.Table, State]:
        """The rows themselves."""
        del state, moment
        if TIME_US not in rows.column_names:
            rows = rows.append_column(TIME_US, pa.nulls(rows.num_rows, pa.int64()))
        return rows, {}

    def warm(self, schema: pa.Schema) -> bool:
        """Nothing is computed here."""
        del schema
        return False
