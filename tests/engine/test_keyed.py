"""Users' own operators: cuts, disorder, moves and merges don't change the answer, and faults in them are errors."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.keyed.description import KeyedOperator, Snapshot
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.operator import ARRIVAL, TIME_US, Moment, State
from trimtab.errors import InputError, OperatorError

SECOND = 1_000_000
EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("x", pa.int64()), (ARRIVAL, pa.int64())])
STRETCH = pa.schema([("since", pa.timestamp("us")), ("rows", pa.int64()), ("values", pa.list_(pa.int64()))])


@dataclass(frozen=True)
class Stretches(KeyedOperator):
    """Consecutive rows above a limit; a stretch ends with a row below it, with a pause, or with the input."""

    limit: int = 0
    pause_us: int = 4 * SECOND
    output = state = STRETCH

    def open(self, snapshot: Snapshot | None) -> StretchLogic:
        return StretchLogic(self, **(snapshot or {}))


@dataclass
class StretchLogic:
    description: Stretches
    since: dt.datetime | None = None
    rows: int = 0
    values: list[int] = field(default_factory=list)
    last: dt.datetime | None = None

    def __post_init__(self) -> None:
        self.values = list(self.values)
        if self.since is not None:
            self.last = self.since + dt.timedelta(microseconds=self.values[0])

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        ended: list[Snapshot | None] = []
        for ts, x in zip(rows["ts"].to_pylist(), rows["x"].to_pylist(), strict=True):
            wake = self.wake_us()
            if wake is not None and (ts - EPOCH) // dt.timedelta(microseconds=1) >= wake:
                ended.append(self.take())
            if x > self.description.limit:
                self.since = self.since or ts
                # The first value is how long it lasts.
                self.values = [(ts - self.since) // dt.timedelta(microseconds=1), *self.values[1:], x]
                self.rows, self.last = self.rows + 1, ts
            elif self.rows:
                ended.append(self.take())
        return pa.Table.from_pylist(ended, schema=STRETCH)

    def take(self) -> Snapshot | None:
        found = self.snapshot()
        self.since, self.rows, self.values, self.last = None, 0, [], None
        return found

    def wake_us(self) -> int | None:
        if self.last is None:
            return None
        return (self.last - EPOCH) // dt.timedelta(microseconds=1) + self.description.pause_us

    def on_time(self, wake_us: int) -> pa.Table:
        assert wake_us == self.wake_us()
        return pa.Table.from_pylist([self.take()], schema=STRETCH)

    def on_close(self) -> pa.Table:
        return pa.Table.from_pylist([self.take()], schema=STRETCH)

    def snapshot(self) -> Snapshot | None:
        return {"since": self.since, "rows": self.rows, "values": self.values} if self.rows else None


@dataclass(frozen=True)
class Range(KeyedOperator):
    """The smallest and largest value of a key, and the number of rows: an operator whose states merge."""

    output = state = pa.schema([("least", pa.int64()), ("most", pa.int64()), ("n", pa.int64())])
    columns = ("x",)

    def open(self, snapshot: Snapshot | None) -> RangeLogic:
        return RangeLogic(dict(snapshot) if snapshot else None)

    def merge(self, left: Snapshot, right: Snapshot) -> Snapshot:
        return {
            "least": min(left["least"], right["least"]),
            "most": max(left["most"], right["most"]),
            "n": left["n"] + right["n"],
        }


@dataclass
class RangeLogic:
    found: dict[str, int] | None

    def on_rows(self, rows: pa.Table) -> None:
        values = rows["x"].to_pylist()
        new = {"least": min(values), "most": max(values), "n": len(values)}
        self.found = dict(Range().merge(self.found, new)) if self.found else new

    def on_close(self) -> pa.Table:
        return pa.Table.from_pylist([self.found], schema=Range.output)

    def snapshot(self) -> Snapshot | None:
        return self.found


def query(description: KeyedOperator, *, partition: tuple[str, ...] = ("k",)) -> KeyedQuery:
    shown = description.columns or ("k", "ts", "x")
    return KeyedQuery("mine", description, partition, (OrderKey("ts"),), tuple((name, name) for name in shown))


def table(rows: Sequence[tuple[str | None, int, int]]) -> pa.Table:
    """Rows of key, second and value, in order of arrival."""
    times = [EPOCH + dt.timedelta(seconds=second) for _, second, _ in rows]
    columns = [[key for key, _, _ in rows], times, [x for _, _, x in rows], range(len(rows))]
    return pa.table(columns, schema=SCHEMA)


def through_ipc(state: State) -> State:
    """The state, written and read again."""
    read: dict[str, pa.Table] = {}
    for name, part in state.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, part.schema) as writer:
            writer.write_table(part)
        read[name] = pa.ipc.open_file(sink.getvalue()).read_all()
    return read


def run(
    operator: KeyedQuery, rows: pa.Table, cuts: Sequence[int] = (), *, delay_us: int | None = None, ipc: bool = False
) -> list[str]:
    """The output rows, sorted."""
    state: State = {}
    outputs: list[pa.Table] = []
    edges = [0, *sorted(cuts), rows.num_rows]
    for start, stop in itertools.pairwise(edges):
        watermark = None
        if delay_us is not None and stop:
            newest = max(rows["ts"].slice(0, stop).cast(pa.int64()).to_pylist())
            watermark = newest - delay_us
        moment = Moment(watermark, closing=len(outputs) == len(cuts))
        output, state = operator.open().advance(rows.slice(start, stop - start), state, moment)
        state = through_ipc(state) if ipc else state
        outputs.append(output)
    assert state == {}
    return bag(pa.concat_tables(outputs))


def bag(output: pa.Table) -> list[str]:
    """The rows, sorted, without `TIME_US`, which depends on the batch."""
    return sorted(map(repr, output.drop([TIME_US]).to_pylist()))


rows_strategy = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 20), st.integers(-1, 2)), max_size=30
)
cuts_strategy = st.lists(st.integers(0, 30), max_size=6)


@given(rows_strategy, cuts_strategy, st.booleans())
def test_cuts_do_not_change_the_answer(drawn: list[tuple[str | None, int, int]], cuts: list[int], timed: bool) -> None:
    rows = table(sorted(drawn, key=lambda row: row[1]))
    inside = [cut for cut in cuts if cut <= rows.num_rows]
    operator = query(Stretches())
    delay_us = 0 if timed else None
    assert run(operator, rows, inside, delay_us=delay_us, ipc=True) == run(operator, rows)


@given(rows_strategy, cuts_strategy, st.integers(0, 6))
def test_rows_out_of_order_within_the_delay_give_the_same_answer(
    drawn: list[tuple[str | None, int, int]], cuts: list[int], delay_s: int
) -> None:
    # Moved by at most the delay, so no row is late; no two rows have the same key and time, or ties would differ.
    ordered = sorted({(key, second): (key, second, x) for key, second, x in drawn}.values(), key=lambda row: row[1])
    moved = sorted(ordered, key=lambda row: row[1] + (row[1] * 7919 + row[2]) % (delay_s + 1))
    inside = [cut for cut in cuts if cut <= len(moved)]
    operator = query(Stretches())
    assert run(operator, table(moved), inside, delay_us=delay_s * SECOND) == run(operator, table(ordered))


@given(rows_strategy, st.lists(st.booleans(), min_size=30, max_size=30), cuts_strategy)
def test_merging_the_states_of_a_split_stream_gives_the_answer_of_the_whole(
    drawn: list[tuple[str | None, int, int]], sides: list[bool], cuts: list[int]
) -> None:
    operator = query(Range())
    states: list[State] = []
    for wanted in (True, False):
        mine = [row for row, side in zip(drawn, sides, strict=False) if side is wanted]
        state: State = {}
        for start, stop in itertools.pairwise([0, *sorted(cut for cut in cuts if cut < len(mine)), len(mine)]):
            _, state = operator.open().advance(table(mine).slice(start, stop - start), state, Moment(10 * SECOND))
        states.append(through_ipc(state))
    merged = operator.open().merge(states, SCHEMA)
    output, _ = operator.open().advance(table([]), merged, Moment(closing=True))
    assert bag(output) == run(operator, table(drawn))


def test_rows_wait_for_the_watermark_and_keys_have_deadlines() -> None:
    rows = table([("a", 2, 1), ("a", 5, 1), ("b", 5, 1), ("c", 3, 1)])
    output, state = query(Stretches()).open().advance(rows, {}, Moment(watermark_us=5 * SECOND))
    assert output.num_rows == 0
    assert state["waiting"].select(["key", "row.x"]).to_pylist() == [{"key": 0, "row.x": 1}, {"key": 1, "row.x": 1}]
    assert state["snapshots"].select(["key", "wake_us"]).to_pylist() == [
        {"key": 0, "wake_us": 6 * SECOND},
        {"key": 2, "wake_us": 7 * SECOND},
    ]
    assert state["keys"].to_pylist() == [
        {"k": "a", "deadline_us": 5 * SECOND + 1},  # a row waits that long
        {"k": "b", "deadline_us": 5 * SECOND + 1},
        {"k": "c", "deadline_us": 7 * SECOND},  # the time that its logic requested
    ]


def test_an_idle_key_is_woken_and_then_forgotten() -> None:
    operator = query(Stretches())
    output, state = operator.open().advance(table([("a", 1, 1)]), {}, Moment(2 * SECOND))
    assert output.num_rows == 0
    assert state["keys"].to_pylist() == [{"k": "a", "deadline_us": 5 * SECOND}]
    output, state = operator.open().advance(table([]), state, Moment(5 * SECOND - 1))
    assert output.num_rows == 0
    output, state = operator.open().advance(table([]), state, Moment(5 * SECOND))
    assert output.select(["k", "rows"]).to_pylist() == [{"k": "a", "rows": 1}]
    assert state["keys"].num_rows == state["snapshots"].num_rows == 0


def test_keys_without_rows_are_not_opened() -> None:
    opened: list[Snapshot | None] = []

    @dataclass(frozen=True)
    class Watched(Range):
        def open(self, snapshot: Snapshot | None) -> RangeLogic:
            opened.append(snapshot)
            return super().open(snapshot)

    operator = query(Watched())
    _, state = operator.open().advance(table([("a", 1, 1), ("b", 1, 2), ("a", 2, 3)]), {}, Moment())
    _, state = operator.open().advance(table([("b", 3, 4)]), state, Moment())
    assert opened == [None, None, {"least": 2, "most": 2, "n": 1}]
    output, _ = operator.open().advance(table([]), state, Moment(closing=True))
    assert output.drop([TIME_US]).to_pylist() == [
        {"k": "a", "least": 1, "most": 3, "n": 2},
        {"k": "b", "least": 2, "most": 4, "n": 2},
    ]


def test_without_a_partition_all_rows_have_one_key() -> None:
    operator = query(Range(), partition=())
    assert run(operator, table([("a", 1, 1), ("b", 2, 5)]), [1]) == ["{'least': 1, 'most': 5, 'n': 2}"]


def test_a_query_pickles() -> None:
    operator = query(Stretches(limit=3))
    assert pickle.loads(pickle.dumps(operator)) == operator


@dataclass(frozen=True)
class Naughty(KeyedOperator):
    """Makes one mistake."""

    what: str = ""
    output = pa.schema([("n", pa.int64())])
    state = pa.schema([("n", pa.int64())])

    def open(self, snapshot: Snapshot | None) -> Any:  # noqa: ARG002 - it fails before
        if self.what == "open":
            raise ValueError("no")
        return NaughtyLogic(self.what)

    def merge(self, left: Snapshot, right: Snapshot) -> Any:
        return {"n": left["n"] // (right["n"] - right["n"])} if self.what == "merge" else None


@dataclass
class NaughtyLogic:
    what: str

    def on_rows(self, rows: pa.Table) -> Any:
        answers = {
            "list": [1],
            "names": pa.table({"m": [1]}),
            "types": pa.table({"n": ["1"]}),
            "nulls": pa.table({"n": [None]}),
            "batch": pa.record_batch({"n": [1]}),
        }
        return rows["nothing"] if self.what == "on_rows" else answers.get(self.what)

    def wake_us(self) -> Any:
        return {"wake": "soon", "stuck": 5}.get(self.what)

    def on_time(self, wake_us: int) -> None:
        pass

    def on_close(self) -> None:
        raise RuntimeError("closed")

    def snapshot(self) -> Any:
        answers: dict[str, Any] = {"state": [1], "fields": {"m": 1}, "value": {"n": "one"}, "more": {"n": 1, "m": 2}}
        return answers.get(self.what, {"n": 1})


@pytest.mark.parametrize(
    ("what", "code", "method", "message"),
    [
        ("open", "operator.failed", "open", "ValueError: no"),
        ("on_rows", "operator.failed", "on_rows", "KeyError"),
        ("wake", "operator.failed", "wake_us", "TypeError"),
        ("stuck", "operator.failed", "wake_us", "it asks for 5 after on_time(5)"),
        ("list", "operator.output", "on_rows", "it gave a list, and not a pyarrow table or None"),
        ("names", "operator.output", "on_rows", "it gave m, and the output is n"),
        ("types", "operator.output", "on_rows", "n is string, and declared as int64"),
        ("state", "operator.state", "snapshot", "it gave a list, and a state is a dict"),
        ("fields", "operator.state", "snapshot", "it gave m, and the state is n"),
        ("more", "operator.state", "snapshot", "it gave n, m, and the state is n"),
        ("value", "operator.state", "snapshot", "n is 'one', and declared as int64"),
    ],
)
def test_a_mistake_in_the_code_names_operator_key_and_method(what: str, code: str, method: str, message: str) -> None:
    with pytest.raises(OperatorError) as caught:
        query(Naughty(what)).open().advance(table([("a", 1, 1)]), {}, Moment(10 * SECOND))
    error = caught.value
    assert (error.code, error.operator, error.method, error.key) == (code, "mine", method, "k = 'a'")
    assert message in error.message
    assert f"error[{code}]: mine: {method} for k = 'a': " in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_exception_of_the_code_is_the_cause() -> None:
    with pytest.raises(OperatorError) as caught:
        query(Naughty(), partition=()).open().advance(table([("a", 1, 1)]), {}, Moment(closing=True))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert str(caught.value) == "error[operator.failed]: mine: on_close for all rows: RuntimeError: closed"


@pytest.mark.parametrize(("what", "value"), [("nulls", None), ("batch", 1)])
def test_a_record_batch_and_a_column_of_only_nulls_are_accepted(what: str, value: int | None) -> None:
    output, _ = query(Naughty(what)).open().advance(table([("a", 1, 1)]), {}, Moment())
    assert output.to_pylist() == [{"k": "a", "n": value, TIME_US: SECOND}]


@pytest.mark.parametrize(("what", "code"), [("merge", "operator.failed"), ("", "operator.state")])
def test_a_merge_that_fails_is_an_error(what: str, code: str) -> None:
    operator = query(Naughty(what))
    _, state = operator.open().advance(table([("a", 1, 1)]), {}, Moment())
    with pytest.raises(OperatorError) as caught:
        operator.open().merge([state, state], SCHEMA)
    assert (caught.value.code, caught.value.method) == (code, "merge")


def test_states_without_a_merge_are_not_merged() -> None:
    operator = query(Stretches())
    with pytest.raises(OperatorError) as caught:
        operator.open().merge([{}, {}], SCHEMA)
    assert caught.value.code == "operator.merge"


def test_a_state_of_other_types_is_refused() -> None:
    _, state = query(Range()).open().advance(table([("a", 1, 1)]), {}, Moment())
    with pytest.raises(OperatorError) as caught:
        query(Naughty()).open().advance(table([("a", 1, 1)]), state, Moment())
    assert caught.value.code == "operator.state"


def test_a_row_without_a_time_is_refused_on_a_stream() -> None:
    rows = table([("a", 1, 1)]).set_column(1, "ts", pa.array([None], pa.timestamp("us")))
    with pytest.raises(InputError) as caught:
        query(Range()).open().advance(rows, {}, Moment(5))
    assert caught.value.code == "input.null-time"
