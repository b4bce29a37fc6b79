"""The state of some slots of one operator at rest: sorted by slot, so that it can be searched, sliced and merged.

A slot is a key's hash with its key group in front (see `keyed_state`). Nothing here depends on what the
tables mean: rows that refer to other rows count from their key's first row, so they stay valid wherever a key moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.errors import StateError
from trimtab.keyed_state import DEADLINE, GROUP_SHIFT, KEY, KEYS, SLOT
from trimtab.state.gathering import Int64Array, Piece, Source, offsets, one_chunk, rows_of, spans
from trimtab.state.sharing import Shared

State = Mapping[str, pa.Table]
"""As operators return it: `keys`, and tables whose int64 column `key` is the row of their key in `keys`."""

_NONE = np.empty(0, np.int64)
_KEY_FIELD = pa.field(KEY, pa.int64())


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """The state of some slots of one operator at rest, sorted by slot.

    slots       (n,)       sorted and distinct: every slot that was written, also those that were freed
    key_starts  (n + 1,)   the rows of `keys` of each slot; none: the slot was freed
    tables                 `keys` sorted by slot; the others sorted by key, without their column `key`
    starts      (keys + 1,) per table other than `keys`: the rows of each key
    due_us, due_slots      slots with a deadline, the least of their keys, in order of it
    """

    slots: Int64Array
    key_starts: Int64Array
    tables: Mapping[str, pa.Table]
    starts: Mapping[str, Int64Array]
    due_us: Int64Array
    due_slots: Int64Array
    _sources: dict[str, Source] = field(default_factory=dict, repr=False)  # unpacked tables, made when first used

    @property
    def keys(self) -> int:
        """How many keys it holds."""
        return int(self.key_starts[-1])

    @property
    def first_due_us(self) -> int | None:
        """The first deadline; None: there is none."""
        return int(self.due_us[0]) if len(self.due_us) else None

    def state(self) -> State:
        """The state as operators take it, keys in order of their slots; an empty mapping if there are no keys."""
        return _as_state(_Columns(self.key_starts, self.tables, self.starts), Shared())

    def take(self, positions: Int64Array) -> Bundle:
        """The bundle of some of its slots, given by their ascending positions in `slots`."""
        return assemble([(self, positions)])

    def between(self, first_group: int, end_group: int) -> slice:
        """The positions of the slots of a range of key groups."""
        return slice(group_start(self.slots, first_group), group_start(self.slots, end_group))

    def source(self, name: str) -> Source:
        """A table, ready to take rows from."""
        found = self._sources.get(name)
        if found is None:
            found = self._sources[name] = Source(self.tables[name])
        return found


Part = tuple[Bundle, Int64Array]
"""Some of a bundle's slots: ascending positions in its `slots`."""


class _Columns(NamedTuple):
    """A bundle without its slots and deadlines."""

    key_starts: Int64Array
    tables: Mapping[str, pa.Table]
    starts: Mapping[str, Int64Array]


def group_start(slots: Int64Array, group: int) -> int:
    """The position of the first slot of a group, or of the groups after it if it has none.

    >>> group_start(np.array([5, 1 << 48, 3 << 48]), 1), group_start(np.array([5, 1 << 48, 3 << 48]), 32768)
    (1, 3)
    """
    # Searches for the slot before the group's first: the first one after the last group doesn't fit into 64 bits.
    return int(np.searchsorted(slots, (group << GROUP_SHIFT) - 1, side="right"))


def to_bundle(state: State, touched: Int64Array, shared: Shared | None = None) -> Bundle:
    """The state that an operator returned, as a bundle; touched slots without keys are freed.

    `touched` are the slots that the operator was given, in any order. Every key of the state has to be in one of them.
    `shared` has what was made for other queries of the same tables.
    """
    shared = shared or Shared()
    slots = np.asarray(touched, np.int64)
    if len(slots) > 1 and not (slots[1:] > slots[:-1]).all():
        slots = np.unique(slots)
    keys = state.get(KEYS)
    if keys is None or not keys.num_rows:
        return Bundle(slots, np.zeros(len(slots) + 1, np.int64), {}, {}, _NONE, _NONE)
    by_slot = shared.once("by slot", [keys, slots], partial(_by_slot, keys, slots))
    tables, starts = {KEYS: by_slot.keys}, dict[str, Int64Array]()
    for name, table in state.items():
        if name != KEYS:
            make = partial(_by_key, table, keys.num_rows, by_slot.order)
            tables[name], starts[name] = shared.once("by key", [table, keys], make)
    return Bundle(slots, by_slot.key_starts, tables, starts, *by_slot.due)


class _BySlot(NamedTuple):
    """The keys of a state sorted by slot."""

    keys: pa.Table
    order: Int64Array | None
    key_starts: Int64Array
    due: tuple[Int64Array, Int64Array]


def _by_slot(keys: pa.Table, slots: Int64Array) -> _BySlot:
    of_keys = _int64s(keys.column(SLOT))
    # Which of a slot's keys comes first doesn't matter, so the quickest sort is used.
    order = None if (of_keys[1:] >= of_keys[:-1]).all() else np.argsort(of_keys)
    key_starts = _key_starts(of_keys if order is None else of_keys[order], slots)
    table = _sorted(one_chunk(keys), order)
    return _BySlot(table, order, key_starts, _due(table, slots, key_starts))


def _by_key(table: pa.Table, keys: int, order: Int64Array | None) -> tuple[pa.Table, Int64Array]:
    """A table sorted by keys, and where the rows of each begin."""
    row_order, counts = _rows_by_key(_int64s(table.column(KEY)), keys, order)
    return _sorted(one_chunk(table.drop_columns([KEY])), row_order), offsets(counts)


def assemble(parts: Sequence[Part]) -> Bundle:
    """One bundle made of parts of several, which have no slot in common."""
    slots, columns = _gathered(parts, Shared())
    keys = columns.tables.get(KEYS)
    due = (_NONE, _NONE) if keys is None else _due(keys, slots, columns.key_starts)
    return Bundle(slots, *columns, *due)


def state_of(parts: Sequence[Part], shared: Shared | None = None) -> State:
    """The state of parts of several bundles, which have no slot in common, as operators take it."""
    shared = shared or Shared()
    return _as_state(_gathered(parts, shared)[1], shared)


def _rows_by_key(owners: Int64Array, keys: int, order: Int64Array | None) -> tuple[Int64Array | None, Int64Array]:
    """The order that sorts rows by their keys, as `order` sorts these, and how many rows each key then has."""
    counts = np.bincount(owners, minlength=keys)
    if len(owners) > 1 and (owners[1:] < owners[:-1]).any():
        by_owner = np.argsort(owners, kind="stable")  # a key's rows keep their order
        row_order, counts = _reordered(counts, order)
        return by_owner if row_order is None else by_owner[row_order], counts
    return _reordered(counts, order)


def _key_starts(of_keys: Int64Array, slots: Int64Array) -> Int64Array:
    key_starts = np.empty(len(slots) + 1, np.int64)
    key_starts[:-1] = np.searchsorted(of_keys, slots)
    key_starts[-1] = len(of_keys)
    # Every key has to be in one of the slots.
    places = np.minimum(np.searchsorted(slots, of_keys), max(0, len(slots) - 1))
    outside = slots[places] != of_keys if len(slots) else np.ones(len(of_keys), np.bool_)
    if outside.any():
        wrong = of_keys[outside]
        message = f"{len(wrong)} keys are in the state whose slots were not touched, first {wrong[0]}"
        hint = "this is a mistake in trimtab: please report it; nothing was written"
        raise StateError("state.internal", message, hint)
    return key_starts


def _due(keys: pa.Table, slots: Int64Array, key_starts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The slots that have a deadline, the least of their keys, in order of it."""
    if DEADLINE not in keys.column_names or not keys.num_rows:
        return _NONE, _NONE
    deadlines = keys.column(DEADLINE)
    counts = np.diff(key_starts)
    if deadlines.null_count == 0:
        at = _int64s(deadlines)
        has = np.ones(len(at), np.bool_)
    else:
        at = _int64s(pc.fill_null(deadlines, 0))
        has = deadlines.is_valid().to_numpy()
    if counts.max() == 1:
        due_us, due_slots = at[has], slots[counts > 0][has]
    else:  # several keys share a slot
        at, owners = at[has], np.repeat(slots, counts)[has]
        order = np.lexsort((at, owners))
        at, owners = at[order], owners[order]
        first = np.ones(len(at), np.bool_)
        first[1:] = owners[1:] != owners[:-1]
        due_us, due_slots = at[first], owners[first]
    order = np.argsort(due_us)
    return due_us[order], due_slots[order]


class _Chosen(NamedTuple):
    """The slots of some parts: the rows of their keys, and in which order these come."""

    slots: Int64Array
    key_starts: Int64Array
    rows: list[Int64Array]  # of each part
    key_order: Int64Array | None


def _chosen(parts: Sequence[Part]) -> _Chosen:
    slots = np.concatenate([bundle.slots[positions] for bundle, positions in parts])
    order = None if len(parts) == 1 or (slots[1:] > slots[:-1]).all() else np.argsort(slots)  # all differ
    rows = [spans(bundle.key_starts[at], bundle.key_starts[at + 1]) for bundle, at in parts]
    counts = np.concatenate([bundle.key_starts[at + 1] - bundle.key_starts[at] for bundle, at in parts])
    key_order, counts = _reordered(counts, order)
    return _Chosen(slots if order is None else slots[order], offsets(counts), rows, key_order)


def _gathered(parts: Sequence[Part], shared: Shared) -> tuple[Int64Array, _Columns]:
    parts = [(bundle, positions) for bundle, positions in parts if len(positions)]
    if not parts:
        return _NONE, _Columns(np.zeros(1, np.int64), {}, {})
    given = [each for bundle, positions in parts for each in (bundle.slots, bundle.key_starts, positions)]
    chosen = shared.once("chosen", given, lambda: _chosen(parts))
    names = dict.fromkeys(name for bundle, _ in parts for name in bundle.tables)
    tables: dict[str, pa.Table] = {}
    starts: dict[str, Int64Array] = {}
    for name in names:
        own = [each for bundle, _ in parts for each in (bundle.tables.get(name), bundle.starts.get(name))]
        if name == KEYS:
            tables[KEYS] = shared.once(KEYS, [*given, *own], lambda: _keys_of(parts, chosen))
        else:
            make = partial(_rows_of_keys, parts, chosen, name)
            tables[name], starts[name] = shared.once("rows", [*given, *own], make)
    return chosen.slots, _Columns(chosen.key_starts, tables, starts)


def _keys_of(parts: Sequence[Part], chosen: _Chosen) -> pa.Table:
    own = zip(parts, chosen.rows, strict=True)
    having = [(bundle.source(KEYS), rows) for (bundle, _), rows in own if KEYS in bundle.tables]
    return rows_of(_whole(having), chosen.key_order)


def _rows_of_keys(parts: Sequence[Part], chosen: _Chosen, name: str) -> tuple[pa.Table, Int64Array]:
    """The rows of a table, and where those of each key begin."""
    pieces: list[Piece] = []
    sizes: list[Int64Array] = []
    for (bundle, _), own in zip(parts, chosen.rows, strict=True):
        if name not in bundle.tables:
            sizes.append(np.zeros(len(own), np.int64))
            continue
        of_key = bundle.starts[name]
        begin, end = of_key[own], of_key[own + 1]
        sizes.append(end - begin)
        pieces.append((bundle.source(name), spans(begin, end)))
    row_order, row_counts = _reordered(np.concatenate(sizes), chosen.key_order)
    return rows_of(_whole(pieces), row_order), offsets(row_counts)


def _reordered(counts: Int64Array, order: Int64Array | None) -> tuple[Int64Array | None, Int64Array]:
    """Items with `counts` rows each, put in another order: the order of their rows, and the counts in that order."""
    if order is None:
        return None, counts
    starts = offsets(counts)
    return spans(starts[:-1][order], starts[1:][order]), counts[order]


def _whole(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, with adjacent rows as a range: copying is quicker than picking."""
    found: list[Piece] = []
    for source, rows in pieces:
        is_range = len(rows) > 0 and rows[-1] - rows[0] == len(rows) - 1  # rows ascend
        found.append((source, range(int(rows[0]), int(rows[-1]) + 1) if is_range else rows))
    return found


def _as_state(columns: _Columns, shared: Shared) -> State:
    if not int(columns.key_starts[-1]):
        return {}
    state: dict[str, pa.Table] = {KEYS: columns.tables[KEYS]}
    for name, starts in columns.starts.items():
        table = columns.tables[name]
        state[name] = shared.once("with keys", [table, starts], partial(_with_keys, table, starts))
    return state


def _with_keys(table: pa.Table, starts: Int64Array) -> pa.Table:
    of_rows = pa.array(np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts)))
    # Without columns Arrow counts no rows: the starts know them.
    return table.add_column(0, _KEY_FIELD, of_rows) if table.num_columns else pa.table({KEY: of_rows})


def _sorted(table: pa.Table, order: Int64Array | None) -> pa.Table:
    return table if order is None else rows_of([(Source(table), order)], None)


def _int64s(column: pa.ChunkedArray) -> Int64Array:
    return np.asarray(column.to_numpy(), np.int64)
