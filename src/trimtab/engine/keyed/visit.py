"""Calls a user's code for one key, and checks its results against what its description declares.

Whatever fails there is raised as an `OperatorError` that names the operator, the key and the method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import index
from typing import Any, TypeVar

import pyarrow as pa

from trimtab.engine.columns.keys import Keys
from trimtab.engine.keyed.description import Closing, KeyedOperator, Logic, Snapshot, Timed
from trimtab.engine.operator import is_internal
from trimtab.errors import OperatorError

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Visit:
    """One key's turn in a batch: the output of its logic is gathered in `outputs`, each table with its event time.

    `date_us` is the largest event time among the key's rows; None: it gets no rows, or there is no event time.
    """

    name: str
    description: KeyedOperator
    keys: Keys
    number: int
    date_us: int | None = None
    outputs: list[tuple[pa.Table, int | None]] = field(default_factory=list)

    def open(self, snapshot: Snapshot | None) -> Logic:
        """The key's logic."""
        return self.call("open", self.description.open, snapshot)

    def hand_over(self, logic: Logic, rows: pa.Table) -> None:
        """Hand the key's next rows to its logic."""
        self._gather("on_rows", self.call("on_rows", logic.on_rows, rows), self.date_us)

    def wake(self, logic: Logic, watermark_us: int) -> None:
        """Call `on_time` for every time up to the watermark that the logic asks for."""
        last: int | None = None
        while (wake := self.wake_us(logic)) is not None and wake <= watermark_us:
            assert isinstance(logic, Timed)
            if last is not None and wake <= last:
                message = f"it asks for {wake} after on_time({last})"
                raise self._error("operator.failed", "wake_us", message, "on_time has to set a later time, or none")
            self._gather("on_time", self.call("on_time", logic.on_time, wake), watermark_us)
            last = wake

    def wake_us(self, logic: Logic) -> int | None:
        """When the logic asks to be woken."""
        if not _has_methods_of(Timed, type(logic)):
            return None
        assert isinstance(logic, Timed)
        wake = self.call("wake_us", logic.wake_us)
        return None if wake is None else self.call("wake_us", index, wake)

    def close(self, logic: Logic, watermark_us: int | None) -> None:
        """Call `on_close`, if the key still has a snapshot."""
        if _has_methods_of(Closing, type(logic)) and self.snapshot(logic) is not None:
            assert isinstance(logic, Closing)
            date_us = watermark_us if self.date_us is None else self.date_us
            self._gather("on_close", self.call("on_close", logic.on_close), date_us)

    def snapshot(self, logic: Logic) -> Snapshot | None:
        """The key's snapshot, checked."""
        return self.checked("snapshot", self.call("snapshot", logic.snapshot))

    def merge(self, left: Snapshot, right: Snapshot) -> Snapshot:
        """Merge two snapshots."""
        merged = self.checked("merge", self.call("merge", self.description.merge, left, right))
        if merged is None:
            raise self._error("operator.state", "merge", "it gave nothing")
        return merged

    def call(self, method: str, function: Callable[..., Answer], *args: Any) -> Answer:
        """Call the user's code; raises OperatorError `operator.failed` if it raises."""
        try:
            return function(*args)
        except Exception as error:
            raise self._error("operator.failed", method, f"{type(error).__name__}: {error}") from error

    def checked(self, method: str, snapshot: Snapshot | None) -> Snapshot | None:
        """The snapshot, if it has the declared names."""
        if snapshot is None:
            return None
        if not isinstance(snapshot, dict):
            raise self._error("operator.state", method, f"it gave {_article(snapshot)}, and a state is a dict")
        names = self.description.state.names
        if snapshot.keys() != set(names):
            given = ", ".join(map(str, snapshot)) or "nothing"
            message = f"it gave {given}, and the state is {', '.join(names) or 'nothing'}"
            raise self._error("operator.state", method, message, "give exactly the fields of `state`")
        return snapshot

    def refuse_values(self, snapshot: Snapshot) -> None:
        """Raise if a value of a snapshot doesn't fit its type."""
        for each in self.description.state:
            try:
                pa.array([snapshot[each.name]], each.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                message = f"{each.name} is {snapshot[each.name]!r}, and declared as {each.type}"
                raise self._error("operator.state", "snapshot", message) from error

    def _gather(self, method: str, table: pa.Table | None, date_us: int | None) -> None:
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if table is None:
            return
        schema = self.description.output
        if not isinstance(table, pa.Table):
            raise self._wrong_output(method, f"it gave {_article(table)}, and not a pyarrow table or None")
        if sorted(table.column_names) != sorted(schema.names):
            given = ", ".join(table.column_names) or "nothing"
            raise self._wrong_output(method, f"it gave {given}, and the output is {', '.join(schema.names)}")
        columns = [self._column(method, each, table.column(each.name)) for each in schema]
        if table.num_rows:
            self.outputs.append((pa.table(columns, schema=schema), date_us))

    def _column(self, method: str, declared: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if column.type == declared.type:
            return column
        if pa.types.is_null(column.type):  # Arrow's type for a list without values
            return pa.chunked_array([pa.nulls(len(column), declared.type)])
        raise self._wrong_output(method, f"{declared.name} is {column.type}, and declared as {declared.type}")

    def _wrong_output(self, method: str, message: str) -> OperatorError:
        return self._error("operator.output", method, message, "build it with pa.table(..., schema=...) of `output`")

    def _error(self, code: str, method: str, message: str, hint: str = "") -> OperatorError:
        return OperatorError(code, self.name, message, hint, method, key_text(self.keys, self.number))


def snapshots_as_arrow(visits: Sequence[Visit], snapshots: Sequence[Snapshot], kind: pa.DataType) -> pa.Array:
    """The snapshots as one column."""
    try:
        return pa.array([dict(each) for each in snapshots], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for visit, snapshot in zip(visits, snapshots, strict=True):
            visit.refuse_values(snapshot)
        raise


def key_text(keys: Keys, number: int) -> str:
    """The key, as error messages show it."""
    named = [f"{name} = {column[number].as_py()!r}" for name, column in keys.columns.items() if not is_internal(name)]
    return ", ".join(named) or "all rows"


@lru_cache(maxsize=256)
def _has_methods_of(protocol: type, logic: type) -> bool:
    return issubclass(logic, protocol)  # slow for a protocol, so answers are kept


def _article(value: object) -> str:
    word = type(value).__name__
    return f"an {word}" if word[0].lower() in "aeiou" else f"a {word}"
