"""Bundles: states come back as they were, in order of their slots."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.model import ROW_FIELDS, Model, array, due, model_of, random_key, same, slot, tables_of
from trimtab.errors import StateError
from trimtab.state.bundle import Bundle, assemble, to_bundle

ROUNDS = st.integers(0, 2**32)


def random_model(random: np.random.Generator) -> Model:
    slots = [slot(int(group), int(rest)) for group, rest in random.integers(0, 9, (int(random.integers(0, 20)), 2))]
    return {at: tuple(random_key(random) for _ in range(int(random.integers(1, 3)))) for at in slots}


@given(ROUNDS)
def test_a_state_comes_back_as_it_was(seed: int) -> None:
    random = np.random.default_rng(seed)
    model = random_model(random)
    freed = {slot(int(group), 100) for group in random.integers(0, 9, 3)}
    bundle = to_bundle(tables_of(model, random), array({*model, *freed}))
    assert bundle.slots.tolist() == sorted({*model, *freed})
    assert np.diff(bundle.key_starts).tolist() == [len(model.get(at, ())) for at in bundle.slots.tolist()]
    assert same(model_of(bundle.state()), model)
    assert (np.diff(bundle.due_us) >= 0).all()
    assert sorted(bundle.due_slots.tolist()) == due(model, None, 10**9)
    for us, at in zip(bundle.due_us.tolist(), bundle.due_slots.tolist(), strict=True):
        assert us == min(key.deadline_us for key in model[at] if key.deadline_us is not None)


@given(ROUNDS)
def test_some_slots_can_be_taken(seed: int) -> None:
    random = np.random.default_rng(seed)
    model = random_model(random)
    bundle = to_bundle(tables_of(model, random), array({*model, slot(3, 100)}))
    positions = np.flatnonzero(random.random(len(bundle.slots)) < 0.5)
    part = bundle.take(positions)
    assert part.slots.tolist() == bundle.slots[positions].tolist()
    expected = {at: model[at] for at in part.slots.tolist() if at in model}
    assert same(model_of(part.state()), expected)
    assert sorted(part.due_slots.tolist()) == due(expected, None, 10**9)


@given(ROUNDS)
def test_parts_of_several_bundles_make_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    model = random_model(random)
    dealt = {at: int(random.integers(0, 4)) for at in model}
    parts = []
    for number in range(4):
        own = {at: keys for at, keys in model.items() if dealt[at] == number}
        bundle = to_bundle(tables_of(own, random), array({*own, slot(8, 100 + number)}))
        parts.append((bundle, np.arange(len(bundle.slots))))
    merged = assemble(parts)
    assert merged.slots.tolist() == sorted({*model, *(slot(8, 100 + n) for n in range(4))})
    assert same(model_of(merged.state()), model)


def keys_of(slots: list[int], **columns: Any) -> pa.Table:
    return pa.table({"__slot": slots, **columns})


def test_an_empty_state_frees_all_touched_slots() -> None:
    for state in ({}, {"keys": keys_of([]).cast(pa.schema([("__slot", pa.int64())]))}):
        bundle = to_bundle(state, np.array([7, 3]))
        assert (bundle.slots.tolist(), bundle.key_starts.tolist(), dict(bundle.state())) == ([3, 7], [0, 0, 0], {})


def test_a_key_that_was_not_touched_is_a_mistake() -> None:
    for slots, touched in (([1], [2]), ([5], [2]), ([2, 3], [2, 4]), ([1], [])):
        with pytest.raises(StateError, match="not touched") as raised:
            to_bundle({"keys": keys_of(slots)}, np.array(touched, np.int64))
        assert raised.value.code == "state.internal"


def test_rows_of_a_key_keep_their_order() -> None:
    keys = keys_of([9, 4])
    rows = pa.table({"n": [1, 2, 3, 4], "key": [0, 1, 0, 1]})
    state = to_bundle({"keys": keys, "rows": rows}, np.array([4, 9])).state()
    assert state["rows"].to_pydict() == {"key": [0, 0, 1, 1], "n": [2, 4, 1, 3]}


def test_a_table_without_rows_keeps_its_columns() -> None:
    state = to_bundle({"keys": keys_of([4]), "rows": ROW_FIELDS.empty_table()}, np.array([4])).state()
    assert state["rows"].schema.equals(ROW_FIELDS)
    assert state["rows"].num_rows == 0


def test_a_table_with_no_column_but_the_key_keeps_its_rows() -> None:
    state = {"keys": keys_of([9, 4]), "seen": pa.table({"key": [0, 0, 1]})}
    bundle = to_bundle(state, np.array([4, 9]))
    assert bundle.state()["seen"].to_pydict() == {"key": [0, 1, 1]}
    assert bundle.take(np.array([1])).state()["seen"].to_pydict() == {"key": [0, 0]}


VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, None, False, True, True]),
    (pa.int8(), [1, None, -3, 4, 5]),
    (pa.int16(), [1, 2, -3, 4, 5]),
    (pa.uint64(), [1, 2**64 - 1, None, 4, 5]),
    (pa.float32(), [1.5, None, -0.0, 4.0, math.inf]),
    (pa.date32(), [datetime.date(2026, 1, n) for n in range(1, 6)]),
    (pa.timestamp("ns"), [None, *[datetime.datetime(2026, 1, n) for n in range(1, 5)]]),
    (pa.duration("us"), [datetime.timedelta(n) for n in range(5)]),
    (pa.decimal128(38, 10), [decimal.Decimal(f"{n}.25") for n in range(4)] + [None]),
    (pa.decimal256(50, 10), [decimal.Decimal(f"{n}.25") for n in range(4)] + [None]),
    (pa.binary(3), [b"abc", None, b"def", b"ghi", b"xyz"]),
    (pa.string(), ["a", None, "", "ccc", "é"]),
    (pa.large_string(), ["a", None, "", "ccc", "é"]),
    (pa.binary(), [b"a", None, b"", b"\0", b"x"]),
    (pa.list_(pa.int64()), [[1], None, [], [None, 2], [3]]),
    (pa.list_(pa.float64(), 2), [[1.0, 2.0], None, [3.0, None], [0.0, 0.0], [5.0, 6.0]]),
    (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}] * 1 + [None] * 2,
    ),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, [], [("b", None)], [("c", 3)]]),
    (pa.null(), [None] * 5),
]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_every_kind_of_column_survives(kind: pa.DataType, values: list[Any], chunked: bool) -> None:
    column = pa.array(values, kind)
    before = pa.array(values[::-1], kind)
    sliced = pa.concat_arrays([before, column]).slice(5)  # so that the column begins inside its buffers
    chunks = pa.chunked_array([sliced.slice(0, 3), column.slice(3)] if chunked else [sliced])
    state = {
        "keys": keys_of([8, 6, 4, 2, 0], value=chunks),
        "rows": pa.table({"key": [4, 3, 2, 1, 0], "value": chunks}),
    }
    left = to_bundle(state, np.arange(0, 10, 2))
    right = to_bundle({name: _moved(table) for name, table in state.items()}, np.arange(1, 11, 2))
    whole = assemble([(left, np.arange(5)), (right, np.array([0, 1, 3, 4]))]).state()
    assert whole["keys"].schema.field("value").type == kind
    shown = list(reversed(column.to_pylist()))
    expected = [value for number, value in enumerate(shown) for _ in range(1 if number == 2 else 2)]
    assert whole["keys"]["__slot"].to_pylist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert whole["keys"]["value"].to_pylist() == expected
    assert whole["rows"]["value"].to_pylist() == [column[n].as_py() for n in (0, 0, 1, 1, 2, 3, 3, 4, 4)]
    whole["keys"].validate(full=True)
    whole["rows"].validate(full=True)


def _moved(table: pa.Table) -> pa.Table:
    if "__slot" not in table.column_names:
        return table
    return table.set_column(0, "__slot", pa.array(table["__slot"].to_numpy() + 1))


def test_columns_that_only_one_state_has_are_null_in_the_other() -> None:
    old = to_bundle({"keys": keys_of([1], a=["x"])}, np.array([1]))
    new = to_bundle({"keys": keys_of([0], b=[2.0]), "rows": pa.table({"key": [0], "n": [5]})}, np.array([0]))
    parts = [(bundle, np.array([0])) for bundle in (old, new)]
    state = assemble(parts).state()
    assert state["keys"].sort_by("__slot").to_pylist() == [
        {"__slot": 0, "a": None, "b": 2.0},
        {"__slot": 1, "a": "x", "b": None},
    ]
    assert state["rows"].to_pylist() == [{"key": 0, "n": 5}]


def test_an_empty_bundle_is_fine() -> None:
    bundle: Bundle = assemble([])
    assert (len(bundle.slots), bundle.keys, dict(bundle.state())) == (0, 0, {})
