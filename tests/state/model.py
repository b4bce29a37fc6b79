"""States for tests: a dictionary from slots to their keys, and the tables that operators would return."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from trimtab.state.bundle import State
from trimtab.state.gathering import Int64Array

UTC = ZoneInfo("UTC")
KEY_FIELDS = pa.schema(
    [
        ("__slot", pa.int64()),
        ("name", pa.string()),
        ("deadline_us", pa.int64()),
        ("amount", pa.decimal128(21, 3)),
        ("flag", pa.bool_()),
    ]
)
ROW_FIELDS = pa.schema(
    [
        ("key", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
    ]
)
THREAD_FIELDS = pa.schema([("i0", pa.int64()), ("key", pa.int64())])  # `key` need not be the first column


@dataclass(frozen=True)
class Key:
    """One key: its row in `keys`, and the rows it has in the other tables."""

    row: tuple[Any, ...]
    rows: tuple[tuple[Any, ...], ...]
    threads: tuple[int, ...]

    @property
    def deadline_us(self) -> int | None:
        found: int | None = self.row[1]
        return found


Model = dict[int, tuple[Key, ...]]
"""Slots with their keys; a slot without keys is not in it."""


def slot(group: int, rest: int) -> int:
    return group << 48 | rest


def random_key(random: np.random.Generator) -> Key:
    def maybe(value: Any) -> Any:
        return None if random.random() < 0.3 else value

    row = (
        maybe(f"key {random.integers(1000)}"),
        maybe(int(random.integers(-50, 50))),
        maybe(decimal.Decimal(int(random.integers(-(10**9), 10**9))).scaleb(-3)),
        maybe(bool(random.integers(2))),
    )
    rows = tuple(
        (
            maybe(datetime.datetime(2026, 1, 1, tzinfo=UTC) + datetime.timedelta(microseconds=int(us))),
            maybe(float(random.normal())),
            maybe([{"a": maybe(int(us) % 7), "b": maybe("x" * (int(us) % 3))} for _ in range(int(us) % 4)]),
        )
        for us in random.integers(0, 10**9, int(random.integers(0, 4)))
    )
    return Key(row, rows, tuple(random.integers(0, 99, int(random.integers(0, 3))).tolist()))


def tables_of(model: Mapping[int, tuple[Key, ...]], random: np.random.Generator | None = None) -> State:
    """The state as an operator would return it: keys in any order, rows of the other tables too."""
    keys = [(at, key) for at in sorted(model) for key in model[at]]
    if not keys:
        return {}
    if random is not None:
        keys = [keys[i] for i in random.permutation(len(keys))]
    table = pa.Table.from_pylist(
        [dict(zip(KEY_FIELDS.names, (at, *key.row), strict=True)) for at, key in keys], KEY_FIELDS
    )
    rows = [(number, *row) for number, (_, key) in enumerate(keys) for row in key.rows]
    threads = [(value, number) for number, (_, key) in enumerate(keys) for value in key.threads]
    rows_table = pa.Table.from_pylist([dict(zip(ROW_FIELDS.names, row, strict=True)) for row in rows], ROW_FIELDS)
    threads_table = pa.Table.from_pylist(
        [dict(zip(THREAD_FIELDS.names, row, strict=True)) for row in threads], THREAD_FIELDS
    )
    if random is not None:  # shuffled by key, but each key's rows stay in their order
        rows_table, threads_table = (
            each.take(pa.array(np.argsort(random.permutation(len(keys))[each["key"].to_numpy()], kind="stable")))
            for each in (rows_table, threads_table)
        )
        if len(keys) > 2:  # several chunks
            table = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    return {"keys": table, "rows": rows_table, "threads": threads_table}


def model_of(state: State) -> Model:
    """The model of a state."""
    if not state:
        return {}
    assert state["keys"].schema.equals(KEY_FIELDS)
    keys = state["keys"].to_pylist()
    rows: list[list[tuple[Any, ...]]] = [[] for _ in keys]
    threads: list[list[int]] = [[] for _ in keys]
    for row in state["rows"].to_pylist():
        rows[row["key"]].append((row["at"], row["price"], row["tags"]))
    for row in state["threads"].to_pylist():
        threads[row["key"]].append(row["i0"])
    found: dict[int, list[Key]] = {}
    for number, key in enumerate(keys):
        own = Key(tuple(key.values())[1:], tuple(rows[number]), tuple(threads[number]))
        found.setdefault(key["__slot"], []).append(own)
    assert list(found) == sorted(found)
    return {at: tuple(own) for at, own in found.items()}


def same(found: Model, expected: Mapping[int, tuple[Key, ...]]) -> bool:
    """Whether two models are equal; keys that share a slot may be in any order."""

    def plain(model: Mapping[int, tuple[Key, ...]]) -> dict[int, list[str]]:
        return {at: sorted(repr(key) for key in keys) for at, keys in model.items()}

    return plain(found) == plain(expected)


def due(model: Mapping[int, tuple[Key, ...]], after_us: int | None, until_us: int) -> list[int]:
    """The slots whose least deadline is in that time."""
    found: list[int] = []
    for at, keys in model.items():
        least = min((key.deadline_us for key in keys if key.deadline_us is not None), default=None)
        if least is not None and (after_us is None or after_us < least) and least <= until_us:
            found.append(at)
    return sorted(found)


def array(slots: Any) -> Int64Array:
    return np.array(sorted(slots), np.int64)
