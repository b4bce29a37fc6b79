"""Operators run with their state kept whole, shuffled, and stored key by key: plain twins of what jobs do."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import reject

import trimtab
from tests.support.query_cases import SCHEMA
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
