"""Queries that share a batch's rows get what each gets alone; merged rows are in the order of sorted ones."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import rules
from tests.support import stream_cases as stream_cases  # an operator for queries
from trimtab.engine.columns import joint_order
from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.columns.memo import Memo
from trimtab.engine.columns.order import OrderKey, arrival_order, sort_levels, sorted_by, stable_order
from trimtab.engine.match.run import fresh, queue
from trimtab.engine.match.run.fresh import Fresh, fresh_rows
from trimtab.engine.operator import ARRIVAL, Moment, Operator, State
from trimtab.keyed_state import SLOT
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of
from trimtab.language.inline import inlined

DAWN = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
BY_TIME = (OrderKey("ts"),)


def ticks(rng: np.random.Generator, rows: int, *, keys: int = 5, apart_us: int = 300_000) -> pa.Table:
    """Ticks out of order, many of which tie in time."""
    late = rng.integers(0, 4, rows)
    times = [DAWN + datetime.timedelta(microseconds=int((n - b) // 3 * apart_us)) for n, b in enumerate(late.tolist())]
    return pa.table(
        {
            "symbol": rng.integers(0, keys, rows),
            "ts": pa.array(times, rules.SCHEMA.field("ts").type),
            "price": np.round(100 + 4 * rng.standard_normal(rows), 1),
            "volume": np.exp(6 + rng.standard_normal(rows)).astype(np.int64),
        }
    )


def test_what_was_read_of_a_state_stays_and_later_queries_keep_rows_of_their_own() -> None:
    rows = ticks(np.random.default_rng(4), 60)
    texts = [rules.dip(number).sql.replace("- 6", "- 0") for number in (0, 1)]
    texts[1] = texts[1].replace("price < PREV", "price > PREV", 1)
    queries = [inlined(compile_query(sql, {"ticks": rows.schema}, event_time="ts")) for sql in texts]
    inputs = queries[0].intake.run(rows)
    alone = [operator_of(query).advance(inputs, {}, Moment())[1] for query in queries]
    memo, states = Memo(), list[State]()
    for query in queries:
        states.append(operator_of(query).advance(inputs, {}, Moment(memo=memo))[1])
        assert {name: table.num_rows for name, table in states[-1].items()}  # they are read at once
    for state, expected in zip(states, alone, strict=True):
        assert {name: table.to_pylist() for name, table in state.items()} == {
            name: table.to_pylist() for name, table in expected.items()
        }
    memo = Memo()
    states = [operator_of(query).advance(inputs, {}, Moment(memo=memo))[1] for query in queries]
    assert states[0]["rows"] is states[1]["rows"]
    assert states[0]["rows"].num_rows > max(state["rows"].num_rows for state in alone)


def advanced(
    operators: dict[str, Operator], inputs: dict[str, pa.Table], cuts: list[int], *, shared: bool
) -> list[str]:
    """What the queries put out, batch by batch, and the state that they leave."""
    states: dict[str, State] = {name: {} for name in operators}
    found = []
    for start, end in pairwise(cuts):
        memo = Memo()
        for name, operator in operators.items():
            rows = inputs[name].slice(start, end - start)
            newest = int(rows["ts"].cast(pa.int64()).to_numpy().max(initial=0))
            moment = Moment(newest - 900_000, memo=memo if shared else None)
            output, states[name] = operator.advance(rows, states[name], moment)
            found.append(f"{name}: {output.to_pylist()}")
    found += [f"{name}: {each.to_pylist()}" for name, state in states.items() for each in state.values()]
    return found


Inputs = tuple[dict[str, Operator], dict[str, pa.Table]]


def of_desk(table: pa.Table) -> Inputs:
    """Rules over prices, over volumes, and over both; they read the same memory, as in an engine."""
    spike = rules.rule("spike", "A B", {"B": "B.price > PREV(B.price) AND B.volume > PREV(B.volume)"}, ("A", "B"))
    desk = [*rules.desk(15), spike]
    queries = {each.name: compile_query(each.sql, {"ticks": rules.SCHEMA}, event_time="ts") for each in desk}
    inputs = dict[str, pa.Table]()
    arrivals = dict[tuple[bool, ...], pa.Array]()  # of queries that read the same columns, as hashes of these
    for each in desk:
        rows = queries[each.name].intake.run(table)
        for column in ("symbol", "ts"):
            rows = rows.set_column(rows.column_names.index(column), column, table[column])
        read = tuple(column in each.sql for column in ("price", "volume"))
        arrival = arrivals.setdefault(read, pa.array(np.random.default_rng(len(arrivals)).permutation(table.num_rows)))
        inputs[each.name] = rows.drop_columns([ARRIVAL]).append_column(ARRIVAL, arrival)
    assert len(arrivals) == 3
    return {name: operator_of(query) for name, query in queries.items()}, inputs


@pytest.mark.parametrize("seed", range(5))
def test_queries_that_share_a_memo_get_what_each_gets_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    operators, inputs = of_desk(ticks(rng, 400))
    cuts = sorted({0, 400, *rng.integers(0, 400, 4).tolist()})
    assert advanced(operators, inputs, cuts, shared=True) == advanced(operators, inputs, cuts, shared=False)


@pytest.mark.parametrize("tied", [False, True], ids=["no ties", "ties"])
def test_patterns_sort_rows_once_whatever_else_they_read(monkeypatch: pytest.MonkeyPatch, tied: bool) -> None:
    sorts: list[int] = []

    def counted(levels: Sequence[Int64Array]) -> Int64Array | None:
        sorts.append(len(levels))
        return sorted_by(levels)

    monkeypatch.setattr(fresh, "sorted_by", counted)
    table = ticks(np.random.default_rng(7), 120)
    if not tied:
        times = table["ts"].cast(pa.int64()).to_numpy() + np.arange(table.num_rows)
        table = table.set_column(1, "ts", pa.array(times, rules.SCHEMA.field("ts").type))
    advanced(*of_desk(table), [0, 50, 120], shared=True)
    assert len(sorts) == 2


ORDERED = {
    "means": "AVG(price) OVER (PARTITION BY symbol ORDER BY ts, x DESC ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "ranks": "RANK() OVER (PARTITION BY symbol ORDER BY ts, x DESC)",
    "sums": "SUM(x) OVER (PARTITION BY symbol ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW)",
    "counts": "COUNT(*) OVER (PARTITION BY symbol ORDER BY ts)",
}
"""Values of windows in two orders."""


def test_windows_and_operators_with_one_order_sort_new_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts: list[int] = []

    def counted(levels: Sequence[Int64Array], count: int) -> Int64Array:
        sorts.append(count)
        return stable_order(levels, count)

    monkeypatch.setattr(joint_order, "stable_order", counted)
    table = ticks(np.random.default_rng(3), 300).rename_columns(["symbol", "ts", "price", "x"])
    queries = {name: f"SELECT symbol, price, {value} AS v FROM t" for name, value in ORDERED.items()}
    queries["runs"] = "SELECT * FROM runs_of(TABLE(t) PARTITION BY symbol ORDER BY ts, least => 300)"
    compiled = {name: compile_query(sql, {"t": table.schema}, event_time="ts") for name, sql in queries.items()}
    inputs = {name: query.intake.run(table) for name, query in compiled.items()}
    operators = {name: operator_of(query) for name, query in compiled.items()}
    together, sorts_together = advanced(operators, inputs, [0, 90, 200, 300], shared=True), len(sorts)
    assert together == advanced(operators, inputs, [0, 90, 200, 300], shared=False)
    assert (sorts_together, len(sorts) - sorts_together) == (3 * 2, 3 * len(queries))


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_waiting_rows_are_merged_where_sorting_everything_puts_them(seed: int, kind: pa.DataType) -> None:
    rng = np.random.default_rng(seed)
    count, kept = int(rng.integers(12, 40)), int(rng.integers(0, 12))
    values = pa.array(rng.integers(0, 4, count), mask=rng.random(count) < 0.1 * (seed % 2)).cast(kind)
    table = pa.table({"ts": rng.integers(0, 5, count), "x": values, ARRIVAL: rng.permutation(count)})
    by, leaving = (OrderKey("ts"), OrderKey("x", descending=seed % 3 == 0)), rng.random(count) < 0.8
    order, levels = joint_order.joint_order(Memo(), table.slice(0, kept), table.slice(kept), by, ARRIVAL, leaving)
    wanted = sort_levels([table.column(key.column) for key in by], by)
    expected = arrival_order(wanted, table[ARRIVAL].to_numpy())
    assert order.tolist() == expected[leaving[expected]].tolist()
    assert [level.tolist() for level in levels] == [level.tolist() for level in wanted]


def test_queries_of_one_shape_share_a_kernel() -> None:
    sources = set()
    for each in rules.of_one_shape(3):
        operator = operator_of(compile_query(each.sql, {"ticks": rules.SCHEMA}, event_time="ts"))
        made = operator._kernel((frozenset(), False))  # type: ignore[attr-defined]
        sources.add(made.source)
    assert len(sources) == 1


def kept_and_new(rng: np.random.Generator, key_type: pa.DataType) -> tuple[pa.Table, pa.Table, Fresh]:
    """Kept rows, in order by key, and new ones; there are many ties, also between both."""

    def some(count: int) -> pa.Table:
        levels = pa.array(rng.integers(0, 6, count)).cast(key_type)
        keys = pa.array(rng.integers(0, 4, count))
        return pa.table({SLOT: keys, "ts": levels, ARRIVAL: rng.permutation(count * 10)[:count]})

    old = some(12).sort_by([(SLOT, "ascending"), ("ts", "ascending"), (ARRIVAL, "ascending")])
    new = some(int(rng.integers(0, 40))).combine_chunks()
    return old, new, fresh_rows(Memo(), new, (SLOT,), BY_TIME, ARRIVAL)


@pytest.mark.parametrize("key_type", [pa.int64(), pa.string()], ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_kept_rows_come_where_sorting_puts_them(seed: int, key_type: pa.DataType) -> None:
    rng = np.random.default_rng(seed)
    old, new, fresh = kept_and_new(rng, key_type)
    slots = sorted(set(new[SLOT].to_pylist()))
    slots += sorted(set(old[SLOT].to_pylist()) - set(slots))
    key = np.array([slots.index(slot) for slot in old[SLOT].to_pylist()])
    # Of each key some of the first rows were processed.
    processed = np.array([rng.integers(0, 3) for _ in slots])
    place = np.arange(len(key)) - np.searchsorted(old[SLOT].to_numpy(), old[SLOT].to_numpy())
    pending = place >= processed[key]
    order = queue.place_rows(BY_TIME, old, new, fresh, key, pending, len(slots))
    both = pa.concat_tables([old, new]).to_pylist()

    def wanted(row: int) -> tuple[object, ...]:
        line, is_context = both[row], row < len(key) and not pending[row]
        where = slots.index(line[SLOT])
        return (where, 0, row) if is_context else (where, 1, line["ts"], line[ARRIVAL])

    assert [wanted(row) for row in order.tolist()] == sorted(wanted(row) for row in range(len(both)))


def test_a_memo_tells_apart_what_is_in_the_same_memory() -> None:
    memo, whole = Memo(), pa.array([3, 1, 2, 5])
    assert memo.once(pa.Array.to_pylist, [whole.slice(0, 2)]) == [3, 1]
    assert memo.once(pa.Array.to_pylist, [whole.slice(1, 2)]) == [1, 2]
    assert memo.once(pa.Array.to_pylist, [whole.slice(1, 3)]) == [1, 2, 5]
    times = whole.view(pa.timestamp("us"))
    assert memo.once(pa.Array.to_pylist, [times]) != memo.once(pa.Array.to_pylist, [whole])
