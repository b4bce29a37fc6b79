"""State is kept by key: cutting, shuffling and joining it, and loading only what is needed, don't change the answer."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note, reject, settings
from hypothesis import strategies as st

import trimtab
from tests.support.choices import SeededChoices
from tests.support.query_cases import SCHEMA, Case, a_table, random_case
from trimtab import testing
from trimtab.engine.keyed.description import KeyedOperator, Snapshot
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.run.matcher import Matcher
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, Operator, State
from trimtab.errors import MatchError, ThreadLimitError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query, operator_of, scalar

SECOND = 1_000_000
EXAMPLES = max(1, settings().max_examples // 3)  # each is run three ways
Key = tuple[object, ...]


# The store: a plain one that only relies on the contract of `State`. ------------------------------------------------


def sliced(state: State, keys: Sequence[int]) -> State:
    """The state of some of the keys, in this order."""
    parts: dict[str, pa.Table] = {"keys": state["keys"].take(pa.array(keys, pa.int64()))}
    for name, table in state.items():
        if name == "keys":
            continue
        owners = table["key"].to_pylist()
        rows = [(new, row) for new, old in enumerate(keys) for row, owner in enumerate(owners) if owner == old]
        chosen = table.take(pa.array([row for _, row in rows], pa.int64()))
        numbers = pa.array([new for new, _ in rows], pa.int64())
        parts[name] = chosen.set_column(table.column_names.index("key"), "key", numbers)
    return parts


def joined(states: Sequence[State]) -> State:
    """States of different keys as one."""
    if not states:
        return {}
    together: dict[str, list[pa.Table]] = {}
    first = 0
    for state in states:
        for name, table in state.items():
            if name != "keys":
                at = table.column_names.index("key")
                moved = pa.array(table["key"].to_numpy() + first, pa.int64())
                table = table.set_column(at, "key", moved)
            together.setdefault(name, []).append(table)
        first += state["keys"].num_rows
    return {name: pa.concat_tables(parts) for name, parts in together.items()}


def names_of(table: pa.Table, partition: Sequence[str]) -> list[Key]:
    if not partition:
        return [()] * table.num_rows
    return list(zip(*(table[name].to_pylist() for name in partition), strict=True))


@dataclass
class Store:
    """The state of every key on its own."""

    partition: tuple[str, ...]
    chance: random.Random
    states: dict[Key, State]

    def advance(self, operator: Operator, rows: pa.Table, moment: Moment) -> pa.Table:
        """Advance the keys that have rows, and those whose deadline has come; the others stay as they are."""
        touched = {key for key in names_of(rows, self.partition) if key in self.states}
        for key, state in self.states.items():
            deadline = state["keys"]["deadline_us"][0].as_py()
            come = deadline is not None and moment.watermark_us is not None and deadline <= moment.watermark_us
            # Keys may be visited without need.
            if moment.closing or come or self.chance.random() < 0.1:
                touched.add(key)
        order = sorted(touched, key=repr)
        self.chance.shuffle(order)
        output, state = operator.advance(rows, joined([self.states.pop(key) for key in order]), moment)
        if not state:
            return output
        names = names_of(state["keys"], self.partition)
        assert len(set(names)) == len(names)
        for number, key in enumerate(names):
            assert key not in self.states
            self.states[key] = sliced(state, [number])
            deadline = self.states[key]["keys"]["deadline_us"][0].as_py()
            assert deadline is None or moment.watermark_us is None or deadline > moment.watermark_us
        return output


# Running a query over batches --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    rows: pa.Table
    moment: Moment


def batches_of(rows: pa.Table, cuts: Iterable[int], times_us: Sequence[int], delay_us: int) -> list[Batch]:
    """The rows cut into batches, then batches without rows in which time advances, then the end of the input."""
    edges = [0, *sorted(cuts), rows.num_rows]
    batches: list[Batch] = []
    for start, stop in itertools.pairwise(edges):
        newest = max(times_us[:stop], default=None)
        if newest is not None:
            batches.append(Batch(rows.slice(start, stop - start), Moment(newest - delay_us)))
    idle_us = (1, 3 * SECOND - 1, 3 * SECOND, 5 * SECOND) if times_us else ()
    batches += [Batch(rows.slice(0, 0), Moment(max(times_us) + each)) for each in idle_us]
    batches.append(Batch(rows.slice(0, 0), Moment(batches[-1].moment.watermark_us if batches else 0, closing=True)))
    return batches


def bag(table: pa.Table, left_out: Sequence[str] = ()) -> list[str]:
    return testing.bag(table.select([name for name in table.column_names if name not in left_out]))


def whole(make: Callable[[], Operator], batches: Sequence[Batch]) -> list[pa.Table]:
    operator = make()
    state: State = {}
    outputs: list[pa.Table] = []
    for batch in batches:
        output, state = operator.advance(batch.rows, state, batch.moment)
        outputs.append(output)
    return outputs


def shuffled(make: Callable[[], Operator], batches: Sequence[Batch], chance: random.Random) -> list[pa.Table]:
    """With the state cut into key subsets and joined in another order after each batch."""
    state: State = {}
    outputs: list[pa.Table] = []
    for batch in batches:
        output, state = make().advance(batch.rows, state, batch.moment)
        outputs.append(output)
        if state:
            keys = list(range(state["keys"].num_rows))
            chance.shuffle(keys)
            cut = chance.randint(0, len(keys))
            state = joined([sliced(state, keys[:cut]), sliced(state, keys[cut:])])
    return outputs


def stored(
    make: Callable[[], Operator], partition: tuple[str, ...], batches: Sequence[Batch], chance: random.Random
) -> list[pa.Table]:
    store = Store(partition, chance, {})
    outputs = [store.advance(make(), batch.rows, batch.moment) for batch in batches]
    assert not store.states
    return outputs


# The queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bursts(KeyedOperator):
    """Rows of a key with no pause of three seconds between them, in order of arrival."""

    output = pa.schema([("values", pa.list_(pa.int64())), ("last", pa.timestamp("us"))])
    state = output
    columns = ("ts", "x")

    def open(self, snapshot: Snapshot | None) -> BurstLogic:
        return BurstLogic(**(snapshot or {"values": [], "last": None}))


@dataclass
class BurstLogic:
    values: list[int | None]
    last: dt.datetime | None

    def on_rows(self, rows: pa.Table) -> pa.Table:
        done: list[Any] = []
        for ts, x in zip(rows["ts"].to_pylist(), rows["x"].to_pylist(), strict=True):
            wake = self.wake_us()
            if wake is not None and _us(ts) >= wake:
                done.append(self._take())
            self.values, self.last = [*self.values, x], ts
        return pa.Table.from_pylist(done, schema=Bursts.output)

    def wake_us(self) -> int | None:
        return None if self.last is None else _us(self.last) + 3 * SECOND

    def on_time(self, wake_us: int) -> pa.Table:
        assert wake_us == self.wake_us()
        return pa.Table.from_pylist([self._take()], schema=Bursts.output)

    def on_close(self) -> pa.Table:
        return pa.Table.from_pylist([self._take()], schema=Bursts.output)

    def snapshot(self) -> Snapshot | None:
        return None if self.last is None else {"values": self.values, "last": self.last}

    def _take(self) -> Snapshot:
        found = {"values": self.values, "last": self.last}
        self.values, self.last = [], None
        return found


def _us(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


WINDOWS = (
    """SELECT k, x, sum(x) OVER w AS a, lag(y, 2) OVER (PARTITION BY k ORDER BY ts) AS b, last_value(s) OVER w AS c
       FROM t WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)""",
    """SELECT k, x, sum(y) OVER w AS a, max(x) OVER w AS b, count(*) OVER w AS c
       FROM t WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW)""",
    """SELECT k, x, sum(x) OVER w AS a, rank() OVER w AS b, row_number() OVER w AS c, first_value(s) OVER w AS d
       FROM t WINDOW w AS (PARTITION BY k, k2 ORDER BY ts, s)""",
    """SELECT x, count(*) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n,
       sum(x) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW) AS a FROM t""",
    """SELECT k, window.end AS e, sum(y) AS a, first_value(x) AS b, last_value(s) AS c, collect_list(x) AS d,
       count(DISTINCT s) AS f, max_by(x, y) AS g, percentile_approx(x, 0.5) AS h
       FROM t GROUP BY k, window(ts, '5 seconds')""",
    """SELECT k, k2, window.start AS e, avg(x) AS a, min(s) AS b, approx_count_distinct(x) AS c, stddev(y) AS d
       FROM t GROUP BY k, k2, window(ts, '4 seconds', '2 seconds')""",
    """SELECT k, session_window.start AS f, session_window.end AS e, count(*) AS n, array_agg(x) AS a, sum(d) AS b
       FROM t GROUP BY k, session_window(ts, '2 seconds')""",
    "SELECT count(*) AS n, last_value(x) AS a FROM t GROUP BY session_window(ts, '1 second')",
    "SELECT * FROM bursts(TABLE(t) PARTITION BY k ORDER BY ts)",
)
trimtab.operator("bursts")(Bursts)


@dataclass(frozen=True)
class Stream:
    """A query with its rows as they come."""

    query: Query
    rows: pa.Table
    cuts: tuple[int, ...]
    delay_us: int
    kernels: dict[Any, Any] = field(default_factory=dict)

    @property
    def partition(self) -> tuple[str, ...]:
        operator: Any = self.query.operator
        found: tuple[str, ...] = operator.partition
        return found

    @property
    def left_out(self) -> tuple[str, ...]:
        """What may depend on how rows are cut into batches."""
        return (TIME_US,) if isinstance(self.query.operator, KeyedQuery) else ()

    def make(self) -> Operator:
        """A new operator; patterns share their kernels, since to generate one takes longer than to run it here."""
        if isinstance(self.query.operator, MatchQuery):
            matcher = Matcher(self.query.operator, scalar=scalar, max_threads=300)
            matcher._generated = self.kernels
            return matcher
        return operator_of(self.query)

    @property
    def batches(self) -> list[Batch]:
        return batches_of(self.rows, self.cuts, self.times_us, self.delay_us)

    @property
    def times_us(self) -> list[int]:
        return self.rows["ts"].cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]

    def answers(self, chance: random.Random) -> dict[str, list[list[str]] | str]:
        """What comes out in each batch, however state is kept."""
        runs: dict[str, Callable[[], list[pa.Table]]] = {
            "whole": lambda: whole(self.make, self.batches),
            "shuffled": lambda: shuffled(self.make, self.batches, chance),
            "stored": lambda: stored(self.make, self.partition, self.batches, chance),
        }
        return {name: self.outcome(run) for name, run in runs.items()}

    def outcome(self, run: Callable[[], list[pa.Table]]) -> list[list[str]] | str:
        """The rows of every batch, or that the standard requires an error."""
        try:
            return [bag(output, self.left_out) for output in run()]
        except MatchError:
            return "an error"
        except ThreadLimitError:
            reject()


def stream(sql: str, table: pa.Table, cuts: Iterable[int], delay_us: int, arrivals: Sequence[int] = ()) -> Stream:
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    rows = query.intake.run(table)
    if "ts" not in rows.column_names:
        rows = rows.append_column("ts", table["ts"])
    if arrivals:
        rows = rows.set_column(rows.column_names.index(ARRIVAL), ARRIVAL, pa.array(arrivals, pa.int64()))
    return Stream(query, rows, tuple(cut for cut in cuts if cut <= rows.num_rows), delay_us)


def assert_same_answers(found: Stream, seed: int) -> None:
    note(found.query.sql)
    note(f"{found.rows.to_pylist()} cut at {found.cuts}, {found.delay_us} us late")
    answers = found.answers(random.Random(seed))
    assert answers["shuffled"] == answers["whole"]
    assert answers["stored"] == answers["whole"]


# Cases come from seeds: those that Hypothesis would draw are simple, and mostly have a row or two.
seeds = st.integers(0, 2**32)
random_cases = seeds.map(random_case)
random_tables = seeds.map(lambda seed: a_table(SeededChoices(seed)))
cuts_strategy = st.lists(st.integers(0, 14), min_size=1, max_size=5)
delays_us = st.builds(lambda seconds, less: max(0, seconds * SECOND - less), st.integers(0, 6), st.integers(0, 2))
"""Watermarks near the times of rows, and equal to them."""


@settings(max_examples=EXAMPLES)
@given(random_cases, cuts_strategy, delays_us, seeds)
def test_a_pattern_answers_the_same_however_its_state_is_kept(
    case: Case, cuts: list[int], delay_us: int, seed: int
) -> None:
    assert_same_answers(stream(case.sql, case.table, cuts, delay_us), seed)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(WINDOWS), random_tables, cuts_strategy, delays_us, seeds)
def test_a_window_or_operator_answers_the_same_however_its_state_is_kept(
    sql: str, table: pa.Table, cuts: list[int], delay_us: int, seed: int
) -> None:
    assert_same_answers(stream(sql, table, cuts, delay_us), seed)


TIMED = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts {} AFTER MATCH SKIP {}
    PATTERN ({}) WITHIN INTERVAL '3' SECOND
    DEFINE A AS A.x > 1, B AS {})"""


@settings(max_examples=EXAMPLES)
@given(
    st.sampled_from(["MEASURES count(*) AS n", "MEASURES CLASSIFIER() AS c, RUNNING sum(x) AS a ALL ROWS PER MATCH"]),
    st.sampled_from(["PAST LAST ROW", "TO NEXT ROW"]),
    st.sampled_from(["A B* TIMEOUT", "A B+", "A B* $", "A (B | C)*", "(A | B)+? C", "A B* (C | TIMEOUT)"]),
    st.sampled_from(["B.x > PREV(B.x)", "NEXT(B.x) > B.x", "B.x <> MATCH_NUMBER()", "NEXT(B.x, 2) <> MATCH_NUMBER()"]),
    random_tables,
    cuts_strategy,
    delays_us,
    seeds,
)
def test_a_key_of_a_pattern_with_within_is_visited_when_its_time_is_over(
    measures: str, skip: str, pattern: str, condition: str, table: pa.Table, cuts: list[int], delay_us: int, seed: int
) -> None:
    sql = TIMED.format(measures, skip, pattern, condition)
    if "C" in pattern:
        sql = sql[:-1] + ", C AS C.s = 'a')"
    assert_same_answers(stream(sql, table, cuts, delay_us), seed)


def test_an_attempt_that_is_repeated_is_visited_when_its_time_is_over() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(*) AS n
        PATTERN (A B* TIMEOUT) WITHIN INTERVAL '3' SECOND DEFINE A AS A.x > MATCH_NUMBER(), B AS B.x = 0)"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    table = pa.table({"k": [1, 1], "ts": pa.array([0, SECOND], pa.timestamp("us")), "x": [9, 0]})
    rows = query.intake.run(table)
    _, state = operator_of(query).advance(rows, {}, Moment(2 * SECOND))
    assert state["keys"]["deadline_us"].to_pylist() == [3 * SECOND]
    output, state = operator_of(query).advance(rows.slice(0, 0), state, Moment(3 * SECOND))
    assert output.num_rows == 1
    assert state["keys"]["deadline_us"].to_pylist() == [None]  # only the number of its matches is kept


# Ties ----------------------------------------------------------------------------------------------------------------


@st.composite
def arrivals_of(draw: st.DrawFn, table: pa.Table) -> list[int]:
    """Numbers for the rows: all different, or a hash, which equal rows have in common."""
    numbers = st.integers(-(2**63), 2**63 - 1)
    count = table.num_rows
    if draw(st.booleans()):
        return draw(st.lists(numbers, min_size=count, max_size=count, unique=True))
    contents = [repr(row) for row in table.to_pylist()]
    distinct = sorted(set(contents))
    hashes = draw(st.lists(numbers, min_size=len(distinct), max_size=len(distinct), unique=True))
    return [dict(zip(distinct, hashes, strict=True))[content] for content in contents]


def together(batches: list[list[str]] | str) -> list[str] | str:
    """The rows of all batches: in which batch each is output depends on the cuts."""
    return batches if isinstance(batches, str) else sorted(row for batch in batches for row in batch)


@settings(max_examples=EXAMPLES)
@given(random_cases, cuts_strategy, st.integers(0, 6), st.data(), seeds)
def test_rows_of_a_pattern_that_tie_are_in_order_of_arrival_wherever_they_arrive(
    case: Case, cuts: list[int], delay_s: int, data: st.DataObject, seed: int
) -> None:
    assert_ties_are_settled(case.sql, case.table, cuts, delay_s, data, seed)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(WINDOWS), random_tables, cuts_strategy, st.integers(0, 6), st.data(), seeds)
def test_rows_of_a_window_that_tie_are_in_order_of_arrival_wherever_they_arrive(
    sql: str, table: pa.Table, cuts: list[int], delay_s: int, data: st.DataObject, seed: int
) -> None:
    assert_ties_are_settled(sql, table, cuts, delay_s, data, seed)


def assert_ties_are_settled(
    sql: str, table: pa.Table, cuts: Sequence[int], delay_s: int, data: st.DataObject, seed: int
) -> None:
    arrivals = data.draw(arrivals_of(table))
    moments = table["ts"].to_pylist()
    # Sorted by time and number, and in one batch: nothing has to be reordered.
    in_order = sorted(range(table.num_rows), key=lambda row: (moments[row], arrivals[row]))
    # As they arrive: no row later than the delay, otherwise in any order.
    waits = data.draw(st.lists(st.integers(0, delay_s), min_size=table.num_rows, max_size=table.num_rows))
    chance = random.Random(seed)
    comes = [moments[row] + dt.timedelta(seconds=waits[row]) for row in range(table.num_rows)]
    mixed = sorted(range(table.num_rows), key=lambda row: (comes[row], chance.random()))

    def as_it_comes(order: Sequence[int], cuts: Sequence[int]) -> Stream:
        chosen = table.take(pa.array(order, pa.int64()))
        return stream(sql, chosen, cuts, delay_s * SECOND, [arrivals[row] for row in order])

    note(sql)
    note(f"{table.take(pa.array(mixed, pa.int64())).to_pylist()} as {[arrivals[row] for row in mixed]}, cut at {cuts}")
    expected = as_it_comes(in_order, [])
    answer = together(expected.outcome(lambda: whole(expected.make, expected.batches)))
    for name, found in as_it_comes(mixed, cuts).answers(chance).items():
        assert together(found) == answer, name


def test_a_waiting_row_comes_after_an_equal_one_that_arrives_later_with_a_smaller_number() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS a, B.x AS b
        PATTERN (A B) DEFINE B AS TRUE)"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    columns = {"k": [1, 1], "ts": [5, 5], "x": [10, 20], ARRIVAL: [7, -7]}
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    rows = rows.set_column(1, "ts", rows["ts"].cast(pa.timestamp("us")))
    operator = operator_of(query)
    _, state = operator.advance(rows.slice(0, 1), {}, Moment(5))
    output, _ = operator.advance(rows.slice(1, 1), state, Moment(6))
    (found,) = output.to_pylist()
    assert [found[f"slot{n}"] for n in range(2)] == [20, 10]
    assert found[TIME_US] == 5


def test_errors_name_a_key_by_the_users_columns() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS a
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) DEFINE C AS C.x > A.x)"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    assert isinstance(query.operator, MatchQuery)
    matcher = Matcher(replace(query.operator, partition=("__slot", "k")), max_threads=2)
    rows = pa.table({"__slot": np.full(9, 3), "k": np.full(9, 4), "ts": pa.array(range(9), pa.timestamp("us"))})
    rows = rows.append_column("x", pa.array([0] * 9)).append_column(ARRIVAL, pa.array(range(9), pa.int64()))
    with pytest.raises(ThreadLimitError) as caught:
        matcher.advance(rows, {}, Moment(100))
    assert "k=4" in str(caught.value)
    assert "__slot" not in str(caught.value)
