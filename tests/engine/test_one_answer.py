"""Patterns, windows, users' operators and merged parts form the same keys and the same order, as Spark does.

The data is full of what could be answered in two ways: both zeros, NaNs of different bits, nulls, equal times, and
arrivals in no order. A plain Python twin says what is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trimtab
from trimtab.engine.columns import groups, keys
from trimtab.engine.columns.watermark import ONLY, StreamTime, TimeRule
from trimtab.engine.keyed.description import Logic, Snapshot
from trimtab.engine.match.scalars import compare
from trimtab.engine.operator import ARRIVAL, Moment, Operator, State
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query, operator_of

NANS = (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0xFFF0000000000F00)
ZEROS = tuple(np.array([0.0, -0.0]).view(np.uint64).tolist())
OTHERS = tuple(np.array([1.5, -1.5, np.inf, -np.inf]).view(np.uint64).tolist())
ORDERS = ("o", "o DESC", "o NULLS LAST", "o DESC NULLS FIRST")


@dataclass(frozen=True)
class Row:
    n: int
    ts: int  # seconds
    arrival: int
    k: int | None  # the bits of a double
    o: int | None

    @property
    def key(self) -> Hashable:
        return None if self.k is None else "NaN" if self.k in NANS else _double(self.k)


def _double(bits: int) -> float:
    return float(np.array([bits], np.uint64).view(np.float64)[0])


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Rows by time; those of one time and their arrivals in any order."""
    every = (*ZEROS, *NANS, *OTHERS, None)
    some = st.sampled_from(
        draw(st.sampled_from([every, ZEROS, NANS, (*ZEROS, None)]))
    )  # few values, so that some are equal
    drawn = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(every), some), max_size=24))
    arrivals = draw(st.permutations(range(len(drawn))))
    rows = zip(sorted(drawn, key=lambda row: row[0]), arrivals, strict=True)
    return [Row(n, ts, arrival, k, o) for n, ((ts, k, o), arrival) in enumerate(rows)]


def table_of(rows: Sequence[Row], kind: pa.DataType) -> pa.Table:
    def floats(values: Sequence[int | None]) -> pa.Array:
        doubles = np.array([value or 0 for value in values], np.uint64).view(np.float64)
        return pa.array(doubles, mask=np.array([value is None for value in values], np.bool_)).cast(kind)

    return pa.table(
        {
            "n": pa.array([row.n for row in rows], pa.int64()),
            "ts": pa.array([row.ts * 1_000_000 for row in rows], pa.timestamp("us")),
            "k": floats([row.k for row in rows]),
            "o": floats([row.o for row in rows]),
        }
    )


class _Seen:
    """Gives the numbers of rows in the order in which it gets them."""

    def on_rows(self, rows: pa.Table) -> pa.Table:
        return rows

    def snapshot(self) -> Snapshot | None:
        return None


@trimtab.operator("seen_in_order")
@dataclass(frozen=True)
class SeenInOrder(trimtab.KeyedOperator):
    """Every row of a key."""

    output = pa.schema([("n", pa.int64())])
    state = pa.schema([("nothing", pa.int64())])
    columns = ("n",)

    def open(self, snapshot: Snapshot | None) -> Logic:
        assert snapshot is None
        return _Seen()


@cache
def compiled(sql: str, kind: pa.DataType) -> Query:
    return compile_query(sql, {"t": table_of([], kind).schema}, event_time="ts")


RULE = TimeRule(delay_us=0)


def operands(query: Query, rows: Sequence[Row], kind: pa.DataType) -> pa.Table:
    table = query.intake.run(table_of(rows, kind)).drop([ARRIVAL])
    return table.append_column(ARRIVAL, pa.array([row.arrival for row in rows], pa.int64()))


def answer(query: Query, rows: Sequence[Row], kind: pa.DataType, cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
    """The output for the rows, cut into batches."""
    operator, time = operator_of(query), StreamTime()
    state: State = {}
    outputs: list[pa.Table] = []
    edges = [0, *cuts, len(rows)]
    for start, stop in itertools.pairwise(edges):
        newest_us = max((row.ts * 1_000_000 for row in rows[start:stop]), default=None)
        time = time.after({} if newest_us is None else {ONLY: newest_us}, RULE)
        moment = Moment(time.watermark_us, closing=len(outputs) == len(cuts))
        output, state = operator.advance(operands(query, rows[start:stop], kind), state, moment)
        outputs.append(output)
    return query.finish.run(pa.concat_tables(outputs)).to_pylist()  # type: ignore[no-any-return]


def together(
    query: Query, rows: Sequence[Row], kind: pa.DataType, owners: Sequence[int], order: Callable[[list[State]], Any]
) -> list[dict[str, Any]]:
    """The output if the rows are distributed over engines, and their states merged in some order."""
    operator: Operator = operator_of(query)
    parts = [[row for row, owner in zip(rows, owners, strict=True) if owner == number] for number in range(3)]
    states = [operator.partial(operands(query, part, kind)) for part in parts if part]
    nothing = operands(query, [], kind)
    state = operator.merge(order(states), nothing.schema)
    return query.finish.run(operator.advance(nothing, state, Moment(closing=True))[0]).to_pylist()  # type: ignore[no-any-return]


def partitions(rows: Sequence[Row]) -> dict[Hashable, list[Row]]:
    """The rows of each key by time and arrival."""
    found: dict[Hashable, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.ts, row.arrival)):
        found.setdefault(row.key, []).append(row)
    return found


def rank_of(row: Row, order: str) -> tuple[Any, ...]:
    """A sort key with the order of the SQL text: by time, and then by `o`."""
    descending = "DESC" in order
    nulls_first = "NULLS FIRST" in order or not (descending or "NULLS LAST" in order)
    if row.o is None:
        return row.ts, (not nulls_first), 0, 0.0
    is_nan = row.o in NANS
    sign = -1 if descending else 1
    return row.ts, nulls_first, is_nan * sign, 0.0 if is_nan else _double(row.o) * sign


def in_order(rows: Sequence[Row], order: str) -> dict[Hashable, list[Row]]:
    return {key: sorted(own, key=lambda row: rank_of(row, order)) for key, own in partitions(rows).items()}


def numbers(found: dict[Hashable, list[Row]]) -> list[list[int]]:
    return sorted([row.n for row in rows] for rows in found.values())


@pytest.fixture(autouse=True, scope="module", params=["few rows", "many rows"])
def _size(request: pytest.FixtureRequest) -> Any:
    """Few rows are numbered and sorted by Arrow and NumPy, many by machine code."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "many rows":
            patch.setattr(groups, "LARGE", 0)
            patch.setattr(keys, "LARGE", 0)
        yield


EXAMPLES = max(1, settings().max_examples // 2)  # each is run with few rows and with many
kinds = st.sampled_from([pa.float64(), pa.float32()])
cut_places = st.lists(st.integers(0, 24), max_size=4)


@settings(max_examples=EXAMPLES)
@given(streams(), st.sampled_from(ORDERS), kinds, cut_places)
def test_all_operators_form_the_same_keys_and_the_same_order(
    rows: list[Row], order: str, kind: pa.DataType, places: list[int]
) -> None:
    over = f"(PARTITION BY k ORDER BY ts, {order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    pattern = compiled(
        f"""SELECT ns FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, {order}
            MEASURES array_agg(A.n) AS ns PATTERN (A+))""",
        kind,
    )
    numbered = compiled(
        f"SELECT n, row_number() OVER {over} AS place, first_value(n) OVER {over} AS first FROM t", kind
    )
    own = compiled(f"SELECT k, n FROM seen_in_order(TABLE(t) PARTITION BY k ORDER BY (ts, {order}))", kind)
    expected = in_order(rows, order)
    for cuts in ((), sorted(min(place, len(rows)) for place in places)):
        assert sorted(row["ns"] for row in answer(pattern, rows, kind, cuts)) == numbers(expected)
        by_first: dict[Hashable, list[tuple[int, int]]] = {}
        for row in answer(numbered, rows, kind, cuts):
            by_first.setdefault(row["first"], []).append((row["place"], row["n"]))
        assert sorted([n for _, n in sorted(each)] for each in by_first.values()) == numbers(expected)
        seen: dict[Hashable, list[int]] = {}
        for row in answer(own, rows, kind, cuts):
            seen.setdefault(repr(row["k"]), []).append(row["n"])  # a key has the same text wherever it is cut
        assert sorted(seen.values()) == numbers(expected)
        assert set(seen) <= {"None", "nan", "0.0", "1.5", "-1.5", "inf", "-inf"}


@settings(max_examples=EXAMPLES)
@given(streams(), kinds, cut_places, st.lists(st.integers(0, 2), min_size=24, max_size=24), st.randoms())
def test_grouped_windows_form_these_keys_too_and_choose_by_this_order(
    rows: list[Row], kind: pa.DataType, places: list[int], owners: list[int], chance: Any
) -> None:
    grouped = compiled(
        """SELECT k, collect_list(n) AS ns, count(DISTINCT o) AS different, min(o) AS least, max(o) AS most,
            min_by(n, o) AS n_of_least, max_by(n, o) AS n_of_most, approx_top_k(o) AS often
            FROM t GROUP BY k, window(ts, '1000 seconds')""",
        kind,
    )
    whole = answer(grouped, rows, kind)
    cut = answer(grouped, rows, kind, sorted(min(place, len(rows)) for place in places))
    merged = together(grouped, rows, kind, owners[: len(rows)], lambda states: chance.sample(states, len(states)))
    assert sorted(map(repr, whole)) == sorted(map(repr, cut)) == sorted(map(repr, merged))  # to the sign of a zero
    assert sorted(row["ns"] for row in whole) == numbers(partitions(rows))
    for row in whole:
        own = [rows[n] for n in row["ns"]]
        assert repr(row["k"]) == repr({None: None, "NaN": float("nan")}.get(own[0].key, own[0].key or 0.0))
        known = [each for each in own if each.o is not None]
        assert row["different"] == len({"NaN" if each.o in NANS else _double(each.o or 0) for each in known})
        ranked = sorted(known, key=lambda each: rank_of(each, "o")[1:])  # stable: the first of equals stays first
        if not known:
            assert row["least"] is row["most"] is row["n_of_least"] is row["n_of_most"] is None
            continue
        least, most = ranked[0], next(each for each in ranked if _equal(each, ranked[-1]))
        assert (row["n_of_least"], row["n_of_most"]) == (least.n, most.n)
        assert compare(row["least"], _double(least.o or 0)) == compare(row["most"], _double(most.o or 0)) == 0


def _equal(one: Row, other: Row) -> bool:
    return compare(_double(one.o or 0), _double(other.o or 0)) == 0


@given(streams(), st.sampled_from(ORDERS), kinds, cut_places)
def test_equals_in_the_order_are_peers(rows: list[Row], order: str, kind: pa.DataType, places: list[int]) -> None:
    over = f"(PARTITION BY k ORDER BY ts, {order})"
    ranks = compiled(f"SELECT n, rank() OVER {over} AS place, dense_rank() OVER {over} AS dense FROM t", kind)
    expected = []
    for own in in_order(rows, order).values():
        places_of = [rank_of(row, order) for row in own]
        distinct = sorted(set(places_of))
        expected += [(r.n, places_of.index(p) + 1, distinct.index(p) + 1) for r, p in zip(own, places_of, strict=True)]
    for cuts in ((), sorted(min(place, len(rows)) for place in places)):
        found = answer(ranks, rows, kind, cuts)
        assert sorted((row["n"], row["place"], row["dense"]) for row in found) == sorted(expected)
