"""Merging the states of GROUP BY windows: a key's rows may be divided over engines without changing the answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.windows.test_grouped import CALLS, EPOCH, PARAMETERS, Row, keys, rows_strategy, saved, windows
from tests.engine.windows.test_grouped import SCHEMA as PLAIN
from trimtab.engine.operator import ARRIVAL, Moment, State
from trimtab.engine.windows.aggregates import APPROXIMATE_ORDER, FUNCTIONS
from trimtab.engine.windows.assign import ClockWindow, SessionWindow
from trimtab.engine.windows.grouped import GroupCall, GroupQuery

SCHEMA = PLAIN.append(pa.field("d", pa.decimal128(20, 2)))
MERGED = [
    *(call for call in CALLS if call[0] not in APPROXIMATE_ORDER),
    ("sum", ("d",)),
    ("avg", ("d",)),
    ("min", ("d",)),
    ("max_by", ("d", "i")),
    ("count_distinct", ("d",)),
    ("collect_list", ("d",)),
    ("stddev_pop", ("i",)),
    ("var_samp", ("x",)),
    ("first_known", ("s",)),
    ("last_known", ("d",)),
]
calls = st.lists(st.sampled_from(MERGED), min_size=1, max_size=5).map(
    lambda chosen: tuple(GroupCall(f, args, f"c{n}", PARAMETERS.get(f, ())) for n, (f, args) in enumerate(chosen))
)


def table_of(rows: Sequence[Row]) -> pa.Table:
    full = [
        row
        | {
            "ts": EPOCH + dt.timedelta(seconds=row["t"]),
            "d": None if row["i"] is None else Decimal(row["i"]) / 100,
            ARRIVAL: number,
        }
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(full, schema=SCHEMA)


def sorted_rows(output: pa.Table) -> list[str]:
    return sorted(map(repr, output.to_pylist()))  # NaN is NaN


@given(rows_strategy, rows_strategy, windows, calls, keys, st.integers(-6, 20), st.data())
def test_rows_divided_over_engines_give_the_same_as_on_one_engine(
    before: list[Row],
    rows: list[Row],
    window: ClockWindow | SessionWindow,
    chosen: tuple[GroupCall, ...],
    partition: tuple[str, ...],
    second: int,
    data: st.DataObject,
) -> None:
    operator = GroupQuery(partition, "ts", window, chosen).open()
    both = table_of([*before, *rows])
    earlier, table = both.slice(0, len(before)), both.slice(len(before))
    owners = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    _, stored = operator.advance(earlier, {}, Moment())
    parts: list[State] = [stored]
    for engine in range(4):
        own = table.filter(pa.array([owner == engine for owner in owners], pa.bool_()))
        if own.num_rows:
            parts.append(saved(operator.partial(own)))
    parts = data.draw(st.permutations(parts))
    cut = data.draw(st.integers(0, len(parts)))
    together = operator.merge([operator.merge(parts[:cut], SCHEMA), operator.merge(parts[cut:], SCHEMA)], SCHEMA)
    moment, end = Moment(watermark_us=second * 1_000_000), Moment(closing=True)
    whole, kept = operator.advance(table, stored, moment)
    merged, left = operator.advance(table.slice(0, 0), together, moment)
    assert sorted_rows(merged) == sorted_rows(whole)
    rest = [sorted_rows(operator.advance(table.slice(0, 0), state, end)[0]) for state in (left, kept)]
    assert rest[0] == rest[1]
    if kept and kept["keys"].num_rows:
        assert deadlines(left) == deadlines(kept)


def deadlines(state: State) -> list[str]:
    return sorted_rows(state["keys"])


def test_every_aggregate_is_either_merged_or_refused() -> None:
    assert {function for function, _ in MERGED} | set(APPROXIMATE_ORDER) == set(FUNCTIONS)


def test_a_sketch_of_quantiles_depends_on_the_parts_and_is_refused() -> None:
    def query(*functions: str) -> GroupQuery:
        named = tuple(
            GroupCall(function, ("x",), f"c{n}", (8.0, 0.1, 0.3, 0.5, 0.9)) for n, function in enumerate(functions)
        )
        return GroupQuery(("k",), "ts", ClockWindow(1_000_000, 1_000_000), named)

    assert query("sum", "max").split_obstacle() is None
    assert query("sum", "percentiles").split_obstacle() is not None
    rows: list[dict[str, Any]] = [
        {"k": "a", "n": 0, "t": 0, "x": float(n * 37 % 101), "i": n, "b": None, "s": None} for n in range(100)
    ]
    table, quantiles = table_of(rows), query("percentiles").open()
    none = table.slice(0, 0)
    _, whole = quantiles.advance(table, {}, Moment())
    states = [quantiles.advance(table.slice(start, 25), {}, Moment())[1] for start in range(0, 100, 25)]
    answers = [
        quantiles.advance(none, each, Moment(closing=True))[0] for each in (whole, quantiles.merge(states, SCHEMA))
    ]
    assert sorted_rows(answers[0]) != sorted_rows(answers[1]), "this is why it is refused"


@pytest.mark.parametrize("states", [[], [{}], [{}, {}]])
def test_empty_states_merge_to_an_empty_state(states: list[State]) -> None:
    query = GroupQuery(("k",), "ts", ClockWindow(1_000_000, 1_000_000), (GroupCall("count", (), "n"),))
    assert query.open().merge(states, SCHEMA) == {}
