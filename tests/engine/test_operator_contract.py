"""What every operator promises, whatever it does: see `trimtab.engine.operator`."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from tests.golden.queries import QUERIES, SCHEMA, compiled
from trimtab.engine.operator import TIME_US, Moment, is_internal
from trimtab.engine.selection import Selection
from trimtab.keyed_state import DEADLINE, KEY, KEYS, SLOT
from trimtab.language.compiled import Query, operator_of

SECOND = 1_000_000


@pytest.fixture(params=QUERIES)
def query(request: pytest.FixtureRequest) -> Query:
    return compiled(QUERIES[request.param])


def rows_of(query: Query) -> pa.Table:
    """Twelve rows of two keys, a second apart."""
    rows = [{"ts": n * SECOND, "k": n % 2, "x": n, "y": n / 2, "s": "a"} for n in range(12)]
    return query.intake.run(pa.Table.from_pylist(rows, SCHEMA))


def test_a_description_is_a_value_that_pickles(query: Query) -> None:
    assert pickle.loads(pickle.dumps(query.operator)) == query.operator


def test_every_output_has_a_time(query: Query) -> None:
    output, _ = operator_of(query).advance(rows_of(query), {}, Moment(5 * SECOND))
    assert output.schema.field(TIME_US).type == pa.int64()


def test_a_state_has_the_tables_and_columns_that_are_declared(query: Query) -> None:
    _, state = operator_of(query).advance(rows_of(query), {}, Moment(5 * SECOND))
    declared = dict(query.operator.state_tables)
    assert set(state) <= set(declared)
    for name, table in state.items():
        assert set(declared[name]) <= set(table.column_names)
        assert (DEADLINE if name == KEYS else KEY) in declared[name]
    assert bool(state) == query.operator.is_keyed


def test_the_slot_is_put_before_the_key(query: Query) -> None:
    by_slot, rows = query.operator.by_slot(), rows_of(query)
    rows = rows.append_column(SLOT, pa.array([7] * rows.num_rows, pa.int64()))
    _, state = by_slot.open().advance(rows, {}, Moment(5 * SECOND))
    if query.operator.is_keyed:
        assert by_slot.partition == (SLOT, *query.operator.partition)
        assert state[KEYS].column_names[: len(by_slot.partition)] == list(by_slot.partition)
    assert is_internal(SLOT)


def test_merged_states_give_the_answer_of_the_whole_and_other_operators_say_why_they_do_not_merge(query: Query) -> None:
    rows, operator = rows_of(query), operator_of(query)
    obstacle = query.operator.split_obstacle()
    if obstacle is not None:
        assert obstacle.why
        assert obstacle.hint
        return
    parts = [operator.partial(rows.filter(pa.array([n % 3 == part for n in range(12)]))) for part in range(3)]
    none = rows.slice(0, 0)
    merged, _ = operator.advance(none, operator.merge(parts, rows.schema), Moment(closing=True))
    whole, _ = operator.advance(none, operator.partial(rows), Moment(closing=True))
    assert sorted(map(repr, merged.to_pylist())) == sorted(map(repr, whole.to_pylist()))


def test_warming_changes_no_answer(query: Query) -> None:
    rows, warm = rows_of(query), operator_of(query)
    warm.warm(rows.schema)
    cold = operator_of(query).advance(rows, {}, Moment(closing=True))
    assert warm.advance(rows, {}, Moment(closing=True)) == cold


def test_rows_that_are_passed_on_are_not_copied() -> None:
    rows = pa.table({"x": [1, 2, 3]})
    output, state = Selection().open().advance(rows, {}, Moment())
    assert output["x"].chunk(0).buffers()[1].address == rows["x"].chunk(0).buffers()[1].address
    assert output[TIME_US].to_pylist() == [None] * 3
    assert state == {}
    dated = rows.append_column(TIME_US, pa.array([4, 5, 6]))
    assert Selection().open().advance(dated, {}, Moment())[0] is dated
